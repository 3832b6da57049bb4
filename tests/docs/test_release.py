"""The changelog is one that a user can read, and what is cited is this version."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tqcore

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
SECTIONS = re.findall(r"^## \[(.+?)\](.*)\n((?:(?!^## ).*\n)*)", CHANGELOG, re.MULTILINE)


def test_versions_follow_each_other_and_the_next_comes_first():
    names = [name for name, _, _ in SECTIONS]
    assert names[0] == "Unreleased"
    versions = [tuple(map(int, name.split("."))) for name in names[1:]]
    assert versions == sorted(set(versions), reverse=True)
    assert tqcore.__version__ == names[1]
    for _, date, _ in SECTIONS:
        assert re.fullmatch(r"| - \d{4}-\d\d-\d\d", date)


@pytest.mark.parametrize("section", SECTIONS, ids=[name for name, _, _ in SECTIONS])
def test_a_section_is_lists_under_the_usual_headings(section):
    _, _, body = section
    headings = re.findall(r"^### (.*)$", body, re.MULTILINE)
    assert headings == [kind for kind in KINDS if kind in headings]
    for block in re.split(r"^### .*$", body, flags=re.MULTILINE)[1:]:
        lines = block.strip().splitlines()
        assert lines
        assert all(line.startswith(("- ", "  ")) for line in lines), block


def test_entries_speak_of_what_a_user_sees():
    entries = re.findall(r"^- ((?:.*\n)(?:  .*\n)*)", CHANGELOG, re.MULTILINE)
    for entry in entries:
        assert len(entry) < 700, entry
        assert not re.search(r"#\d+|\bissue \d", entry), entry


def test_the_citation_is_of_this_version_and_complete():
    text = (ROOT / "CITATION.cff").read_text()
    for key in ("cff-version: 1.2.0", "message: ", "title: ", "authors:", "license: MIT"):
        assert re.search(rf"^{key}", text, re.MULTILINE), key
    assert f"\nversion: {tqcore.__version__}\n" in text


def test_the_readme_shows_no_badge():
    """A badge says what a server said some day: figures and commands stand there instead."""
    assert not re.search(r"!\[.*\]\(https?://", (ROOT / "README.md").read_text())


def test_every_target_of_the_makefile_is_explained():
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)$", makefile, re.MULTILINE)[1]
    for target in set(phony.replace("\\", " ").split()) - {"help"}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
        assert f"make {target} " in makefile or target.startswith("test-floors-"), target
