"""A training run across owners that can be interrupted: its journal, and what becomes of it."""

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from commonground.gate.journal import Journal
from commonground.gate.kept_steps import Replay


@contextmanager
def kept_in(place: str | os.PathLike[str] | None, estimator: Any, public: Mapping[str, Any]) -> Iterator[Replay | None]:
    """What the run goes on from; removed when it is done, or where nothing was released yet.

    ``public``: what the interrupted and the resumed run have in common, beside the estimator's parameters.
    """
    if place is None:
        yield None
        return
    journal = Journal(place)
    try:
        settings = {name: repr(value) for name, value in sorted(estimator.get_params(deep=False).items())}
        journal.begin({"estimator": type(estimator).__name__, **settings, **public, "version": version("commonground")})
        if not journal.claims:
            journal.claim(secrets.token_hex(8))
        yield Replay(journal)
        journal.remove()
    except Exception:
        if journal.description is not None and not journal.entries:
            journal.remove()
        raise
    except BaseException as interrupted:
        interrupted.add_note(
            f"{len(journal.entries)} releases are kept in {journal.path}: the same fit with it goes on from there."
        )
        raise
    finally:
        journal.close()
