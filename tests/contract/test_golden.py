"""The helper for golden bytes: it writes once, and then holds a scheme to what it wrote."""

from __future__ import annotations

import json

import pytest

from tqcore.errors import UnknownNameError
from tqcore.testing.golden import check_golden
from tqcore.testing.verdict import CheckFailed


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "uniform.json"
    with pytest.raises(CheckFailed, match="written now"):
        check_golden("uniform", path)
    return path


def change(path, edit) -> None:
    data = json.loads(path.read_text())
    for record in data.values():
        edit(record)
    path.write_text(json.dumps(data))


def test_what_was_written_holds(written):
    before = written.read_text()
    check_golden("uniform", written)
    assert written.read_text() == before
    assert "keys, 4 bits, dim 64" in json.loads(before)


def test_other_bytes_are_told_with_both(written):
    change(written, lambda record: record["planes"].update(words="00" * 256))
    with pytest.raises(CheckFailed, match="a changed byte is a new layout id") as caught:
        check_golden("uniform", written)
    assert "words = 0000" in caught.value.expected
    assert "of the bytes alike" in caught.value.got
    assert caught.value.given == "ramp(8, 64)"


def test_another_layout_is_told(written):
    change(written, lambda record: record.update(layout="u32le/0"))
    with pytest.raises(CheckFailed, match="other planes") as caught:
        check_golden("uniform", written)
    assert "u32le/0" in caught.value.expected


def test_old_bytes_that_decode_otherwise_are_told(written):
    change(written, lambda record: record.update(distortion=record["distortion"] * 2))
    with pytest.raises(CheckFailed, match="decodes to something else"):
        check_golden("uniform", written)


def test_an_unknown_scheme(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'uniform'"):
        check_golden("unifrom", tmp_path / "x.json")
