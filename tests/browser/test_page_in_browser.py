"""The page as people use it: opened from a disk, in Chromium."""

import csv
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards_for_people import CASES, NAMES, Case, numbers, posterior

from commonground.heads.kinds import SecondHalfHeads
from commonground.page.serve import server_of
from made_boards import a_board

CLOSE = 1e-9


def page_for(case: Case, folder: Path) -> Path:
    return case.board.page(folder / "page.html", case.item)


def model_in(page: Any) -> dict[str, Any]:
    with page.expect_download() as download:
        page.click("#download-head")
    return json.loads(Path(download.value.path()).read_text(encoding="utf-8"))


def close(found: Any, wanted: Any) -> float:
    """To 1e-9 of the size of what is computed; returns the largest difference."""
    found, wanted = np.asarray(found, float), np.asarray(wanted, float)
    np.testing.assert_allclose(found, wanted, rtol=CLOSE, atol=CLOSE * max(1.0, float(np.abs(wanted).max(initial=0.0))))
    return float(np.abs(found - wanted).max(initial=0.0))


def compare(case: Case, page: Any) -> dict[str, Any]:
    """Make her model in the page and in Python; both must be the same, and so must all that they predict."""
    head = case.board.personalize(case.X, case.y)
    waited = page.evaluate(
        "(() => { const t = performance.now(); document.getElementById('fit').click(); return performance.now() - t })()"
    )
    assert page.inner_text("#error") == ""
    model = model_in(page)
    different = [close(model[part], getattr(head, part)) for part in ("coef", "intercept", "weights")]
    assert model["billboard"] == case.board.fingerprint
    page.click("text=Predict a whole table")
    page.fill("#new-rows", case.asked)
    with page.expect_download() as download:
        page.click("#predict")
    answers = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text(encoding="utf-8"))))
    different.append(close([row["prediction"] for row in answers], head.predict(case.Z)))
    if head.std_of is not None:
        found, std = head.predict(case.Z, return_std=True)
        different.append(close([row["standard deviation"] for row in answers], std))
        low = case.board.in_label_range(found - 1.6448536269514722 * std)
        different.append(close([row["low (5 %)"] for row in answers], low))
    rows = len(case.y)
    return {"largest difference": max(different), "rows": rows, "milliseconds": round(waited), "kept": model["kept"]}


@pytest.mark.parametrize("name", CASES)
def test_the_model_and_its_predictions_are_pythons(
    name: str, opened: Any, measured: dict[str, Any], tmp_path: Path
) -> None:
    case = CASES[name]()
    (tmp_path / "rows.csv").write_text(case.rows, encoding="utf-8", newline="")
    page = opened(page_for(case, tmp_path))
    assert "Checked" in page.inner_text("#checked")
    assert page.inner_text("#checksum") == case.board.fingerprint
    page.set_input_files("#file", tmp_path / "rows.csv")
    page.wait_for_selector("#rows-status:not(:empty)")
    measured[name] = compare(case, page)


BAD = {
    "": "There are no rows yet",
    "a,b,c,<script>,=cmd(),größe,stars": "no rows below",
    "a,b,c,<script>,stars\n1,2,3,4,5": "“=cmd()”, “größe” are missing",
    "A,b,c,<script>,=cmd(),größe,stars\n1,2,3,4,5,6,7": "Did you mean “A”?",
    "a,b,c,<script>,=cmd(),größe,y\n1,2,3,4,5,6,7": "“stars” are missing",
    "a,b,c,<script>,=cmd(),größe,stars\n1,2,x,4,5,6,7\n1,2,3,,5,6,7\n1,2,y,4,5,6,": "“stars”: row 3 is empty",
    "a,b,c,<script>,=cmd(),größe,stars\n1,2,x,4,5,6,7\n1,2,3,,5,6,7\n1,2,y,4,5,6,8": "“c”: row 1 is not a number (and 1 more",
    "a,b,c,<script>,=cmd(),größe,stars\n1,2,3,4,5,6": "Row 1 has 6 cells",
    'a,b,c,<script>,=cmd(),größe,stars\n1,"2,3,4,5,6,7': "never closed",
    "a,b,c,a,=cmd(),größe,stars\n1,2,3,4,5,6,7": "“a” occurs twice",
    "a;b;c;<script>;=cmd();größe;stars\n1,5;2.5;3;4;5;6;7": "decimal comma and some with a decimal point",
    "user_id,a,b,c,<script>,=cmd(),größe,stars\n1,1,2,3,4,5,6,7\n2,1,2,3,4,5,6,7": "rows of 2 people",
    "a,b,c,<script>,=cmd(),größe,stars\n1,2,3,4,5,6,Infinity": "is not a number",
}  # fmt: skip


