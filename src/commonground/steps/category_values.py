"""Values of a category, found privately: noisy counts of beginnings of words, letter by letter, each with a threshold.

Which values occur is private, and there is no list to count over. So the list is grown: all 256 bytes that a value can begin
with are counted, with noise; of those that stand out, all beginnings of two bytes; and so on until a value has come to its end.
At every step the candidates follow from what was released before, so a release is an ordinary noisy histogram over a public
list, and its cost adds up with all others: no part of δ is set aside for values that only one person has.

**Guarantee.** Unit: a person, replaced by any other. At each letter she is one vector with an equal share for every candidate
that one of her values begins with, scaled to norm one, so however many values she has; none of it is negative, so replacing her
moves the sum by at most √2 (``FeatureShares``). The number of letters is public (``longest``), and so is the threshold: a
multiple of the noise.
"""

import math
from statistics import NormalDist

import numpy as np
from scipy import sparse

from commonground.clipping.sums import FeatureShares
from commonground.data.unencoded import Unencoded
from commonground.gate import Gate

END = 0  # the byte that stands for the end of a value; a value that holds it is passed over
FALSE_VALUES = 0.05  # expected in a whole search, of candidates that nobody has
MOST_VALUES = 64  # beginnings that are followed, the most frequent ones


def release_category_values(people: Unencoded, column: str, longest: int, gate: Gate, mu: float) -> tuple[str, ...]:
    """The values of ``column`` that stand out of the noise, the most frequent first; all letters together cost ``mu``."""
    person, values = people.values_of(column)
    letters = longest + 1  # the last one is the end
    mu_letter = mu / math.sqrt(letters) * (1 - 1e-9)
    beginnings, found = [b""], []
    for at in range(letters):
        counts = _counts(person, values, beginnings, at, people.n_users)
        noisy = gate.release(counts.bounded(f"values of {column}, letter {at + 1}"), mu_letter)
        threshold = noisy.noise_std * NormalDist().inv_cdf(1.0 - FALSE_VALUES / (letters * noisy.value.size))
        standing_out = [place for place in np.argsort(-noisy.value, kind="stable") if noisy.value[place] > threshold]
        kept = [divmod(int(place), 256) for place in standing_out[:MOST_VALUES]]
        found += [(float(noisy.value[256 * one + END]), beginnings[one]) for one, letter in kept if letter == END]
        beginnings = [beginnings[one] + bytes([letter]) for one, letter in kept if letter != END]
        if not beginnings:
            break
    return tuple(text for _, value in sorted(found, reverse=True)[:MOST_VALUES] if (text := _text(value)))


def _counts(person: np.ndarray, values: list[bytes], beginnings: list[bytes], at: int, n_people: int) -> FeatureShares:
    """Over all candidates of one letter more: everybody's vector of norm one, added up."""
    place_of = {beginning: place for place, beginning in enumerate(beginnings)}
    places = np.fromiter(
        (
            -1
            if END in value or (place := place_of.get(value[:at], -1)) < 0
            else 256 * place + (value[at] if at < len(value) else END)
            for value in values
        ),
        dtype=np.int64,
        count=len(values),
    )
    here = places >= 0
    shape = (n_people, 256 * len(beginnings))
    has = sparse.csr_array((np.ones(int(here.sum())), (person[here], places[here])), shape=shape)
    has.sum_duplicates()
    has.data[:] = 1.0  # that she has it, not in how many values
    return FeatureShares.of(has, np.ones(n_people))


def _text(value: bytes) -> str:
    """Empty where a beginning was followed by chance into what is no text, or would be another value once it is trimmed."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return ""
    return text if text == text.strip() and text.isprintable() else ""
