"""The program ``ssinghal``, also as ``python -m ssinghal``. Ctrl-C while its code is loaded ends it as any other."""

import sys


def main() -> None:
    try:
        from ssinghal.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("ssinghal: interrupted\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