def test_mistakes_are_told_in_a_sentence_and_nothing_typed_is_lost(opened: Any, tmp_path: Path) -> None:
    case = numbers(posterior(), 5)
    page = opened(page_for(case, tmp_path))
    for text, words in BAD.items():
        page.fill("#rows", text)
        page.click("#fit")
        assert words in page.inner_text("#error"), text
        assert page.input_value("#rows") == text
        assert page.is_hidden("#model")
    page.fill("#rows", case.rows)
    page.click("#fit")
    assert page.inner_text("#error") == ""
    page.fill("#what-if-2", "eleven")
    assert "“c” is not a number" in page.inner_text("#ask-error")
    page.fill("#what-if-2", "1,5")
    assert page.inner_text("#ask-error") == ""
    (tmp_path / "latin1.csv").write_bytes("a,größe\n1,2\n".encode("latin1"))
    page.set_input_files("#file", tmp_path / "latin1.csv")
    page.wait_for_selector("#error:not(:empty)")
    assert "not text in UTF-8" in page.inner_text("#error")
    assert page.input_value("#rows") == case.rows.replace("\r\n", "\n")


def test_names_do_nothing(opened: Any, tmp_path: Path) -> None:
    case = numbers(posterior(), 5)
    page = opened(page_for(case, tmp_path))
    page.on("dialog", lambda dialog: pytest.fail(f"a name ran: {dialog.message}"))
    page.fill("#rows", case.rows)
    page.click("#fit")
    page.click("text=Its numbers")
    assert "<script>" in page.inner_text("#coefficients")
    assert page.evaluate("document.querySelectorAll('#coefficients script').length") == 0
    with page.expect_download() as download:
        page.click("#example")
    header = Path(download.value.path()).read_text(encoding="utf-8")
    assert header.startswith("a,b,c,<script>,'=cmd(),größe,stars")
    page.fill("#rows", header + "1,2,3,4,5,6,7\n")  # her own table, filled in
    page.click("#fit")
    assert page.inner_text("#error") == ""


def test_what_if_values_are_answered_as_they_are_typed(opened: Any, tmp_path: Path) -> None:
    case = numbers(posterior(), 30)
    head = case.board.personalize(case.X, case.y)
    page = opened(page_for(case, tmp_path))
    page.fill("#rows", case.rows)
    page.click("#fit")
    for at, value in enumerate((1, -2, 0.5, 0, 3, 1)):
        page.fill(f"#what-if-{at}", str(value))
    found, std = head.predict(np.array([[1, -2, 0.5, 0, 3, 1]]), return_std=True)
    told = page.inner_text("#answer")
    assert f"stars: {found[0]:.4g}." in told
    assert f"between {found[0] - 1.6448536 * std[0]:.4g} and {found[0] + 1.6448536 * std[0]:.4g}" in told


def test_items_are_chosen_from_a_list(opened: Any, tmp_path: Path) -> None:
    case = CASES["items"]()
    names = list(case.board.feature_names or ())
    page = opened(page_for(case, tmp_path))
    page.click("#fit")
    assert "Nothing is rated yet" in page.inner_text("#error")
    for at, stars in ((3, "5"), (12, "1"), (31, "4,5")):
        page.fill("#item-filter", f"film {at},")
        page.get_by_label(names[at], exact=True).fill(stars)
        page.keyboard.press("Tab")
    page.click("#fit")
    from commonground.data.items import one_hot

    head = case.board.personalize(one_hot([names[3], names[12], names[31]], names), np.array([5.0, 1.0, 4.5]))
    close(model_in(page)["coef"], head.coef)
    rest = [at for at in range(40) if at not in (3, 12, 31)]
    best = max(rest, key=lambda at: float(head.coef[at]))
    first = page.inner_text("#rest tr:first-child")
    assert names[best] in first
    assert "37 items that you have not rated" in page.inner_text("#rest-count")


def test_a_changed_page_and_an_unknown_kind_are_refused(opened: Any, tmp_path: Path) -> None:
    path = page_for(numbers(posterior(), 5), tmp_path)
    text = path.read_text(encoding="utf-8")
    at = text.index('"arrays": "') + 200
    path.write_text(text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :], encoding="utf-8")
    page = opened(path)
    assert "changed or damaged" in page.inner_text("#start-error")
    assert page.is_hidden("#work")
    a_board(NAMES, head_kind=SecondHalfHeads()).page(path)
    page = opened(path)
    assert "of the kind “second half”" in page.inner_text("#start-error")


# ---- nothing leaves the browser ---------------------------------------------------------------------------------------


@pytest.fixture
def listener() -> Iterator[tuple[str, list[str]]]:
    """A server that would hear whatever is sent."""
    heard: list[str] = []

    class Ear(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.path)
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()

        do_POST = do_GET  # noqa: N815 (http.server looks for it)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Ear)  # a browser also opens connections on which it says nothing
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}", heard
    server.shutdown()
    server.server_close()


ATTEMPTS = (Path(__file__).parent / "attempts.js").read_text(encoding="utf-8")
WAYS = ("fetch", "beacon", "request", "image", "socket", "events", "form", "frame", "style", "script", "markup")


def attempt(page: Any, way: str, address: str) -> str:
    code = ATTEMPTS.split("\n", 1)[1]
    return str(page.evaluate(f"async (address) => ({code})[{way!r}](address)", address))


