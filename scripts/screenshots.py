"""Takes the pictures of docs/report.md and docs/dashboard.md, in Debian's chromium and in Textual.

    .venv/bin/python scripts/screenshots.py [FOLDER]

The model is the one of `make demo`, which must have been run. With a FOLDER every tab is drawn there at 1440 and 390 pixels, dark
and light, to be looked at; without one docs/images is written.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from pycandle.dashboard.app import Dashboard
from pycandle.dashboard.results import Follower

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "build" / "demo"
IMAGES = ROOT / "docs" / "images"
FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # from the network: the reader's own monospace does
TABS = ("summary", "model", "graph", "drift", "performance", "weights")
# name, tab, width, height, theme
SHOWN = (
    ("report-summary", "summary", 1440, 800, "light"),
    ("report-model", "model", 1440, 900, "light"),
    ("report-drift", "drift", 1440, 1000, "dark"),
    ("report-performance", "performance", 1440, 1000, "light"),
    ("report-phone", "drift", 390, 844, "light"),
    ("report-phone-dark", "model", 390, 844, "dark"),
)


def report_pictures(pictures: list[tuple[str, str, int, int, str]], folder: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        for name, tab, width, height, theme in pictures:
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
            page = context.new_page()
            page.goto(f"{(DEMO / 'report.html').as_uri()}#{tab}")
            page.wait_for_selector("main > *")
            page.wait_for_timeout(300)
            page.screenshot(path=folder / f"{name}.png")
            context.close()
        browser.close()


def dashboard_picture(file: Path, size: tuple[int, int]) -> None:
    app = Dashboard(Follower(DEMO / "broken" / "result.jsonl"))

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await pilot.press("f")
            await pilot.pause(0.5)
            drawn = app.export_screenshot(title="pycandle dashboard")
            file.write_text(FONTS.sub("", drawn))

    asyncio.run(run())


def main() -> None:
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        every = [
            (f"{tab}-{width}-{theme}", tab, width, 900, theme)
            for tab in TABS
            for width in (1440, 390)
            for theme in ("light", "dark")
        ]
        report_pictures(every, folder)
        for size in ((80, 24), (140, 40)):
            dashboard_picture(folder / f"dashboard-{size[0]}.svg", size)
        return
    report_pictures(list(SHOWN), IMAGES)
    dashboard_picture(IMAGES / "dashboard.svg", (130, 48))


if __name__ == "__main__":
    main()
