"""Lines over axes, for people who would rather look: written as SVG by hand, and as PNG or PDF where matplotlib is there.

A figure is a row of panels; a panel is public data that describes itself. matplotlib weighs more than all of this package, so
the core does without it: ``pip install 'commonground[plots]'`` brings it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from commonground.errors import InputError

if TYPE_CHECKING:
    import numpy as np

Numbers = Union[Sequence[float], "np.ndarray"]  # this file is loaded by commands that only help: no NumPy here

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#17becf", "#7f7f7f")
_WIDTH, _HEIGHT = 430.0, 290.0  # of the axes of one panel
_LEFT, _TOP, _BOTTOM, _RIGHT, _ENTRY = 66.0, 34.0, 48.0, 22.0, 19.0  # around them, and one line of the legend


@dataclass(frozen=True)
class Line:
    """One curve and its name."""

    name: str
    xs: Numbers  # none, and one of ``ys``: a level, from side to side
    ys: Numbers
    colour: str | None = None  # as SVG names it; None: the next of ``COLOURS``
    dash: str = ""  # lengths of strokes and gaps, "6 3"; empty: solid
    dots: bool = True  # a dot at every point
    shaded: bool = False  # the area below it, too


@dataclass(frozen=True)
class Panel:
    """Lines over one pair of axes."""

    lines: Sequence[Line]
    x_name: str
    y_name: str
    title: str
    log_x: bool = False  # logarithmic axes
    log_y: bool = False
    x_ticks: Sequence[float] | None = None  # where numbers stand below the axis; None: round ones
    x_range: tuple[float, float] | None = None  # ends of axes; None: around all points
    y_range: tuple[float, float] | None = None


def write(panels: Sequence[Panel], stem: Path) -> list[Path]:
    """``stem``.svg, and ``stem``.png where matplotlib is installed: what was written."""
    kinds = (".svg", ".png") if find_spec("matplotlib") else (".svg",)
    return [write_as(panels, stem.with_name(stem.name + kind)) for kind in kinds]


def write_as(panels: Sequence[Panel], path: Path) -> Path:
    """One file, of the kind that its name ends in: .svg needs nothing else; .png and .pdf need matplotlib."""
    if path.suffix.lower() == ".svg":
        path.write_text(svg(panels), encoding="utf-8")
        return path
    needs_matplotlib(f"a figure that ends in {path.suffix}", "or a name that ends in .svg")
    _by_matplotlib(panels, path)
    return path


def needs_matplotlib(what: str, instead: str = "") -> None:
    """Raise where it is missing, before any work is done; ``instead`` would do without."""
    if find_spec("matplotlib") is None:
        raise InputError(f"{what} needs matplotlib: pip install 'commonground[plots]'{instead and ', ' + instead}.")


def round_numbers(low: float, high: float, about: int = 5) -> list[float]:
    """About so many between both, in steps of 1, 2 or 5 times a power of ten.

    >>> round_numbers(0.0, 0.9)
    [0.0, 0.2, 0.4, 0.6, 0.8]
    """
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * min((1, 2, 5, 10), key=lambda one: abs(one * power - rough))
    first = math.ceil(low / step - 1e-9)
    return [round(at * step, 12) for at in range(first, math.floor(high / step + 1e-9) + 1)]


def _powers(low: float, high: float) -> list[float]:
    """Of ten; with twice and five times them where those are few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for of_each in ((1,), (1, 3), (1, 2, 5)):
        found = [one * 10.0**power for power in decades for one in of_each if low <= one * 10.0**power <= high]
        if len(found) >= 3:
            break
    return found


def _ends(values: list[float], given: tuple[float, float] | None, log: bool) -> tuple[float, float]:
    if given is not None:
        return given
    low, high = min(values, default=1.0), max(values, default=1.0)
    if log:
        room = (high / low) ** 0.05 if high > low else 2.0
        return low / room, high * room
    room = 0.05 * (high - low) or 1.0
    return low - room, high + room


def _scale(ends: tuple[float, float], log: bool, start: float, length: float) -> Callable[[float], float]:
    def of(value: float) -> float:
        return math.log10(value) if log else value

    low, high = of(ends[0]), of(ends[1])
    return lambda value: start + length * (of(value) - low) / (high - low)


def _finite(line: Line, panel: Panel) -> list[tuple[float, float]]:
    """Points that can be drawn; none of a level."""
    return [
        (float(x), float(y))
        for x, y in zip(line.xs, line.ys, strict=False)
        if math.isfinite(x) and math.isfinite(y) and (x > 0 or not panel.log_x) and (y > 0 or not panel.log_y)
    ]


def _level(line: Line, panel: Panel, x_ends: tuple[float, float]) -> list[tuple[float, float]]:
    y = float(line.ys[0]) if len(line.ys) and not len(line.xs) else math.nan
    return [(end, y) for end in x_ends] if math.isfinite(y) and (y > 0 or not panel.log_y) else []


