"""Pictures as SVG, written by hand: no library, no script, colours from the page so that they follow light and dark."""

from collections.abc import Sequence

import numpy as np

from commonground.report.html import Html, element, joined, safe

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 520.0, 340.0, 58.0, 46.0, 14.0, 14.0


def _svg(width: float, height: float, title: str, inside: str) -> Html:
    return Html(
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{safe(title)}" class="picture" '
        f'style="max-width:{width:g}px">{inside}</svg>'
    )


def figure(picture: Html, caption: str) -> Html:
    return element("figure", joined([picture, element("figcaption", caption)]))


def _path(xs: Sequence[float], ys: Sequence[float]) -> str:
    return "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))


def tradeoff(lines: Sequence[tuple[str, np.ndarray, np.ndarray]], title: str) -> Html:
    """True positives over false positives on logarithmic axes from 1/10,000 to 1; the first line is drawn strongest."""
    low = 1e-4

    def x(values: np.ndarray) -> np.ndarray:
        return LEFT + (WIDTH - LEFT - RIGHT) * (1.0 - np.log10(np.clip(values, low, 1.0)) / np.log10(low))

    def y(values: np.ndarray) -> np.ndarray:
        return TOP + (HEIGHT - TOP - BOTTOM) * np.log10(np.clip(values, low, 1.0)) / np.log10(low)

    parts = []
    for tick, name in ((1e-4, "0.01 %"), (1e-3, "0.1 %"), (1e-2, "1 %"), (0.1, "10 %"), (1.0, "100 %")):
        at_x, at_y = float(x(np.array(tick))), float(y(np.array(tick)))
        parts.append(
            f'<path class="grid" d="M{at_x:.1f},{TOP} V{HEIGHT - BOTTOM:g} M{LEFT},{at_y:.1f} H{WIDTH - RIGHT:g}"/>'
        )
        anchor = "end" if tick == 1.0 else "middle"
        parts.append(f'<text x="{at_x:.1f}" y="{HEIGHT - BOTTOM + 16:g}" text-anchor="{anchor}">{name}</text>')
        parts.append(f'<text x="{LEFT - 6:g}" y="{at_y + 4:.1f}" text-anchor="end">{name}</text>')
    parts.append(
        f'<text x="{(LEFT + WIDTH) / 2:g}" y="{HEIGHT - 8:g}" text-anchor="middle">innocent people accused</text>'
    )
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text transform="translate(12 {middle:g}) rotate(-90)" text-anchor="middle">people found</text>')
    parts.append(f'<path class="chance" d="{_path([LEFT, WIDTH - RIGHT], [HEIGHT - BOTTOM, TOP])}"/>')
    for at, (name, fprs, powers) in enumerate(lines):
        parts.append(f'<path class="line line{min(at, 3)}" d="{_path(x(fprs).tolist(), y(powers).tolist())}"/>')
        place = len(fprs) // 2 - 12 * at
        parts.append(
            f'<text class="name" x="{float(x(fprs[place])) - 6:.1f}" y="{float(y(powers[place])) - 8:.1f}"'
            f' text-anchor="end">{safe(name)}</text>'
        )
    parts.append(f'<text class="name" x="{WIDTH - 150:g}" y="{TOP + 92:g}">blind guessing</text>')
    return _svg(WIDTH, HEIGHT, title, "".join(parts))


def bar(share: float, title: str) -> Html:
    """A bar in a cell of a table."""
    length = max(0.0, min(1.0, share)) * 100.0
    return Html(
        f'<svg viewBox="0 0 100 10" class="bar" role="img" aria-label="{safe(title)}" preserveAspectRatio="none">'
        f'<rect class="back" width="100" height="10"/><rect class="front" width="{length:.2f}" height="10"/></svg>'
    )


def heat_map(names: Sequence[str], columns: Sequence[str], values: np.ndarray, title: str) -> Html:
    """Signed numbers as squares: colour for the sign, size for the magnitude, so that it reads without colour, too."""
    cell, left, top = 22.0, 170.0, 26.0
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    parts = [
        f'<text x="{left + cell * (at + 0.5):g}" y="{top - 8:g}" text-anchor="middle">{safe(name)}</text>'
        for at, name in enumerate(columns)
    ]
    for row, name in enumerate(names):
        shown = name if len(name) <= 24 else name[:23] + "…"
        middle = top + cell * (row + 0.5)
        parts.append(f'<text x="{left - 8:g}" y="{middle + 4:g}" text-anchor="end">{safe(shown)}</text>')
        for column in range(len(columns)):
            value = float(values[row, column])
            half = 0.48 * cell * np.sqrt(abs(value) / largest)
            x = left + cell * (column + 0.5)
            parts.append(
                f'<rect class="{"plus" if value >= 0 else "minus"}" x="{x - half:.2f}" y="{middle - half:.2f}"'
                f' width="{2 * half:.2f}" height="{2 * half:.2f}"><title>{safe(name)}, {safe(columns[column])}:'
                f" {value:.4g}</title></rect>"
            )
    return _svg(left + cell * len(columns) + 12, top + cell * len(names) + 8, title, "".join(parts))


