"""Documentation as a whole: links lead somewhere, tables and indexes are complete."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import PAGES, ROOT, named


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_to_other_hosts_are_well_formed(page):
    for target in re.findall(r"\]\((\w+:[^)]*)\)", page.read_text()):
        parts = urlsplit(target)
        assert parts.scheme == "https", target
        assert re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.hostname or ""), target
        assert not re.search(r"[\s<>\"]", target), target


def test_every_page_is_in_the_index():
    index = (ROOT / "docs/index.md").read_text()
    for page in ROOT.glob("docs/*.md"):
        assert page.name == "index.md" or f"({page.name})" in index


def test_the_changelog_has_this_version():
    import tqcore

    assert f"## [{tqcore.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
