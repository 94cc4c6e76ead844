"""The command line: `commands.py` lists all commands, each in the file of its group; `app.py` has the everyday ones."""

import sys


def main() -> None:
    """Run one command; what it needs is loaded with it."""
    if sys.argv[1:] in ([], ["--help"], ["--version"]):
        from commonground.cli.lazy import first_help

        first_help()
    else:
        from commonground.cli.app import main as run

        run()
