"""``python -m commonground``: the command line, where no script was installed."""

from commonground.cli import main

main()
