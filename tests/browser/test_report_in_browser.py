"""The report as people look at it, in Chromium."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_page_in_browser import serious

from commonground.data.users import Users
from made_boards import HOSTILE, a_board, shared_parameters


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    draw = np.random.default_rng(0)
    X = draw.standard_normal((800, 4))
    people = Users.from_arrays(X, X @ np.ones(4) + draw.standard_normal(800), np.repeat(np.arange(100), 8))
    board = a_board(HOSTILE, sharing_pays=True)
    return {
        "report": board.report(folder / "report.html"),
        "internal": board.report(folder / "internal.html", heldout=people),
        "joint": shared_parameters().report(folder / "joint.html"),
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_stands_in_anybodys_way(scheme: str, opened: Any, axe: str, reports: dict[str, Path]) -> None:
    for path in reports.values():
        assert serious(opened(path, color_scheme=scheme), axe) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("device", "width"), [("phone", 390), ("desktop", 1100)])
def test_it_fits_phones_and_desktops(
    device: str, width: int, scheme: str, opened: Any, screenshots: Path, reports: dict[str, Path]
) -> None:
    for name, path in reports.items():
        page = opened(path, color_scheme=scheme, viewport={"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if name == "report" or (device, scheme) in (("phone", "dark"), ("desktop", "light")):
            page.screenshot(path=screenshots / f"{name}-{device}-{scheme}.png", full_page=True)


def test_it_runs_no_script_and_prints(opened: Any, reports: dict[str, Path], tmp_path: Path) -> None:
    page = opened(reports["internal"])
    page.on("dialog", lambda dialog: pytest.fail(f"a name ran: {dialog.message}"))
    assert page.evaluate("document.scripts.length") == 0
    printed = page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert printed.startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
