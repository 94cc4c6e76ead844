"""The page without a browser: one file, its own policy, names that break nothing; what serves it serves nothing else."""

import base64
import hashlib
import html
import json
import re
import threading
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from commonground.cli.app import app
from commonground.errors import InputError
from commonground.heads import posterior
from commonground.page.build import in_order, module, script
from commonground.page.serve import server_of
from commonground.statistics.kernels import posterior as kernels
from made_boards import HOSTILE, a_board

MODULES = Path(__file__).parents[2] / "src" / "commonground" / "page"


def parts(text: str) -> dict[str, str]:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    data = re.search(r'<script type="application/json" id="board-data">(.*?)</script>', text, re.S)
    code = re.search(r'<script type="module">(.*?)</script>', text, re.S)
    style = re.search(r"<style>(.*?)</style>", text, re.S)
    assert policy
    assert data
    assert code
    assert style
    return {"policy": html.unescape(policy[1]), "data": data[1], "code": code[1], "style": style[1]}


def named(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_policy_lets_this_script_and_this_style_run_and_nothing_else() -> None:
    found = parts(a_board().page_text())
    rules = dict(rule.strip().split(" ", 1) for rule in found["policy"].split(";"))
    assert rules.pop("script-src") == named(found["code"])
    assert rules.pop("style-src") == named(found["style"])
    assert rules == {
        "default-src": "'none'",
        "img-src": "data:",
        "connect-src": "'none'",
        "form-action": "'none'",
        "base-uri": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def test_the_board_travels_as_its_very_bytes_with_their_checksum() -> None:
    board = a_board()
    data = json.loads(parts(board.page_text())["data"])
    assert hashlib.sha256(base64.b64decode(data["arrays"])).hexdigest() == data["sha256"] == board.fingerprint
    assert data["feature_names"] == list(HOSTILE)
    assert data["heads"] == board.head_kind.to_json()


def test_names_break_nothing() -> None:
    board = a_board(label="</script><script>alert(1)</script>", algorithm="<img src=x>")
    text = board.page_text()
    assert len(re.findall(r"<script", text)) == 2
    assert "<img" not in text
    assert "alert(1)" in json.loads(parts(text)["data"])["label"]


def test_nothing_is_asked_from_elsewhere_and_no_text_is_made_html() -> None:
    code = script()
    assert not re.search(
        r"https?://|fetch\(|XMLHttpRequest|WebSocket|sendBeacon|localStorage|indexedDB|document\.cookie", code
    )
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", code)
    assert "http://" not in a_board().page_text().replace("http-equiv", "")


def test_every_module_is_there_once_behind_what_it_imports() -> None:
    order = in_order("app.js")
    assert sorted(order) == sorted(path.name for path in MODULES.glob("*.js"))
    for at, name in enumerate(order):
        needed = re.findall(r'from "\./(\S+)";', module(name))
        assert all(other in order[:at] for other in needed), name
    assert not re.search(r"^(import|export) ", script(), re.M)


def test_it_is_small_enough_to_be_read_in_an_evening() -> None:
    board = a_board()
    arrays = len(json.loads(parts(board.page_text())["data"])["arrays"])
    assert len(board.page_text().encode()) - arrays < 100_000  # 300 kB are allowed
    assert script().count("\n") < 1330


def test_what_protects_nobody_says_so() -> None:
    assert "SIMULATED, NOT PRIVATE" in a_board(simulated=True).page_text()
    assert "NOT PRIVATE" in a_board(epsilon=float("inf"), events=()).page_text()


def test_the_commands(tmp_path: Path) -> None:
    folder = a_board(("a", "b", "c", "d")).save(tmp_path / "board")
    done = CliRunner().invoke(app, ["page", str(folder), "--out", str(tmp_path / "page.html"), "--item", "film"])
    assert done.exit_code == 0, done.output
    assert '"item": "film"' in (tmp_path / "page.html").read_text(encoding="utf-8")
    busy = CliRunner().invoke(app, ["serve", str(folder), "--port", "99999"])
    assert "cannot be opened" in str(busy.exception)


def test_a_board_with_a_schema_has_no_items() -> None:
    from commonground.data.schema import Schema
    from commonground.data.schema_column import Column

    schema = Schema((Column("who", "person"), Column("y", "label"), *map(Column, "abcd")))
    with pytest.raises(InputError, match="no column of items"):
        replace(a_board(tuple("abcd")), schema=schema).page_text("film")


def test_it_is_served_to_this_machine_and_nothing_else_is() -> None:
    text = a_board(mean=np.zeros(4)).page_text()
    with server_of(text) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host, port = server.server_address[:2]
        assert host == "127.0.0.1"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
            assert answer.read().decode() == text
            assert parts(text)["policy"] in answer.headers["Content-Security-Policy"]
            assert answer.headers["Cache-Control"] == "no-store"
        with pytest.raises(urllib.error.HTTPError, match="404") as missing:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/../pyproject.toml")
        missing.value.close()
        server.shutdown()


def test_constants_of_posterior_heads_are_pythons() -> None:
    """Numbers of the browser's arithmetic that Python's heads have, too; tests in a browser and in Node compare the answers."""
    script = (Path(posterior.__file__).parents[1] / "page" / "posterior.js").read_text(encoding="utf-8")
    written = {name: float(value) for name, value in re.findall(r"([A-Z_]+) = ([\d.e-]+)[,;]", script)}
    assert written["NOISE_ROWS"] == posterior.NOISE_ROWS
    assert written["INTERVAL_ROWS"] == posterior.INTERVAL_ROWS
    assert written["USUAL"] == posterior.USUAL
    assert written["MEAN_ROWS"] == posterior.PRIOR_ROWS
    assert written["MOST_STEPS"] == kernels.MOST_STEPS
