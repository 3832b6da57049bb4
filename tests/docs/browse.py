"""Open the built site in Chromium: no page may log an error, fetch from another host or be wider than its screen.

``pip install playwright``, a Chromium of the system, ``make docs``, then
``python -m tests.docs.browse [--shots DIR] [--chromium /usr/bin/chromium]``
"""

from __future__ import annotations

import argparse
import re
import string
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.docs.pages import ROOT

SITE = ROOT / "site"
SHOTS = ("index", "choose", "cli", "api/spec", "peers")
SCREENS = {"wide": (1280, 900), "phone": (390, 800)}
WORDS = ("trellis", "WidthError", "--kv-bits", "prefix cache", *string.ascii_lowercase)


class Watch:
    """What a page did that it must not."""

    def __init__(self, page: Page) -> None:
        self.found: list[str] = []
        page.on("console", lambda said: said.type in ("error", "warning") and self.say(said.text))
        page.on("pageerror", lambda error: self.say(str(error)))
        page.on("request", lambda request: self.fetch(request.url))

    def say(self, text: str) -> None:
        self.found.append(text)

    def fetch(self, url: str) -> None:
        if not url.startswith(("data:", "blob:", SITE.as_uri())):
            self.say(f"asks another host: {url}")


def look(page: Page, watch: Watch, shots: Path | None, name: str) -> None:
    """Open every page."""
    for path in sorted(set(SITE.rglob("*.html")) - {SITE / "404.html"}):  # that one is a server's
        page.goto(path.as_uri(), wait_until="load")
        wide = page.evaluate("document.documentElement.scrollWidth > window.innerWidth + 1")
        if wide:
            watch.say("is wider than the screen")
        page_name = path.relative_to(SITE).with_suffix("").as_posix()
        if shots and page_name in SHOTS:
            page.screenshot(path=shots / f"{page_name.replace('/', '-')}-{name}.png")
        report(watch, f"{page_name}, {name}")


def search(page: Page, watch: Watch) -> None:
    """Type words and find pages."""
    page.goto((SITE / "index.html").as_uri(), wait_until="load")
    page.click(".md-search__input")
    for word in WORDS:
        page.fill(".md-search__input", "")
        page.type(".md-search__input", word, delay=20)
        page.wait_for_timeout(400 if len(word) == 1 else 2000)
        meta = page.text_content(".md-search-result__meta") or ""
        if len(word) > 1 and not re.search(r"\d+ matching", meta):
            watch.say(f"search for {word!r} finds nothing: {meta.strip()}")
        report(watch, f"search {word!r}")


def report(watch: Watch, where: str) -> None:
    """Stop at the first page that did wrong."""
    if watch.found:
        raise SystemExit(f"{where}: {watch.found}")


def main() -> None:
    """Look at everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shots", type=Path)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    args = parser.parse_args()
    if args.shots:
        args.shots.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as play:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = play.chromium.launch(executable_path=args.chromium, args=flags)
        for screen, (width, height) in SCREENS.items():
            for colours in ("light", "dark"):
                size = {"width": width, "height": height}
                page = browser.new_page(viewport=size, color_scheme=colours)
                watch = Watch(page)
                look(page, watch, args.shots, f"{screen}-{colours}")
                page.close()
        page = browser.new_page()
        search(page, Watch(page))
        browser.close()
    print(
        f"{len(list(SITE.rglob('*.html')))} pages, {len(SCREENS)} screens, light and dark: nothing wrong"
    )


if __name__ == "__main__":
    main()
