"""A real browser: the distribution's Chromium, headless, driven by Playwright. `make browser-test` installs all three parts."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
SCREENSHOTS = Path(os.environ.get("SCREENSHOTS", "")) if os.environ.get("SCREENSHOTS") else None


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine; `make browser-test` installs it")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is missing; `make browser-test` installs it"
    )
    with playwright.sync_playwright() as driver:
        # No sandbox inside containers, which run as root.
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """Opens a file as a person does; what the page complains of on its console is an error of ours."""
    contexts, complaints = [], []

    def open_(path: Path | str, complain: bool = True, **how: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1000, "height": 900}, **how})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        if complain:
            page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path if isinstance(path, str) else path.as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture(scope="session")
def axe() -> str:
    if not AXE.exists():
        pytest.skip("axe-core is missing; `make browser-test` fetches it from npm")
    return AXE.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def measured(screenshots: Path) -> Iterator[dict[str, Any]]:
    """Differences and times, for the docs: written beside the screenshots."""
    found: dict[str, Any] = {}
    yield found
    (screenshots / "measured.json").write_text(json.dumps(found, indent=1), encoding="utf-8")


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = SCREENSHOTS or tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
