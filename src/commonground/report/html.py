"""Pieces of HTML that cannot be broken by a name: whatever is put in as text is escaped here and nowhere else."""

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True)
class Html:
    """Text that is HTML already."""

    text: str

    def __str__(self) -> str:
        return self.text

    def __add__(self, other: "Html") -> "Html":
        return Html(self.text + other.text)


Text = str | Html


def safe(text: Text) -> str:
    """As it may stand in a document, also between quotes.

    >>> safe('<script> & "x"'), safe(Html("<b>"))
    ('&lt;script&gt; &amp; &quot;x&quot;', '<b>')
    """
    return text.text if isinstance(text, Html) else html.escape(text, quote=True)


def joined(parts: Iterable[Text]) -> Html:
    return Html("\n".join(safe(part) for part in parts))


def element(name: str, content: Text, **attributes: str) -> Html:
    """``class_`` is the attribute class, and ``aria_label`` is aria-label."""
    given = "".join(f' {key.rstrip("_").replace("_", "-")}="{safe(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{given}>{safe(content)}</{name}>")


def prose(text: Text) -> Html:
    """Text in which what stands between backticks is code.

    >>> str(prose("run `a < b` now"))
    'run <code>a &lt; b</code> now'
    """
    return Html(re.sub(r"`([^`]+)`", r"<code>\1</code>", safe(text))) if isinstance(text, str) else text


def paragraph(text: Text, **attributes: str) -> Html:
    return element("p", prose(text), **attributes)


def bullets(lines: Iterable[Text]) -> Html:
    return element("ul", joined(element("li", line) for line in lines))


def table(caption: Text, headings: Sequence[str], rows: Iterable[Sequence[Text]], numbers: Iterable[int] = ()) -> Html:
    """With a caption for those who cannot see; the first cell of a row is its heading; columns in ``numbers`` are flush right."""
    right = set(numbers)

    def cell(name: str, at: int, content: Text, scope: str = "") -> Html:
        attributes = {"class_": "number"} if at in right else {}
        return element(name, content, **attributes, **({"scope": scope} if scope else {}))

    head = element("tr", joined(cell("th", at, heading, "col") for at, heading in enumerate(headings)))
    body = [
        element("tr", joined(cell("td" if at else "th", at, one, "" if at else "row") for at, one in enumerate(row)))
        for row in rows
    ]
    inside = element("caption", caption) + element("thead", head) + element("tbody", joined(body))
    # Wide tables scroll inside their own frame, which the keyboard can reach.
    plain = caption if isinstance(caption, str) else "table"
    return element("div", element("table", inside), class_="scroll", tabindex="0", role="region", aria_label=plain)


def section(identifier: str, title: str, *content: Text) -> Html:
    heading = element("h2", title, id=identifier)
    return element("section", joined([heading, *content]), aria_labelledby=identifier)


def document(title: str, sections: Sequence[tuple[str, str, Html]], top: Text, foot: Text) -> str:
    """A whole file: ``sections`` are (identifier, name in the list of contents, content)."""
    style = files("commonground.report").joinpath("report.css").read_text(encoding="utf-8")
    links = joined(element("li", element("a", name, href=f"#{identifier}")) for identifier, name, _ in sections)
    contents = element("nav", element("ol", links), aria_label="Contents")
    body = joined(
        [
            element("a", "Skip to the report", href="#report", class_="skip"),
            element("header", joined([element("h1", title), top, contents])),
            element("main", joined(content for _, _, content in sections), id="report"),
            element("footer", foot),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{safe(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{safe(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def percent(share: float) -> str:
    """Three digits, whatever its size.

    >>> percent(0.0184), percent(0.5), percent(1e-7), percent(0.0), percent(0.99999)
    ('1.84 %', '50 %', '0.00001 %', '0 %', '99.999 %')
    """
    if 0.999 < share < 1.0:
        return f"{100 * share:.5g} %"
    text = f"{100 * share:.3g}"
    if "e" in text:
        text = f"{100 * share:.12f}".rstrip("0").rstrip(".")
    return f"{text} %"
