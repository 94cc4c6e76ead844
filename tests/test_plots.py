"""Figures need no library as SVG, say everything that they are given, and are the same however often they are drawn."""

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from commonground import plots
from commonground.errors import InputError

SVG = "{http://www.w3.org/2000/svg}"
PANEL = plots.Panel(
    [
        plots.Line("curve <&> name", [1.0, 10.0, 100.0], np.array([3.0, 2.0, 1.0])),
        plots.Line("level", [], [2.5], dash="2 3"),
    ],
    "how many",
    'error "now"',
    "A title",
    log_x=True,
    x_ticks=[1, 10, 100],
)


def drawn(*panels: plots.Panel) -> ET.Element:
    return ET.fromstring(plots.svg(panels))


def texts(picture: ET.Element) -> list[str]:
    return [one.text or "" for one in picture.iter(f"{SVG}text")]


def test_every_name_and_tick_is_there_and_nothing_breaks_the_file() -> None:
    said = texts(drawn(PANEL, PANEL))
    for name in ("curve <&> name", "level", "how many", 'error "now"', "A title", "1", "10", "100"):
        assert said.count(name) >= 2, name


def test_points_stand_where_they_should() -> None:
    dots = [one for one in drawn(PANEL).iter(f"{SVG}circle") if float(one.get("r", 0)) > 3]
    x, y = ([float(one.get(f"c{axis}", "nan")) for one in dots[:3]] for axis in "xy")
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.2)  # a logarithm
    assert y[0] < y[1] < y[2]  # larger numbers stand higher
    assert y[1] - y[0] == pytest.approx(y[2] - y[1], abs=0.2)


def test_what_cannot_be_drawn_is_left_out() -> None:
    odd = plots.Line("odd", [0.0, 1.0, 2.0, 3.0], [1.0, np.nan, np.inf, 2.0])
    panel = plots.Panel([odd, plots.Line("nothing", [], [np.nan])], "x", "y", "t", log_x=True)
    assert "nan" not in plots.svg([panel])
    assert "inf" not in plots.svg([panel])
    assert "odd" in texts(drawn(panel))
    assert drawn(plots.Panel([plots.Line("one point", [2.0], [2.0])], "x", "y", "t")) is not None


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, 4.5), (0.02, 0.021), (1e6, 3e7)])
def test_numbers_beside_an_axis_are_few_round_and_within(low: float, high: float) -> None:
    ticks = plots.round_numbers(low, high)
    assert 3 <= len(ticks) <= 10
    assert all(low <= at <= high for at in ticks)
    assert all(len(f"{at:g}".partition("e")[0].strip("-0").replace(".", "")) <= 5 for at in ticks)


def test_svg_always_and_png_with_matplotlib(tmp_path: Path) -> None:
    assert [path.name for path in plots.write([PANEL], tmp_path / "f")] == ["f.svg", "f.png"]
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_there_is_the_svg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    assert [path.name for path in plots.write([PANEL], tmp_path / "f")] == ["f.svg"]
    with pytest.raises(InputError, match=r"commonground\[plots\].*\.svg"):
        plots.write_as([PANEL], tmp_path / "f.png")
    assert not (tmp_path / "f.png").exists()
