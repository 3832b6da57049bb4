"""The site builds without a warning, has every page, and asks no other host for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

import tqcore
from tests.docs.pages import ROOT

DOCS = ROOT / "docs"
MODULES = (
    "cache",
    "adapters",
    "spec",
    "protocols",
    "hookspecs",
    "registry",
    "select",
    "testing",
    "errors",
)


class Loader(yaml.SafeLoader):
    """Reads mkdocs.yml: values from the environment stand for nothing."""


Loader.add_constructor("!ENV", lambda loader, node: None)


def listed(entry: object) -> list[str]:
    """Return the pages of a part of ``nav``."""
    if isinstance(entry, str):
        return [entry]
    parts = entry if isinstance(entry, list) else list(entry.values())
    return [page for part in parts for page in listed(part)]


CONFIG = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)
NAV = listed(CONFIG["nav"])


def test_every_page_is_in_the_navigation_once():
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    own = {page for page in pages if not page.startswith("examples/")}  # packages, not pages
    assert sorted(NAV) == sorted(own)


def test_the_navigation_has_two_levels():
    for section in CONFIG["nav"]:
        ((_, pages),) = section.items()
        assert all(isinstance(p, str) or isinstance(next(iter(p.values())), str) for p in pages)


(RECIPE,) = re.findall(r"/mkdocs (build.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)


def build(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run what `make docs` runs; the oldest dependencies come without its tools."""
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", *RECIPE.split(), *map(str, arguments)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site as `make docs` builds it."""
    out = tmp_path_factory.mktemp("site")
    done = build("--site-dir", out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


FAULTS = {
    "link": "[x](nowhere.md)",
    "anchor": "[x](index.md#nowhere)",
    "absolute link": "[x](/index.md)",
    "page that nothing lists": "fine",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_stops_the_build(fault, tmp_path):
    # our settings without plugins and theme, which take the time
    bare = {"theme": {"name": "mkdocs"}, "plugins": [], "hooks": [], "docs_dir": "docs"}
    nav = {"nav": ["index.md"]}
    config = {"INHERIT": str(ROOT / "mkdocs.yml"), **bare, **nav}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(config))
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# Page\n")
    options = ("--config-file", tmp_path / "mkdocs.yml", "--site-dir", tmp_path / "site")
    assert build(*options).returncode == 0
    page = "other.md" if fault == "page that nothing lists" else "index.md"
    (docs / page).write_text(f"# Page\n\n{FAULTS[fault]}\n")
    done = build(*options)
    assert done.returncode == 1
    assert "Aborted with 1 warning" in done.stderr + done.stdout


class Resources(HTMLParser):
    """What a browser fetches by itself when it opens a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "link" and values.get("rel") not in ("canonical", "prev", "next"):
            self.found.append(values.get("href", ""))
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed"):
            self.found.append(values.get("src", ""))


def test_no_page_fetches_anything_from_another_host(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        resources = Resources()
        resources.feed(page.read_text())
        foreign = [each for each in resources.found if re.match(r"(https?:)?//", each)]
        assert not foreign, f"{page.relative_to(site)}: {foreign}"
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"url\(['\"]?(?:https?:)?//[^)]*|@import", sheet.read_text())


def test_readmes_and_the_changelog_are_on_the_site(site):
    for folder, pattern in (
        ("parts", "plugins/*/*/README.md"),
        ("packages", "docs/examples/*/README.md"),
    ):
        names = {f"{path.parent.name}.html" for path in ROOT.glob(pattern)}
        assert names <= {path.name for path in site.glob(f"{folder}/*.html")}
    assert "Keep a Changelog" in (site / "changelog.html").read_text()
    assert "arXiv" in (site / "index.html").read_text()
    assert "Distortion" in (site / "choose.html").read_text()


@pytest.mark.parametrize("module", MODULES)
def test_a_public_module_has_a_page_with_its_names(site, module):
    page = (site / f"api/{module}.html").read_text()
    assert f'id="tqcore.{module}"' in page
    public = re.findall(rf'id="(tqcore\.{module}\.\w+)', page)
    assert public


def test_every_name_of_the_package_is_in_the_index_of_the_api():
    index = (DOCS / "api/index.md").read_text()
    assert all(f"`{name}`" in index for name in tqcore.__all__)


def test_an_attrs_class_shows_the_arguments_of_its_constructor(site):
    page = re.sub(r"<[^>]+>", "", (site / "api/spec.html").read_text())
    assert re.search(r"CodecSpec\(\s+rotation: str,\s+codebook: str,\s+packer: str,", page)
    assert 'scale: str = "unbiased",' in page.replace("&quot;", '"')


def test_code_shows_no_marks_of_the_tests(site):
    for page in site.rglob("*.html"):
        assert "```" not in page.read_text(), page.name


def test_search_finds_words_of_every_kind_of_page(site):
    index = (site / "search/search_index.js").read_text()
    for word in ("trellis", "--kv-quant-scheme", "UnknownNameError", "splitmix64"):
        assert word in index
