"""``python -m commonground``: the command line, where no script was installed."""

from commonground.cli import main

if __name__ == "__main__":  # an audit's processes import it by another name
    main()
