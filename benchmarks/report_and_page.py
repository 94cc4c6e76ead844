"""The pictures of docs/report_and_page.md: made-up people who sleep, a private board, its report and its page in Chromium.

make browser-test (once, for Playwright and Chromium), then: python benchmarks/report_and_page.py --out docs/figures
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import commonground as cg

PEOPLE, ROWS = 4_000, 12
SHOTS = (
    ("report", "light", 900, 980),
    ("internal", "light", 900, 760),
    ("page", "light", 900, 1040),
    ("page", "dark", 390, 844),
)
SCHEMA = cg.Schema(
    (
        cg.Column("who", "person"),
        cg.Column("hours asleep", "label", range=(0, 14)),
        cg.Column("cups of coffee", range=(0, 8)),
        cg.Column("steps", range=(0, 30_000)),
        cg.Column("hours at a screen", range=(0, 16)),
        cg.Column("weekend", kind="yes/no"),
        cg.Column("weather", kind="category", values=("sun", "rain", "snow")),
    )
)


def people(seed: int = 0) -> dict[str, list[Any]]:
    """How coffee and screens keep people awake is their own: two directions in which they differ."""
    draw = np.random.default_rng(seed)
    who = np.repeat(np.arange(PEOPLE), ROWS)
    n = len(who)
    coffee, steps, screen = draw.integers(0, 7, n), draw.gamma(4, 2_000, n), draw.gamma(3, 2, n)
    weekend, weather = draw.random(n) < 2 / 7, draw.choice(["sun", "rain", "snow"], n, p=[0.6, 0.3, 0.1])
    of_coffee, of_screen = 0.35 * draw.standard_normal(PEOPLE)[who], 0.25 * draw.standard_normal(PEOPLE)[who]
    asleep = (
        7.3 + 0.6 * draw.standard_normal(PEOPLE)[who] + (of_coffee - 0.15) * (coffee - 3) + (of_screen - 0.05) * (screen - 6)
        + 0.4 * weekend + 0.00004 * (steps - 8_000) + 0.5 * draw.standard_normal(n)
    )  # fmt: skip
    return {
        "who": who.tolist(), "hours asleep": np.clip(asleep, 0, 14).round(2).tolist(), "cups of coffee": coffee.tolist(),
        "steps": steps.round(0).tolist(), "hours at a screen": np.clip(screen, 0, 16).round(1).tolist(),
        "weekend": np.where(weekend, "yes", "no").tolist(), "weather": weather.tolist(),
    }  # fmt: skip


def pictures(board: cg.Billboard, held_out: cg.Users, mine: str, out: Path) -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder = Path(name)
        board.report(folder / "report.html")
        board.report(folder / "internal.html", heldout=held_out)
        board.page(folder / "page.html")
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for file, colours, width, height in SHOTS:
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=colours)
            page = context.new_page()
            page.goto((folder / f"{file}.html").as_uri())
            if file == "internal":
                page.evaluate("document.getElementById('gains').scrollIntoView()")
            if file == "page":
                page.fill("#rows", mine)
                page.click("#fit")
                page.fill("#what-if-0", "5")
                page.evaluate("document.getElementById('rows').rows = 4; document.activeElement.blur()")
                heading = "rows-heading" if width > 400 else "model-heading"
                page.evaluate(f"document.getElementById('{heading}').scrollIntoView()")
            page.screenshot(path=out / f"{file}-{'phone' if width < 400 else 'desktop'}-{colours}.png")
        browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    arguments = parser.parse_args()
    table = people()
    users = cg.Users.from_table(pa.table(table), schema=SCHEMA)
    board = cg.PrivateFedRep(rank=2, epsilon=1.0, delta=1e-6).fit(users).billboard_
    names = [name for name in table if name != "who"]
    rows = [",".join(names), *(",".join(str(table[name][at]) for name in names) for at in range(6))]
    pictures(board, users, "\n".join(rows), arguments.out)
    print(board.statement)
