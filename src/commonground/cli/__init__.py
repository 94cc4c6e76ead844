"""The command line: one file a group of commands; `app.py` has those for everybody's day."""


def main() -> None:
    """Run one command; what it needs is loaded with it."""
    from commonground.cli.app import main as run

    run()
