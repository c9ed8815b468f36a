"""Opens the device, sends its facts, then answers each task with its result. Started by ``ssinghal.runner.pool``.

``python FOLDER_OF_THIS_FILE DESCRIPTOR LIFELINE``: a connection to the parent, which sends the device choice, the options, then
tasks, and a pipe that is closed when the parent has ended. The process ends with the connection, or with the pipe in a call.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
from multiprocessing.connection import Connection

from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.signals import OF_TERMINAL
from ssinghal.device.modes import DeviceChoice
from ssinghal.device.session import Session
from ssinghal.errors import DeviceError
from ssinghal.runner.lifeline import Lifeline
from ssinghal.runner.tasks import PoolOptions, Task

CLOSE_S = 60  # in which a device must close


def main() -> None:
    for number in OF_TERMINAL:
        signal.signal(number, signal.SIG_IGN)  # all of the group get it; the parent ends its workers itself
    descriptor, lifeline = int(sys.argv[1]), Lifeline(int(sys.argv[2]))
    os.set_inheritable(descriptor, False)  # a compiler that outlives this process must not keep the connection open
    with Connection(descriptor) as connection:
        choice, options = connection.recv()
        _limit_resources(choice, options)
        try:
            with lifeline.needed():
                session = _open(choice, options)
        except DeviceError as error:
            connection.send(error)
            return
        gc.freeze()  # what was imported is not searched at each collection, which takes 20 ms
        connection.send(session.facts)
        with session:
            _serve(connection, session, options, lifeline)
            signal.alarm(CLOSE_S)  # nobody may be there to end this process
        gc.unfreeze()  # or else ttnn's bindings report it as leaked


def _limit_resources(choice: DeviceChoice, options: PoolOptions) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if choice.mode in (DeviceMode.VIRTUAL, DeviceMode.GOLDEN):
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = options.address_space_bytes
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _open(choice: DeviceChoice, options: PoolOptions) -> Session:
    if choice.mode is not DeviceMode.GOLDEN:
        return Session(choice, with_torch=options.with_torch)
    from ssinghal.device.golden import GoldenSession

    return GoldenSession(choice)


def _serve(connection: Connection, session: Session, options: PoolOptions, lifeline: Lifeline) -> None:
    while True:
        try:
            task: Task[object] = connection.recv()
        except EOFError:
            return
        with lifeline.needed():
            answer = task.run(session, options)
        connection.send(answer)


if __name__ == "__main__":
    main()
