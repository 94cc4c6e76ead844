"""All commands: what `commonground --help` says of each, and where it is. A new command is one line of ``COMMANDS``.

This module is loaded for every help, so it imports nothing but the standard library.
"""

from typing import NamedTuple


class Command(NamedTuple):
    """A command, or a group of them."""

    line: str  # its help; tests/cli/test_start.py holds it against the command's own words
    file: str = "app"  # of this folder
    attribute: str = ""  # what it is called there; of those in app.py its name


COMMANDS = {  # in the order of the help
    "schema": Command(
        "Draft a schema: what each column of a table is. Not private: check it before it is used, as it is published.",
        "schema",
        "schema",
    ),
    "train": Command("Learn the shared part from everybody's rows and publish it as a billboard."),
    "statement": Command("Verify a billboard and print what it guarantees, to whom, and every release it rests on."),
    "plan": Command(
        "What refits under one yearly budget would bring: error by ε and number of refits, from a board; no rows are read.",
        "plan",
        "plan",
    ),
    "report": Command(
        "One page to look at and sign: the guarantee in words and numbers, where the budget went, what is published.",
        "report",
        "report",
    ),
    "page": Command(
        "A page on which a person makes her own model in her browser; nothing leaves it, and the browser sees to it.",
        "report",
        "page",
    ),
    "serve": Command("Look at that page from this machine alone (loopback); ends with Ctrl-C.", "report", "serve"),
    "personalize": Command(
        "Fit a head for each person of a table from the billboard and her own rows. The file is private to these people."
    ),
    "predict": Command("Answer each row by its person's own head, or by the shared part where she has none."),
    "evaluate": Command(
        "Held-out errors: of a board, with noise and a small charge (BOARD TABLE); or, NOT private, of models on a table.",
        "evaluate",
        "evaluate",
    ),
    "tune": Command(
        "Search for the best settings within one budget, by people's own held-out errors, and publish the winner.",
        "tune",
        "tune",
    ),
    "demo": Command(
        "Simulate people who share a subspace, train privately at several ε and compare with the alternatives."
    ),
    "audit": Command(
        "Try to tell two neighbouring populations apart, and print the ε this proves beside the claim.",
        "audit",
        "audit",
    ),
    "reproduce": Command(
        "Compute results of the papers again: ours, theirs, the difference, a verdict. Simulated throughout: NOT private.",
        "reproduce",
        "reproduce",
    ),
    "ledger": Command(
        "The durable budget: what may be spent on whom, what was, and what is left.", "ledger", "ledger_app"
    ),
    "federate": Command(
        "Data that may not move: rows stay at nodes, a server trains over them (Flower; extra 'federated').",
        "federate",
        "federate_app",
    ),
    "keys": Command(
        "Keys to sign boards with (`train --sign`) and to check whose they are (`statement --verify`).",
        "signing",
        "keys_app",
    ),
}
