from __future__ import annotations

import pytest

from tqcore.measure.errors import MeasureError
from tqcore.measure.text import manual, paragraphs, passage


def encode(text: str) -> list[int]:
    return list(text.encode())


def test_the_manual_is_long_prose():
    text = manual()
    assert len(text.split()) > 10_000
    blocks = text.split("\n\n")
    assert len(set(blocks)) == len(blocks)
    assert all(block.endswith((".", ":")) for block in blocks)
    assert "===" not in text
    assert "***" not in text


def test_paragraphs_leave_out_what_is_no_prose():
    prose = "A sentence that goes on for long enough to be taken for prose, over\nseveral lines."
    text = (
        f"Heading\n=======\n\n{prose}\n\n   >>> example(of, code, that, is, long, enough)\n\nShort."
    )
    assert list(paragraphs(text)) == [prose.replace("\n", " ")]


def test_a_passage_is_exact_and_the_same_again():
    assert len(passage(encode, 500)) == 500
    assert passage(encode, 500, start=100) == passage(encode, 600)[100:]


def test_a_file_is_read_instead(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("abc", encoding="utf-8")
    assert passage(encode, 3, path=path) == [97, 98, 99]
    with pytest.raises(MeasureError, match=r"4 tokens asked for.*has 3.*--text"):
        passage(encode, 4, path=path)
    path.write_bytes(b"\xff")
    with pytest.raises(MeasureError, match="cannot be read"):
        passage(encode, 1, path=path)


def test_more_than_the_manual_has_is_an_error():
    with pytest.raises(MeasureError, match="Python's manual has"):
        passage(encode, 10**9)
