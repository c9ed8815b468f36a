"""Writes the steps of a plan as functions: one for each module, and ``forward`` that calls them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ssinghal.device.code_writer import RecordedCall, references
from ssinghal.plan.program.functions import TOP, ModuleSteps, parts_of
from ssinghal.plan.program.recording import Holding, RecordedStep, Recording
from ssinghal.plan.program.residents import GEOMETRY, conv_constant
from ssinghal.plan.program.text import Names, Settings, broken, identifier, quoted, sentence_lines, shared_name
from ssinghal.plan.program.transcript import Freed

CONVOLUTIONS = frozenset({"ttnn.conv2d", "ttnn.conv1d", "ttnn.conv_transpose2d"})
GIVEN = ("x", "y", "z", "u", "v", "w")  # tensors that a function takes
KINDS = {  # what a call that only changes the form of a tensor makes of it
    "to_layout": "",
    "reshape": "reshaped",
    "permute": "permuted",
    "typecast": "cast",
    "to_memory_config": "moved",
    "interleaved_to_sharded": "sharded",
    "sharded_to_interleaved": "interleaved",
    "reallocate": "moved",
    "clone": "copy",
}


@dataclass
class _Scope:
    """The tensors that a function knows, by number, and the names that it has given.

    ``prefix``: with which the names of weights begin that it makes of the name of its module.
    """

    names: Names = field(default_factory=Names)
    known: dict[int, str] = field(default_factory=dict)
    bases: dict[int, str] = field(default_factory=dict)
    prefix: str = ""

    def add(self, number: int, wanted: str, base: str = "") -> str:
        self.bases[number] = base or wanted
        self.known[number] = self.names.take(wanted)
        return self.known[number]


@dataclass(frozen=True)
class Body:
    """``functions``: their lines. ``forward``: its lines. ``results``: of the model, with the variables that hold them.

    ``observed``: the modules whose results are compared.
    """

    functions: list[list[str]]
    forward: list[str]
    results: list[tuple[str, Holding]]
    inputs: list[str]


class BodyWriter:
    """Writes the functions of a recorded run. ``weights``: key of each resident tensor by its number."""

    def __init__(self, recording: Recording, weights: Mapping[int, str], settings: Settings) -> None:
        self.recording, self.weights, self.settings = recording, weights, settings
        self.parts = parts_of(recording.steps)
        self._names = Names(["forward", "main", "build_model", "prepare_weights", "place_weights"])
        self._uses = self._later_uses()
        self._called: dict[int, tuple[str, bool]] = {}

    def body(self) -> Body:
        scope = _Scope()
        inputs = []
        for position, (_, holding) in enumerate(self.recording.inputs.items()):
            wanted = "x" if len(self.recording.inputs) == 1 else f"input_{position}"
            scope.known[holding.number] = wanted if wanted == "x" else scope.names.take(wanted)
            scope.bases[holding.number] = wanted
            inputs.append(scope.known[holding.number])
        functions, forward = self._functions(), list[str]()
        for position, part in enumerate(self.parts):
            if part.is_function:
                forward += self._function_call(position, scope)
            else:
                forward += self._statements(part, scope, "    ")
            forward += self._check(position, part, scope)
        held = self.recording.steps[-1].held
        results = [
            (scope.known.get(held[n].number) or self._weight(held[n].number), held[n]) for n in self.recording.trace.results
        ]
        return Body(functions, forward, results, inputs)

    # Which tensors go where ---------------------------------------------------------------------------------------------

    def _later_uses(self) -> list[set[int]]:
        """Returns for each part the tensors that parts after it, or the results, refer to."""
        final = {self.recording.steps[-1].held[n].number for n in self.recording.trace.results}
        uses: list[set[int]] = []
        for part in reversed(self.parts):
            uses.insert(0, set(final))
            final |= set(self._referred(part))
        return uses

    def _referred(self, part: ModuleSteps) -> Iterator[int]:
        for step in part.steps:
            for event in step.events:
                if isinstance(event, Freed):
                    yield event.number
                else:
                    yield from (ref.number for ref in references(event))

    def _weight(self, number: int, prefix: str = "") -> str:
        key = self.weights[number]
        if prefix and key.startswith(prefix):
            return f'weights[f"{{name}}.{quoted(key.removeprefix(prefix))[1:]}]'
        return f"weights[{quoted(key)}]"

    # Functions ----------------------------------------------------------------------------------------------------------

    def _functions(self) -> list[list[str]]:
        """Writes the functions; modules that differ in nothing but the names of their weights share one."""
        alike: dict[tuple[str, ...], list[int]] = {}
        for position, part in enumerate(self.parts):
            if part.is_function:
                alike.setdefault(tuple(self._function(position, part, "function", is_shared=True)), []).append(position)
        functions = []
        for _, positions in sorted(alike.items(), key=lambda item: item[1]):
            paths = [self.parts[position].path for position in positions]
            is_shared = len(set(paths)) > 1
            name = self._names.take(identifier(shared_name(paths) if is_shared else paths[0]))
            functions.append(self._function(positions[0], self.parts[positions[0]], name, is_shared=is_shared, paths=paths))
            for position in positions:
                self._called[position] = (name, is_shared)
        return functions

    def _given(self, position: int) -> list[int]:
        """Returns the tensors that a part takes: made before it, and no weights."""
        part = self.parts[position]
        made = self._made(part)
        return list(dict.fromkeys(n for n in self._referred(part) if n not in made and n not in self.weights))

    def _returned(self, position: int) -> list[int]:
        return [n for n in sorted(self._made(self.parts[position])) if n in self._uses[position]]

    def _made(self, part: ModuleSteps) -> set[int]:
        return {n for step in part.steps for event in step.events if isinstance(event, RecordedCall) for n in event.results}

    def _function(
        self, position: int, part: ModuleSteps, name: str, *, is_shared: bool, paths: Sequence[str] = ()
    ) -> list[str]:
        scope = _Scope(prefix=f"{part.path}." if is_shared else "")
        given = self._given(position)
        for count, number in enumerate(given):
            wanted = GIVEN[count] if count < len(GIVEN) else f"x_{count}"
            scope.known[number] = scope.bases[number] = wanted
        scope.names = Names([*scope.known.values(), "name"])
        statements = self._statements(part, scope, "    ")
        arguments = [*(scope.known[n] for n in given), *self._more(statements, is_shared=is_shared)]
        shape = " ".join(self._shape(n) for n in part.steps[-1].results)
        of = f"{', '.join(dict.fromkeys(paths))}" if is_shared else part.path
        described = sentence_lines(f"{of}: {shape}.", "    ")
        lines = [f"def {name}({', '.join(arguments)}):", *(described if paths else []), *statements]
        returned = self._returned(position)
        return [*lines, f"    return {', '.join(scope.known[n] for n in returned)}"] if returned else lines

    def _more(self, statements: Sequence[str], *, is_shared: bool) -> list[str]:
        """Returns the arguments of a function besides its tensors."""
        text = "\n".join(line for line in statements if not line.strip().startswith("#"))
        names = [("weights", "weights["), ("name", 'f"{name}.'), ("device", "device=device")]
        return [name for name, use in names if use in text and (name != "name" or is_shared)]

    def _function_call(self, position: int, outer: _Scope) -> list[str]:
        part, (name, is_shared) = self.parts[position], self._called[position]
        statements = self._function(position, part, name, is_shared=is_shared)
        more = [quoted(part.path) if word == "name" else word for word in self._more(statements, is_shared=is_shared)]
        passed = ", ".join([*(outer.known[n] for n in self._given(position)), *more])
        returned = self._returned(position)
        for count, number in enumerate(returned):
            wanted = f"{identifier(part.path)}_out"
            outer.add(number, wanted if len(returned) == 1 else f"{wanted}{count + 1}")
        target = ", ".join(outer.known[n] for n in returned)
        return broken(f"{target} = " if returned else "", f"{name}({passed})", "    ")

    def _shape(self, value: int) -> str:
        return str(list(self.recording.trace.values[value].shape))

    # Statements ---------------------------------------------------------------------------------------------------------

    def _statements(self, part: ModuleSteps, scope: _Scope, indent: str) -> list[str]:
        lines: list[str] = []
        for step in part.steps:
            if not step.events:
                continue
            own = step.at.removeprefix(scope.prefix) if step.at != scope.prefix.rstrip(".") else ""
            where = f"{own}: " if own not in ("", TOP) else ""
            lines.append(f"{indent}# {where}{step.operator} {' '.join(map(self._shape, step.results))}")
            for event in step.events:
                if isinstance(event, Freed):
                    lines.append(f"{indent}ttnn.deallocate({self._name(event.number, scope)})")
                else:
                    lines += self._call(part, step, event, scope, indent)
        return lines

    def _call(self, part: ModuleSteps, step: RecordedStep, call: RecordedCall, scope: _Scope, indent: str) -> list[str]:
        kind = call.function.rpartition(".")[2]
        arguments = [self.settings.python(a, lambda n: self._name(n, scope)) for a in call.args]
        constant = conv_constant(self.settings, call.function, call.kwargs) if call.function in CONVOLUTIONS else ""
        for key, value in call.kwargs:
            if not (constant and key in GEOMETRY) and not (value is None and key == "bias_tensor"):
                arguments.append(f"{key}={self.settings.python(value, lambda n: self._name(n, scope))}")
        if constant:
            arguments.append(f"**{constant}")
        held = {holding.number for value, holding in step.held.items() if value in step.results}
        for number in call.results:
            scope.add(number, *self._wanted(part, step, call, number, kind, number in held, scope))
        names = ", ".join(scope.known[n] for n in call.results)
        target = f"{names}{',' if call.is_list and len(call.results) == 1 else ''} = " if call.results else ""
        return broken(target, f"{call.function}({', '.join(arguments)})", indent)

    def _wanted(
        self, part: ModuleSteps, step: RecordedStep, call: RecordedCall, number: int, kind: str, is_result: bool, scope: _Scope
    ) -> tuple[str, str]:
        """Returns the name that a result should have, and the one from which names of its other forms are made."""
        source = next((ref.number for ref in references(call) if ref.number in scope.bases), None)
        if kind in KINDS and source is not None and not (is_result and step.operator not in ("view", "clone")):
            base = scope.bases[source]
            suffix = KINDS[kind] or ("rows" if "ROW_MAJOR" in self.recording.facts[number].layout else "tiles")
            return f"{base}_{suffix}", base
        own = step.at[len(part.path) :].strip(".") if step.at.startswith(part.path) and step.at != TOP else step.at
        if not part.is_function and part.path == step.at:
            own = step.at.rpartition(".")[2]
        base = identifier(own) if own not in ("", TOP) else identifier(step.operator)
        base = base if is_result or kind in step.operator else f"{base}_{kind}"
        return base, base

    def _name(self, number: int, scope: _Scope) -> str:
        return scope.known[number] if number in scope.known else self._weight(number, scope.prefix)

    # Comparison ---------------------------------------------------------------------------------------------------------

    def _check(self, position: int, part: ModuleSteps, scope: _Scope) -> list[str]:
        """Returns the line that compares the result of a module with torch's, where it has one result and runs once."""
        inside = [step for step in self.recording.steps if f"{step.at}.".startswith(f"{part.path}.")]
        if not part.path or len(inside) > len(part.steps):  # it runs again, or goes on
            return []
        made = {value for step in part.steps for value in step.results}
        after = [step for other in self.parts[position + 1 :] for step in other.steps]
        read = {value for step in after for value in step.operands} | set(self.recording.trace.results)
        leaving = [value for value in sorted(made) if value in read]
        held = part.steps[-1].held
        if len(leaving) != 1 or leaving[0] not in held or held[leaving[0]].number not in scope.known:
            return []
        creator = self.recording.trace.values[leaving[0]].name  # a batch norm, where it is folded into the convolution
        path = part.path if f"{creator}.".startswith(f"{part.path}.") else creator
        name = scope.known[held[leaving[0]].number]
        return broken("", f"check({quoted(path)}, {name}, {form(held[leaving[0]])})", "    ")


def form(holding: Holding) -> str:
    """Returns how torch's tensor is read from a device tensor: its axes there, their order in torch, and torch's shape."""
    axes = holding.axes
    sizes = [axes.sizes[a] for a in axes.order]
    order = [axes.order.index(a) for a in axes.atoms_of(range(len(axes.dims)))]
    return f"{sizes}, {order}, {list(axes.shape)}"


def all_lines(groups: Iterable[list[str]]) -> list[str]:
    """Joins functions with the empty lines between them."""
    return [line for group in groups for line in ("", "", *group)]
