"""A mkdocs hook: READMEs of the tree as pages, and links that hold on the site as in the tree.

Markdown in this repository links to files. The site has the files of ``docs`` and the READMEs
beside the code of parts and examples; a link to either is turned into the site's own, and one
to any other file of the tree into its text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"
SECTIONS = {
    "Parts": ("parts", ("plugins/*/*/README.md", "metal_kernels/*/README.md")),
    "Examples": ("packages", ("docs/examples/*/README.md",)),
}
"""Entries of ``nav`` that are filled here: a folder of the site, and the READMEs in it."""

READMES = {
    readme: f"{folder}/{readme.parent.name}.md"
    for folder, patterns in SECTIONS.values()
    for pattern in patterns
    for readme in sorted(ROOT.glob(pattern))
}
"""Each README and its address in the site's sources."""

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#:]+)((?:#[^)\s]*)?)\)")
"""A link to a file: text, path, anchor."""

LABEL = re.compile(r"docs/([\w/-]+?)(?:\.md)?")
"""A text that is the path of a page."""

FENCE = re.compile(r"^(```\w+)[ \t][^\n]*$", re.MULTILINE)
"""An opening fence with words after the language: they are for the tests."""


def on_config(config: MkDocsConfig) -> None:
    """Fill the sections, in alphabetical order of titles; one without pages goes."""
    assert config.nav is not None
    for entry in config.nav:
        for section, (folder, _) in SECTIONS.items():
            if section in entry:
                pages = {
                    _title(path): uri for path, uri in READMES.items() if uri.startswith(folder)
                }
                entry[section] = [{title: pages[title]} for title in sorted(pages)]
    config.nav = [entry for entry in config.nav if all(entry.values())]
    config.watch += [str(ROOT / name) for name in ("README.md", "CHANGELOG.md", "tqcore")]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the READMEs."""
    for readme, uri in READMES.items():
        files.append(File.generated(config, uri, abs_src_path=str(readme)))
    return files


@event_priority(-50)  # after README's sections are included
def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to the site's pages, and leave a fence nothing but its language."""
    assert page.file.abs_src_path is not None
    source = Path(page.file.abs_src_path)
    here = posixpath.dirname(page.file.src_uri)

    def on_site(match: re.Match[str]) -> str:
        text, target, anchor = match.groups()
        path = (source.parent / target).resolve()
        if uri := _uri(path):
            named = LABEL.fullmatch(text)
            return f"[{named[1] if named else text}]({posixpath.relpath(uri, here)}{anchor})"
        in_tree = path.exists() and path.is_relative_to(ROOT)
        return text if in_tree else match[0]

    return FENCE.sub(r"\1", LINK.sub(on_site, markdown))


def _uri(path: Path) -> str | None:
    readme = path / "README.md" if path.is_dir() else path
    if readme in READMES:
        return READMES[readme]
    on_site = path.is_file() and path.is_relative_to(DOCS) and not path.is_relative_to(EXAMPLES)
    return path.relative_to(DOCS).as_posix() if on_site else None


def _title(readme: Path) -> str:
    return readme.read_text().partition("\n")[0].removeprefix("# ")
