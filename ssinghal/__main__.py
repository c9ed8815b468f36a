"""``python -m ssinghal``: the command line, where its script is not on PATH."""

from ssinghal.cli import main

if __name__ == "__main__":
    main()
