"""A mkdocs hook: every part's README as a page, and links that hold on the site as in the tree.

Markdown in this repository links to files. The site has the files of ``docs`` and, under
``parts``, the README beside each part's code; a link to either is turned into the site's own.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PARTS = {
    readme: f"parts/{readme.parent.name}.md"
    for pattern in ("plugins/*/*/README.md", "metal_kernels/*/README.md")
    for readme in sorted(ROOT.glob(pattern))
}
"""Each part's README, and its address in the site's sources."""

SECTION = "Parts"
"""The entry of ``nav`` that is filled with them."""

LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")
FENCE = re.compile(r"^(```\w+)[ \t][^\n]*$", re.MULTILINE)
"""An opening fence with words after the language: they are for the tests."""

LABEL = re.compile(r"\[docs/([\w/-]+?)(?:\.md)?\](?=\()")
"""A link whose text is the path of a page."""


def on_config(config: MkDocsConfig) -> None:
    """List the parts in the navigation, in alphabetical order of their titles."""
    titles = {_title(readme): uri for readme, uri in PARTS.items()}
    listed: list[dict[str, Any]] = [{title: titles[title]} for title in sorted(titles)]
    assert config.nav is not None
    entry = next(each for each in config.nav if SECTION in each)
    entry[SECTION] = listed
    config.watch += [str(ROOT / name) for name in ("README.md", "CHANGELOG.md", "tqcore")]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the parts."""
    for readme, uri in PARTS.items():
        files.append(File.generated(config, uri, abs_src_path=str(readme)))
    return files


@event_priority(-50)  # after README's sections are included
def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to the site's pages, and leave a fence nothing but its language."""
    assert page.file.abs_src_path is not None
    source = Path(page.file.abs_src_path)
    here = posixpath.dirname(page.file.src_uri)

    def on_site(match: re.Match[str]) -> str:
        uri = _uri((source.parent / match[1]).resolve())
        return posixpath.relpath(uri, here) if uri else match[1]

    return LABEL.sub(r"[\1]", FENCE.sub(r"\1", LINK.sub(on_site, markdown)))


def _uri(target: Path) -> str | None:
    if target in PARTS:
        return PARTS[target]
    inside = target.is_file() and target.is_relative_to(DOCS)
    return target.relative_to(DOCS).as_posix() if inside else None


def _title(readme: Path) -> str:
    return readme.read_text().partition("\n")[0].removeprefix("# ")
