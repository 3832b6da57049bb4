"""``tqcore new-plugin``: names it takes and refuses, and what it writes."""

from __future__ import annotations

import ast
import tomllib

import pytest

from tests.core.helpers import Point, component, plugin, points, scheme
from tqcore import cli
from tqcore.errors import PluginError
from tqcore.registry import Registry, registry
from tqcore.scaffold.names import Names, names_of
from tqcore.scaffold.write import KINDS, LICENSES, files_of, write


@pytest.fixture
def known() -> Registry:
    made = plugin(schemes=[scheme("own")], codebooks=[component("book", "codebook")])
    return Registry(points(Point("entry", made, "a-package")), ())


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("mine", Names("mine", "mine", "mine")),
        ("tqcore-mine", Names("tqcore-mine", "tqcore_mine", "mine")),
        ("My.Own__Scheme", Names("my-own-scheme", "my_own_scheme", "my-own-scheme")),
    ],
)
def test_names_are_normalized(known, asked, names):
    assert names_of(asked, "scheme", known) == names


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("", "cannot name a package"),
        ("a b", "cannot name a package"),
        ("-mine", "cannot name a package"),
        ("../mine", "cannot name a package"),
        ("größe", "cannot name a package"),
        ("3d", "begin with a letter"),
        ("class", "begin with a letter"),
        ("own", "has a scheme 'own'"),
        ("tqcore-own", "has a scheme 'own'"),
        ("entry", "a plugin 'entry' of a-package is installed"),
        ("A_Package", "of a-package is installed"),
        ("json", "a module 'json' is installed"),
        ("tqcore", "a module 'tqcore' is installed"),
    ],
)
def test_names_are_refused_with_the_reason(known, asked, said):
    with pytest.raises(PluginError, match=said):
        names_of(asked, "scheme", known)


def test_a_codebooks_name_is_taken_by_codebooks_alone(known):
    with pytest.raises(PluginError, match="has a codebook 'book'"):
        names_of("book", "codebook", known)
    assert names_of("book", "rotation", known).item == "book"


@pytest.mark.parametrize("license", LICENSES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_package_is_complete_and_filled_in(kind, license):
    files = files_of(Names("tqcore-mine", "tqcore_mine", "mine"), kind, license, "Ada Lovelace")
    assert {
        ".github/workflows/ci.yml",
        ".gitignore",
        "README.md",
        "pyproject.toml",
        "tests/test_contract.py",
        "tqcore_mine/__init__.py",
        "tqcore_mine/plugin.py",
    } <= set(files)
    assert ("LICENSE" in files) == (license != "none")
    if license != "none":
        assert "Ada Lovelace" in files["LICENSE"]
    project = tomllib.loads(files["pyproject.toml"])["project"]
    assert project["name"] == "tqcore-mine"
    assert project.get("license") == (None if license == "none" else license)
    assert project["entry-points"]["tqcore"] == {"tqcore-mine": "tqcore_mine.plugin"}
    for name, text in files.items():
        if name.endswith(".py"):
            ast.parse(text)
        assert "$" not in text.replace("${{ matrix", ""), name


def test_nothing_is_overwritten_and_then_nothing_is_written(tmp_path):
    files = files_of(Names("mine", "mine", "mine"), "scheme", "MIT", "Ada")
    (tmp_path / "README.md").write_text("precious")
    with pytest.raises(PluginError, match=r"README\.md is there already"):
        write(files, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "precious"


def test_a_folder_that_cannot_be_made_is_an_error_of_ours(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PluginError, match="cannot write"):
        write({"x": ""}, tmp_path / "file")


def test_the_command_writes_and_says_what_is_next(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["new-plugin", "tqcore-mine", "--kind", "rotation"]) == 0
    out = capsys.readouterr().out
    assert (tmp_path / "tqcore-mine/tqcore_mine/rotation.py").exists()
    assert 'cd tqcore-mine && pip install -e ".[test]"' in out
    assert "--kv-quant-scheme turboquant:rotation=mine" in out
    assert cli.main(["new-plugin", "tqcore-mine"]) == 2
    assert cli.main(["new-plugin", "other", "--directory", "there/deep"]) == 0
    assert (tmp_path / "there/deep/other/codebook.py").exists()


def test_a_scheme_that_is_there_is_refused(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["new-plugin", "turboquant"]) == 2
    assert "has a scheme 'turboquant'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert registry().scheme("turboquant")
