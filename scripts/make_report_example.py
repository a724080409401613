"""Writes the live report of docs/report.md and its screenshots; needs what `make test-page` needs."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "docs" / "report-example.html"
IMAGES = ROOT / "docs" / "images"
COMMAND = (
    "compare", "examples/llama2_70b.json", "--ranks", "8", "--chunks", "2", "--microbatches", "32", "--memory", "56GB",
    "--manual", "examples/manual_70b.yaml",
)  # fmt: skip
WIDTH, HEIGHT = 1360, 860


def main() -> None:
    """Make the report, then look at it."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                sys.executable,
                "-m",
                "evenflow",
                *COMMAND,
                "--output-folder",
                folder,
                "--html",
                str(EXAMPLE),
                "--overwrite",
            ],
            check=True,
            cwd=ROOT,
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
            args=["--no-sandbox", "--disable-gpu"],
        )
        page = _opened(browser, "light")
        page.screenshot(path=IMAGES / "report.png")
        _zoomed(page)
        page.screenshot(path=IMAGES / "report_zoom.png")
        changed = _opened(browser, "light")
        _changed(changed)
        changed.screenshot(path=IMAGES / "report_what_if.png")
        dark = _opened(browser, "dark")
        dark.keyboard.press("[")
        dark.wait_for_timeout(300)
        dark.screenshot(path=IMAGES / "report_compare.png")
        browser.close()


def _opened(browser: Any, scheme: str) -> Any:
    page = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme).new_page()
    page.goto(f"file://{EXAMPLE}#plan=0")
    page.wait_for_selector(".viewer canvas")
    page.wait_for_timeout(300)
    return page


def _zoomed(page: Any) -> None:
    """Show an action that waits, chosen, with what is told of it below."""
    page.locator(".panel input[type=search]").fill("r3 mb20 F c1")
    page.locator(".panel input[type=search]").press("Enter")
    canvas = page.locator(".viewer canvas:not(.above)")
    page.locator(".panel").scroll_into_view_if_needed()
    page.evaluate("window.scrollTo(0, document.querySelector('.panel').getBoundingClientRect().top + scrollY - 8)")
    canvas.focus()
    for _turn in range(11):
        page.keyboard.press("w")
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(300)


def _changed(page: Any) -> None:
    """Move two layers from the second stage into the first."""
    page.keyboard.press("i")
    for _layer in range(2):
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(300)


if __name__ == "__main__":
    main()
