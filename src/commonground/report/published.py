"""What is published: pictures of the embedding, the shared coefficients and the prior of heads, with the features' names."""

from typing import Any

import numpy as np

from commonground.heads.classes import scores_by_class, spread_by_class
from commonground.report.drawing import figure, heat_map, signed_bars
from commonground.report.html import Html, element, paragraph, percent, section, table
from commonground.report.spending import hidden

MOST_ROWS_DRAWN = 40  # rows of a picture; a table of thousands of items would be no picture


def published(board: Any) -> Html:
    d, k = board.n_features, board.rank
    names = list(board.feature_names or [f"feature {at}" for at in range(d)])
    statement = board.statement
    label = f" for {statement.label!r}" if statement.label else ""
    parts: list[Html] = [
        paragraph(
            f"{d:,} features, {k} shared directions{label}, and nobody's own model. A person's"
            " coefficients are the shared ones plus her own few numbers on the directions."
        ),
        sharing(statement),
    ]
    if k:
        strength = np.sqrt((board.embedding**2).sum(axis=1))
        chosen = _largest(strength)
        shown = f"the {len(chosen)} features that they use most, of {d:,}" if len(chosen) < d else "all features"
        parts += [
            element("h3", "Shared directions (embedding)"),
            figure(
                heat_map(
                    [names[i] for i in chosen],
                    [str(c + 1) for c in range(k)],
                    board.embedding[chosen],
                    "Embedding: features by directions",
                ),
                f"Directions by column, {shown}. The larger a square, the more a direction uses the feature; the"
                " colour is the sign, which means something only relative to the others of its column.",
            ),
        ]
    if board.class_scores is not None:
        parts += _of_classes(board, names)
    elif board.mean is not None:
        chosen = _largest(np.abs(board.mean))
        shown = f"the {len(chosen)} largest of {d:,}" if len(chosen) < d else "all of them"
        parts += [
            element("h3", "Shared coefficients (mean)"),
            figure(
                signed_bars([names[i] for i in chosen], board.mean[chosen], "Shared coefficients by feature"),
                f"What one more unit of a feature adds to the shared prediction; {shown}. Shared intercept:"
                f" {board.intercept:.4g}.",
            ),
        ]
    else:
        parts.append(paragraph(f"No shared coefficients are published; the shared intercept is {board.intercept:.4g}."))
    parts += [] if board.class_scores is not None else _prior(board)
    if statement.private and statement.events:
        parts += [element("h3", "What the noise hides"), hidden(statement, statement.n_users)]
    return section("published", "What is published", *parts)


def sharing(statement: Any) -> Html:
    verdict = statement.sharing_pays
    if verdict is None:
        return paragraph("Whether sharing pays was not judged for this kind of model.")
    if verdict:
        return paragraph(
            "Sharing is expected to pay, judged by public numbers: people, features, directions and ε.", class_="good"
        )
    return paragraph(
        "Sharing is not expected to pay: people are too few at this ε for what is shared to be more than noise. Own"
        " data alone will mostly do better.",
        class_="warning",
    )


def _largest(sizes: np.ndarray) -> np.ndarray:
    """Positions of the largest, in the order of the table."""
    return np.sort(np.argsort(-sizes, kind="stable")[:MOST_ROWS_DRAWN])


def _of_classes(board: Any, names: list[str]) -> list[Html]:
    """Shared scores of several classes, and how far people's own differ from them."""
    coef, intercepts = scores_by_class(board.class_scores)
    classes, chosen = [str(name) for name in board.classes], _largest(np.abs(coef).max(axis=1))
    shown = (
        f"the {len(chosen)} features that count most, of {len(coef):,}" if len(chosen) < len(coef) else "all features"
    )
    rows = [
        (name, f"{level:.4g}", f"{spread:.4g}")
        for name, level, spread in zip(classes, intercepts, spread_by_class(board.spread), strict=True)
    ]
    return [
        element("h3", "Shared scores of classes"),
        figure(
            heat_map([names[i] for i in chosen], classes, coef[chosen], "Coefficients: features by classes"),
            f"What one more unit of a feature adds to the score of each class, {shown}; the class with the highest score is the"
            " likeliest. The larger a square, the more; the colour is the sign.",
        ),
        paragraph(
            "Everybody has intercepts of her own beside these, from her own rows; who has few is pulled to the shared ones"
            " by how far people differ."
        ),
        table(
            "Classes: shared intercepts, and the standard deviation of people's own",
            ("class", "shared intercept", "people's own"),
            rows,
            numbers=(1, 2),
        ),
    ]


def _prior(board: Any) -> list[Html]:
    spread, prior = board.spread, board.prior
    if spread is not None:
        q, offset = len(spread), len(spread) - board.rank
        rows = [("own intercept", f"{np.sqrt(spread[0, 0]):.4g}")] if offset else []
        rows += [
            (f"direction {at + 1}", f"{np.sqrt(max(spread[offset + at, offset + at], 0.0)):.4g}")
            for at in range(q - offset)
        ]
        rows.append(("labels about a person's own model", f"{np.sqrt(board.noise):.4g}"))
        words = (
            "How far people differ: the released prior of heads. A person with few rows is pulled to the shared"
            " prediction accordingly."
        )
        shown = [
            element("h3", "How people differ (prior of heads)"),
            paragraph(words),
            table("Standard deviations over people", ("of", "standard deviation"), rows, numbers=(1,)),
        ]
        return shown + _spectrum(np.linalg.eigvalsh(spread[offset:, offset:])[::-1])
    if prior is None or not board.rank:
        return []
    words = (
        "The released prior of heads is a ridge matrix; the smaller its value along a direction, the more people"
        " differ there."
    )
    return [
        element("h3", "How people differ (prior of heads)"),
        paragraph(words),
        *_spectrum(1.0 / np.linalg.eigvalsh(prior)),
    ]


def _spectrum(values: np.ndarray) -> list[Html]:
    """Shares of people's spread by principal direction."""
    total = float(values.sum())
    if not len(values) or not total > 0:
        return []
    rows = [(f"principal direction {at + 1}", percent(float(value) / total)) for at, value in enumerate(values)]
    return [
        table(
            "Spectrum: how people's differences are spread over the directions",
            ("direction", "share"),
            rows,
            numbers=(1,),
        )
    ]
