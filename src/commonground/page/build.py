"""One HTML file out of the modules beside this one: script and style inlined, named by their hashes in the page's own policy.

The modules are plain ECMAScript that a browser or Node can import as they are. Here their ``import`` lines go, ``export`` is
taken off, and they are put one after the other, each behind those that it imports. What is read in this folder is what runs.
"""

import base64
import hashlib
import html
import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from commonground.errors import InputError
from commonground.report.attack import curve_of
from commonground.report.guarantee import in_plain_words

if TYPE_CHECKING:
    from commonground.billboard.board import Billboard

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z0-9]+\.js)";$', re.M)
_NAME = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) ([A-Za-z_$][\w$]*)", re.M)


def module(name: str) -> str:
    """The text of one file of this folder."""
    return files("commonground.page").joinpath(name).read_text(encoding="utf-8")


def in_order(name: str, done: list[str] | None = None) -> list[str]:
    """A module behind all that it imports, each once."""
    done = [] if done is None else done
    for other in _IMPORT.findall(module(name)):
        if other not in done:
            in_order(other, done)
    done.append(name)
    return done


def script() -> str:
    """All modules as one; a name that two of them have at their top is a mistake of ours."""
    parts, seen = [], dict[str, str]()
    for name in in_order("app.js"):
        text = module(name)
        for own in _NAME.findall(text):
            assert own not in seen, f"{own} is in {seen[own]} and in {name}"
            seen[own] = name
        parts.append(f"// ---- {name}\n" + re.sub(r"^export ", "", _IMPORT.sub("", text), flags=re.M).strip())
    return "\n\n".join(["", *parts, ""])


def digest(text: str) -> str:
    """As a policy names an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode()}'"


def policy(code: str, style: str) -> str:
    """Nothing may be loaded or sent: this script and this style run, and that is all."""
    rules = (
        "default-src 'none'",
        f"script-src {digest(code)}",
        f"style-src {digest(style)}",
        "img-src data:",
        "connect-src 'none'",
        "form-action 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",  # text is never made HTML, by whatever mistake
        "trusted-types 'none'",
    )
    return "; ".join(rules)


def page_of_board(board: "Billboard", arrays: bytes, item: str | None = None) -> str:
    """The page; ``arrays`` are the board's very bytes, ``item`` the column of one-hot items where rows are ratings."""
    board.require_one_number("a page for people")
    if item is not None and board.schema is not None:
        raise InputError("a board with a schema has no column of items. Leave --item out.")
    code, style, s = script(), module("page.css"), board.statement
    what = s.label or (board.schema.label.name if board.schema else "")
    published: dict[str, Any] = {
        "arrays": base64.b64encode(arrays).decode(),
        "sha256": hashlib.sha256(arrays).hexdigest(),
        "feature_names": board.feature_names,
        "fit_intercept": board.fit_intercept,
        "heads": board.head_kind.to_json(),
        "schema": None if board.schema is None else board.schema.to_json(),
        "label": what or None,
        "sharing_pays": s.sharing_pays,
        "item": item,
    }
    told = _guarantee(s)
    fills = {
        "policy": html.escape(policy(code, style)),
        "title": html.escape(f"Predict {what} for yourself" if what else "A model of your own"),
        "lead": html.escape(
            f"A shared model was learned from {s.n_users:,} people. Give it some rows of your own, and it becomes"
            " yours: made here, by you, seen by nobody else."
        ),
        "plain": html.escape(told[0]),
        "numbers": html.escape(told[1]),
        "sha256": published["sha256"],
        "foot": html.escape(
            f"Made by commonground {s.software.get('commonground', '')} from a billboard of {s.algorithm}."
        ),
        # Not HTML: what would end the element is spelled in JSON's own way.
        "board": (
            json.dumps(published, ensure_ascii=True)
            .replace("<", "\\u003c")
            .replace(">", "\\u003e")
            .replace("&", "\\u0026")
        ),
        "style": style,
        "script": code,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: fills[place[1]], module("page.html"))


def _guarantee(statement: Any) -> tuple[str, str]:
    s = statement
    if not s.private:
        return (
            "NOT PRIVATE: this model was trained without any protection.",
            "Whoever sees it may learn anything about its people.",
        )
    if not s.events:
        return "Nothing that depends on anybody's data is published here.", ""
    words = in_plain_words(s, f"{s.n_users:,} people", curve_of(s.events))
    numbers = f"In numbers: ε = {s.epsilon:g}, δ = {s.delta:g}, for one {s.unit} with all of her rows ({s.relation})."
    if s.simulated:
        words = "SIMULATED, NOT PRIVATE: the noise comes from a known seed and protects nobody. " + words
    return words, numbers