def signed_bars(names: Sequence[str], values: np.ndarray, title: str) -> Html:
    """One bar for each name, to the left or right of zero."""
    step, left, half = 22.0, 170.0, 120.0
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    parts = [f'<path class="grid" d="M{left + half:g},4 V{step * len(names) + 4:g}"/>']
    for at, (name, value) in enumerate(zip(names, values.tolist(), strict=True)):
        y, length = 4 + step * at, half * abs(value) / largest
        shown = name if len(name) <= 24 else name[:23] + "…"
        x = left + half - (length if value < 0 else 0.0)
        parts.append(f'<text x="{left - 8:g}" y="{y + 15:g}" text-anchor="end">{safe(shown)}</text>')
        parts.append(
            f'<rect class="{"plus" if value >= 0 else "minus"}" x="{x:.2f}" y="{y + 3:g}" width="{length:.2f}"'
            f' height="{step - 6:g}"/>'
        )
        parts.append(f'<text x="{left + 2 * half + 8:g}" y="{y + 15:g}">{value:.3g}</text>')
    return _svg(left + 2 * half + 70, step * len(names) + 8, title, "".join(parts))


def histogram(edges: np.ndarray, counts: np.ndarray, x_name: str, title: str, mark: float | None = None) -> Html:
    """How many people are where; ``mark`` is a vertical line, such as zero."""
    span = float(edges[-1] - edges[0]) or 1.0
    most = float(counts.max(initial=1)) or 1.0

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - float(edges[0])) / span

    floor = HEIGHT - BOTTOM
    parts = []
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        height = (floor - TOP) * float(count) / most
        parts.append(
            f'<rect class="front" x="{x(low) + 0.5:.1f}" y="{floor - height:.1f}"'
            f' width="{max(x(high) - x(low) - 1, 0.5):.1f}" height="{height:.1f}"/>'
        )
    for value in np.linspace(float(edges[0]), float(edges[-1]), 5):
        parts.append(f'<text x="{x(value):.1f}" y="{floor + 16:g}" text-anchor="middle">{value:.3g}</text>')
    parts.append(f'<text x="{LEFT - 6:g}" y="{TOP + 10:g}" text-anchor="end">{most:,.0f}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH) / 2:g}" y="{HEIGHT - 8:g}" text-anchor="middle">{safe(x_name)}</text>')
    parts.append(f'<path class="axis" d="M{LEFT},{floor:g} H{WIDTH - RIGHT:g}"/>')
    if mark is not None and edges[0] <= mark <= edges[-1]:
        parts.append(f'<path class="chance" d="M{x(mark):.1f},{TOP} V{floor:g}"/>')
    return _svg(WIDTH, HEIGHT, title, "".join(parts))


def lines_over(
    places: Sequence[str], lines: Sequence[tuple[str, Sequence[float | None]]], x_name: str, y_name: str, title: str
) -> Html:
    """A line for each model over named places; gaps where there is nothing."""
    known = [value for _, values in lines for value in values if value is not None]
    most = max(known, default=1.0) * 1.08 or 1.0
    floor = HEIGHT - BOTTOM
    step = (WIDTH - LEFT - RIGHT) / max(len(places) - 1, 1)
    parts = []
    for tick in np.linspace(0.0, most, 5):
        y = floor - (floor - TOP) * tick / most
        parts.append(f'<path class="grid" d="M{LEFT},{y:.1f} H{WIDTH - RIGHT:g}"/>')
        parts.append(f'<text x="{LEFT - 6:g}" y="{y + 4:.1f}" text-anchor="end">{tick:.3g}</text>')
    for at, place in enumerate(places):
        parts.append(f'<text x="{LEFT + step * at:.1f}" y="{floor + 16:g}" text-anchor="middle">{safe(place)}</text>')
    for number, (name, values) in enumerate(lines):
        points = [
            (LEFT + step * at, floor - (floor - TOP) * value / most)
            for at, value in enumerate(values)
            if value is not None
        ]
        if not points:
            continue
        xs, ys = zip(*points, strict=True)
        parts.append(f'<path class="line line{number}" d="{_path(xs, ys)}"/>')
        parts.extend(f'<circle class="dot line{number}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points)
        parts.append(f'<path class="line line{number}" d="M{WIDTH - 170:g},{TOP + 10 + 18 * number:g} h24"/>')
        parts.append(f'<text class="name" x="{WIDTH - 140:g}" y="{TOP + 14 + 18 * number:g}">{safe(name)}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH) / 2:g}" y="{HEIGHT - 8:g}" text-anchor="middle">{safe(x_name)}</text>')
    middle = (TOP + floor) / 2
    parts.append(f'<text transform="translate(12 {middle:g}) rotate(-90)" text-anchor="middle">{safe(y_name)}</text>')
    return _svg(WIDTH, HEIGHT, title, "".join(parts))