@pytest.mark.parametrize("way", WAYS)
def test_whatever_is_tried_nothing_arrives(
    way: str, opened: Any, listener: tuple[str, list[str]], tmp_path: Path
) -> None:
    address, heard = listener
    page = opened(page_for(numbers(posterior(), 5), tmp_path), complain=False)
    assert attempt(page, way, address) in ("blocked", "tried")
    page.wait_for_timeout(200)
    assert heard == []


def test_without_the_policy_the_same_attempts_arrive(
    opened: Any, listener: tuple[str, list[str]], tmp_path: Path
) -> None:
    """So the ear hears, and it is the policy that stops them."""
    address, heard = listener
    path = page_for(numbers(posterior(), 5), tmp_path)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "Content-Security-Policy" not in line[:60]), encoding="utf-8")
    for way in WAYS:
        page = opened(path, complain=False)
        attempt(page, way, address)
        page.wait_for_timeout(200)
    assert {line.split("?")[0] for line in heard} >= {f"/{way}" for way in WAYS}


# ---- by keyboard, by ear, by eye, in time ---------------------------------------------------------------------------


def test_it_can_be_walked_through_by_keyboard(opened: Any, tmp_path: Path) -> None:
    case = numbers(posterior(), 5)
    page = opened(page_for(case, tmp_path))

    def focused() -> str:
        return str(page.evaluate("document.activeElement.id"))

    def tab_to(name: str) -> None:
        for _ in range(40):
            if focused() == name:
                return
            page.keyboard.press("Tab")
        pytest.fail(f"Tab does not reach {name}")

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to your rows"
    tab_to("rows")
    page.keyboard.insert_text(case.rows)
    tab_to("fit")
    page.keyboard.press("Enter")
    assert focused() == "model-heading"
    tab_to("download-head")
    with page.expect_download():
        page.keyboard.press("Enter")
    tab_to("what-if-0")
    page.keyboard.press("Control+A")
    page.keyboard.type("2.5")
    assert "stars:" in page.inner_text("#answer")
    tab_to("what-if-5")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # opens the table to predict
    tab_to("new-rows")
    page.keyboard.insert_text(case.asked)
    tab_to("predict")
    with page.expect_download():
        page.keyboard.press("Enter")


def serious(page: Any, axe: str) -> list[str]:
    page.evaluate(axe)
    found = page.evaluate("axe.run().then((result) => result.violations)")
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["dense, few rows", "items"])
def test_nothing_serious_stands_in_anybodys_way(name: str, scheme: str, opened: Any, axe: str, tmp_path: Path) -> None:
    case = CASES[name]()
    page = opened(page_for(case, tmp_path), color_scheme=scheme)
    page.click("#fit")  # with nothing there: the error is shown
    assert serious(page, axe) == []
    page.fill("#rows", case.rows)
    page.click("#fit")
    for summary in page.query_selector_all("summary"):
        summary.click()
    assert serious(page, axe) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("device", "width"), [("phone", 390), ("desktop", 1100)])
def test_it_fits_phones_and_desktops_in_both_colours(
    device: str, width: int, scheme: str, opened: Any, screenshots: Path, tmp_path: Path
) -> None:
    for name, file in (("dense, more rows, semicolons and decimal commas", "page"), ("items", "items")):
        case = CASES[name]()
        page = opened(page_for(case, tmp_path), color_scheme=scheme, viewport={"width": width, "height": 900})
        page.fill("#rows", case.rows)
        page.click("#fit")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate("document.activeElement.blur()")
        page.screenshot(path=screenshots / f"{file}-{device}-{scheme}.png", full_page=True)


PASTE_AND_FIT = """(text) => {
  const started = performance.now(), area = document.getElementById("rows"), pasted = new DataTransfer();
  pasted.setData("text/plain", text);
  area.focus();
  area.dispatchEvent(new ClipboardEvent("paste", { clipboardData: pasted, bubbles: true, cancelable: true }));
  document.getElementById("fit").click();
  return performance.now() - started;
}"""


def test_a_thousand_rows_take_less_than_a_second(opened: Any, measured: dict[str, Any], tmp_path: Path) -> None:
    case = numbers(posterior(local_choice=True), 1000)
    page = opened(page_for(case, tmp_path))
    waited = page.evaluate(PASTE_AND_FIT, case.rows)
    assert page.inner_text("#made").startswith("Your model is made, from 1,000 of your rows")
    measured["1,000 rows, pasted"] = {"milliseconds": round(waited)}
    assert waited < 1000


def test_it_is_served_on_this_machine_with_the_same_rule(opened: Any, listener: tuple[str, list[str]]) -> None:
    case = numbers(posterior(), 5)
    address, heard = listener
    with server_of(case.board.page_text()) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        page = opened(f"http://127.0.0.1:{server.server_address[1]}/", complain=False)
        page.fill("#rows", case.rows)
        page.click("#fit")
        close(model_in(page)["coef"], case.board.personalize(case.X, case.y).coef)
        assert attempt(page, "fetch", address) == "blocked"
        server.shutdown()
    assert heard == []
