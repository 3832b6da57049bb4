"""Blocks that are data parse, and no block is of a language that nothing checks."""

from __future__ import annotations

import json
import tomllib

import pytest

from tests.docs.pages import FENCED, PLAIN, Block, params

READERS = {"json": json.loads, "toml": tomllib.loads}
SHELLS = ("bash", "console", "sh")
"""What test_console reads."""


def test_every_fenced_block_has_a_language_that_is_checked():
    # "text" is what a program prints
    assert {block.language for block in FENCED} <= {"python", "text", *SHELLS, *READERS}


@pytest.mark.parametrize("block", params([b for b in FENCED if b.language in READERS]))
def test_a_block_of_data_parses(block: Block):
    assert READERS[block.language](block.code)


@pytest.mark.parametrize("block", params([b for b in PLAIN if b.code.startswith(("[{", "{"))]))
def test_an_indented_block_of_json_parses(block: Block):
    assert json.loads(block.code)
