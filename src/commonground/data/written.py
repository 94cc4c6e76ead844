"""Text that was meant as numbers or dates: what a spreadsheet, a form or a hurried hand has made of them.

For the operator, who can write them again; nothing is guessed. In words, without a cell.
"""

import re
from collections.abc import Sequence

MOST_VALUES = 1_000  # the most frequent ones are looked at
MOSTLY = 0.8  # of different values: numbers, where the others stand for something that is none

_NUMBER = re.compile(r"[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|inf|infinity)", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_COMMA_AND_THREE = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")
# Thousands apart by commas, blanks or apostrophes; signs of money or a percent sign on either side; brackets for a loss.
_DRESSED = re.compile(
    r"[-+(]*(?P<before>[$€£¥₹]|[A-Z]{3})?\s*[-+]?(\d{1,3}([, '\u2019\u00a0\u202f]\d{3})+|\d+)([.,]\d+)?\s*"
    r"(?P<after>%|‰|[$€£¥₹]|[^\W\d_]{1,6}[²³]?|°[CF]?)?\)?"
)
_DATE = re.compile(
    r"(\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|\d{1,2}\.?[ -][^\W\d_]{3,9}\.?,?[ -]\d{2,4}|[^\W\d_]{3,9}\.? \d{1,2},? \d{2,4})"
    r"([ T,]+\d{1,2}:\d{2}(:\d{2})?( ?[AaPp]\.?[Mm]\.?)?)?"
)


def meant_as(values: Sequence[str]) -> str:
    """What these values, the most frequent first, look like, and what to do; empty where they are text indeed.

    >>> meant_as(["1,5", "2,25"])
    'numbers with a decimal comma, which are read as text: write them with a point'
    >>> meant_as(["$1,200", "$950", "$12"]) == meant_as(["12%", "7%", "30%"]) == meant_as(["170 cm", "1 cm", "2 cm"])
    True
    >>> meant_as(["31.12.2020", "1.2.2021"])
    'dates that are not written as 2020-01-31 or 2020-01-31T12:00: write them so'
    >>> meant_as(["1", "2", "3", "4", "unknown"])
    'numbers, and text in some cells: leave these cells empty, or write a number there'
    >>> meant_as(["71,5", "81.4", "70,25", "66", "refused"])[:28]
    'numbers with a decimal comma'
    >>> meant_as(["S", "M", "L"]), meant_as(["1st", "2nd", "3rd"]), meant_as([])
    ('', '', '')
    """
    looked_at = [value.strip() for value in values[:MOST_VALUES]]
    if not looked_at:
        return ""
    if _all(looked_at, _COMMA_AND_THREE):
        return "numbers with a comma before three digits: for thousands write none, for decimals a point"
    if _all(looked_at, _DECIMAL_COMMA):
        return "numbers with a decimal comma, which are read as text: write them with a point"
    if _all(looked_at, _DATE):
        return "dates that are not written as 2020-01-31 or 2020-01-31T12:00: write them so"
    if _are_dressed(looked_at):
        return "numbers with signs, units or separators around them, which are read as text: write the numbers alone"
    commas = sum(_DECIMAL_COMMA.fullmatch(value) is not None for value in looked_at)
    bare = commas + sum(_NUMBER.fullmatch(value) is not None for value in looked_at)
    if bare >= 3 and MOSTLY * len(looked_at) <= bare < len(looked_at):
        points = " with a decimal comma, which are read as text: write them with a point" if commas else ""
        return f"numbers{points}, and text in some cells: leave these cells empty, or write a number there"
    return ""


def _all(values: Sequence[str], pattern: re.Pattern[str]) -> bool:
    return all(map(pattern.fullmatch, values))


def _are_dressed(values: Sequence[str]) -> bool:
    """All of them, at least three, and with one and the same sign or unit where they have letters: 12A and 12B are names."""
    found = [_DRESSED.fullmatch(value) for value in values]
    if len(values) < 3 or not all(found):
        return False
    around = {(one["before"], one["after"]) for one in found if one is not None}
    letters = {side for pair in around for side in pair if side is not None and side.isalpha()}
    return len(letters) <= 1 and (not letters or len(around) == 1)