def _panel(panel: Panel) -> str:
    """In a corner of its own, from (0, 0)."""
    all_x = [x for line in panel.lines for x, _ in _finite(line, panel)]
    x_ends = _ends(all_x, panel.x_range, panel.log_x)
    points = [_finite(line, panel) or _level(line, panel, x_ends) for line in panel.lines]
    y_ends = _ends([y for some in points for _, y in some], panel.y_range, panel.log_y)
    floor, right = _TOP + _HEIGHT, _LEFT + _WIDTH
    x, y = _scale(x_ends, panel.log_x, _LEFT, _WIDTH), _scale(y_ends, panel.log_y, floor, -_HEIGHT)
    x_ticks = panel.x_ticks if panel.x_ticks is not None else (_powers if panel.log_x else round_numbers)(*x_ends)
    y_ticks = (_powers if panel.log_y else round_numbers)(*y_ends)
    parts = [f'<text class="title" x="{_LEFT + _WIDTH / 2:g}" y="20" text-anchor="middle">{escape(panel.title)}</text>']
    for at in x_ticks:
        parts.append(f'<path class="grid" d="M{x(at):.1f},{_TOP:g} V{floor:g}"/>')
        parts.append(f'<text x="{x(at):.1f}" y="{floor + 16:g}" text-anchor="middle">{at:g}</text>')
    for at in y_ticks:
        parts.append(f'<path class="grid" d="M{_LEFT:g},{y(at):.1f} H{right:g}"/>')
        parts.append(f'<text x="{_LEFT - 7:g}" y="{y(at) + 4:.1f}" text-anchor="end">{at:g}</text>')
    middle = _LEFT + _WIDTH / 2
    parts.append(f'<text x="{middle:g}" y="{floor + 36:g}" text-anchor="middle">{escape(panel.x_name)}</text>')
    turned = f"translate(15 {_TOP + _HEIGHT / 2:g}) rotate(-90)"
    parts.append(f'<text transform="{turned}" text-anchor="middle">{escape(panel.y_name)}</text>')
    for number, (line, some) in enumerate(zip(panel.lines, points, strict=True)):
        colour = line.colour or COLOURS[number % len(COLOURS)]
        places = [(x(one), y(other)) for one, other in some]
        stroke = f'stroke="{colour}" stroke-dasharray="{line.dash}"' if line.dash else f'stroke="{colour}"'
        if places:
            path = "M" + " L".join(f"{one:.1f},{other:.1f}" for one, other in places)
            if line.shaded:
                parts.append(f'<path fill="{colour}" fill-opacity="0.12" d="{path} V{floor:g} H{places[0][0]:.1f} Z"/>')
            parts.append(f'<path class="line" {stroke} d="{path}"/>')
        if line.dots and len(line.xs):
            parts.extend(f'<circle fill="{colour}" cx="{one:.1f}" cy="{other:.1f}" r="3.2"/>' for one, other in places)
        entry = floor + _BOTTOM + _ENTRY * (number + 0.5)
        parts.append(f'<path class="line" {stroke} d="M{_LEFT:g},{entry - 4:g} h30"/>')
        if line.dots and len(line.xs):
            parts.append(f'<circle fill="{colour}" cx="{_LEFT + 15:g}" cy="{entry - 4:g}" r="3.2"/>')
        parts.append(f'<text x="{_LEFT + 38:g}" y="{entry:g}">{escape(line.name)}</text>')
    parts.append(f'<rect class="frame" x="{_LEFT:g}" y="{_TOP:g}" width="{_WIDTH:g}" height="{_HEIGHT:g}"/>')
    return "".join(parts)


def svg(panels: Sequence[Panel]) -> str:
    """The whole file, as text; panels stand from left to right."""
    each = _LEFT + _WIDTH + _RIGHT
    height = _TOP + _HEIGHT + _BOTTOM + _ENTRY * max(len(panel.lines) for panel in panels) + 8
    inside = "".join(
        f'<g transform="translate({each * at:g} 0)">{_panel(panel)}</g>' for at, panel in enumerate(panels)
    )
    width, name = each * len(panels), escape("; ".join(panel.title for panel in panels), quote=True)
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" '
        f'height="{height:g}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{name}">'
        "<style>text{font:12px system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif;fill:#222}.title{font-size:14px}"
        ".line{fill:none;stroke-width:1.8}.grid{stroke:#e3e3e3;fill:none}.frame{fill:none;stroke:#555}</style>"
        f'<rect width="100%" height="100%" fill="#fff"/>{inside}</svg>\n'
    )


def _by_matplotlib(panels: Sequence[Panel], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    most = max(len(panel.lines) for panel in panels)
    figure: Any = Figure(figsize=(5.4 * len(panels), 4.3 + 0.2 * most), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for number, line in enumerate(panel.lines):
            colour, strokes = (
                line.colour or COLOURS[number % len(COLOURS)],
                [0.6 * float(one) for one in line.dash.split()],
            )
            style = {"color": colour, "label": line.name, "dashes": strokes or (None, None)}
            if not len(line.xs):
                axes.axhline(line.ys[0], **style)
                continue
            axes.plot(line.xs, line.ys, marker="o" if line.dots else "", markersize=4, **style)
            if line.shaded:
                axes.fill_between(line.xs, line.ys, color=colour, alpha=0.12, lw=0)
        axes.set(xlabel=panel.x_name, ylabel=panel.y_name, title=panel.title)
        axes.set(xscale="log" if panel.log_x else "linear", yscale="log" if panel.log_y else "linear")
        axes.grid(color="#e3e3e3")
        if panel.x_ticks is not None:
            axes.set_xticks(panel.x_ticks, [f"{at:g}" for at in panel.x_ticks])
            axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        if panel.x_range is not None:
            axes.set_xlim(panel.x_range)
        if panel.y_range is not None:
            axes.set_ylim(panel.y_range)
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.16), fontsize="small", frameon=False, handlelength=3.0)
    figure.savefig(path, dpi=150)
