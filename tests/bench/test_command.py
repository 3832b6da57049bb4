"""The command line: files, tables, and how mistakes are refused."""

from __future__ import annotations

import importlib.util
import json

import pytest

from tests.core.test_lightness import HEAVY, loaded
from tqcore import cli

TINY = ("--tokens", "16", "--kv-heads", "1", "--head-dim", "32", "--repeats", "1", "--no-peers")


@pytest.mark.parametrize("benchmark", ["attention", "encode"])
def test_out_gets_data_page_and_picture(benchmark, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    folder = tmp_path / "made" / "here"
    assert cli.main(["bench", benchmark, *TINY, "--out", str(folder)]) == 0
    told = capsys.readouterr()
    assert "turboquant@3.5" in told.out
    assert "load" in told.out
    assert "wrote" in told.err
    data = json.loads((folder / f"{benchmark}.json").read_text())
    assert {"turboquant@4", "turboquant@3.5"} <= {row["name"] for row in data["rows"]}
    page = (folder / f"{benchmark}.md").read_text()
    assert f"# tqcore bench {benchmark}" in page
    assert data["command"] in page
    assert "| turboquant@4 | 16 |" in page
    assert (folder / f"{benchmark}.png").read_bytes().startswith(b"\x89PNG")


def test_generate_writes_them_too(tiny_llama, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    small = ("--contexts", "16", "--steps", "2", "--repeats", "1", "--schemes", "turboquant@4")
    assert cli.main(["bench", "generate", str(tiny_llama), *small, "--out", str(tmp_path)]) == 0
    assert "decode tok/s" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {
        "generate.json", "generate.md", "generate.png",
    }  # fmt: skip


def test_without_matplotlib_the_picture_is_left_out_and_said_so(tmp_path, monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name)
    )
    assert cli.main(["bench", "attention", *TINY, "--out", str(tmp_path)]) == 0
    assert 'pip install "tqcore[report]"' in capsys.readouterr().err
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".md"}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["attention", "--schemes", "turbquant@4"], "did you mean 'turboquant'"),
        (["attention", "--schemes", "turboquant@four"], "expected SCHEME@BITS"),
        (["encode", "--schemes", "turboquant@9"], "widths are 1 to 8"),
        (["encode", "--schemes", "turboquant@4/3/2"], "SCHEME@KEYS/VALUES"),
        (["generate", "--schemes", "turboquant:sed=1@4"], "did you mean 'seed'"),
    ],
)
def test_a_scheme_that_does_not_exist(argv, message, capsys):
    assert cli.main(["bench", *argv]) == 2
    told = capsys.readouterr()
    assert message in told.err
    assert told.out == ""


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "BENCHMARK"),
        (["attentoin"], "attention"),
        (["attention", "--tokens", "0"], "whole number of 1 or more"),
        (["attention", "--tokens", "4k"], "whole number of 1 or more"),
        (["attention", "--dtypes", "float64"], "float32, bfloat16, float16"),
        (["generate", "--steps", "-1"], "whole number of 1 or more"),
    ],
)
def test_arguments_that_cannot_be(argv, message, capsys):
    with pytest.raises(SystemExit) as got:
        cli.main(["bench", *argv])
    assert got.value.code == 2
    assert message in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_measured(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.main(["bench", "attention", *TINY, "--out", str(tmp_path / "file")]) == 2
    assert "--out" in capsys.readouterr().err


def test_a_typo_is_refused_before_an_array_library_is_imported():
    # what is loaded is told on stderr
    code = (
        "import contextlib, io\n"
        "from tqcore.cli import main\n"
        "with contextlib.redirect_stderr(io.StringIO()):\n"
        "    assert main(['bench', 'encode', '--schemes', 'turbquant']) == 2\n"
    )
    assert loaded(code, *HEAVY) == set()
