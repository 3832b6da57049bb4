"""Prompt caches that past versions wrote, one folder a file format, read by today's tqcore."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from safetensors import safe_open

from tests.compat.conftest import HERE
from tqcore.cache import load_caches, persist, state

FILES = sorted(HERE.glob("format*/*.safetensors"))


def _meta(path: Path) -> str:
    """Return the description of a file's first layer."""
    with safe_open(path, framework="np") as file:
        meta: str = json.loads(file.metadata()[persist.KEY])["layers"][0]["meta"]
    return meta


def test_every_format_that_is_read_has_its_files():
    assert {path.parent.name for path in FILES} == {
        f"format{number}" for number in range(1, persist.FORMAT + 1)
    }
    written = {json.loads(_meta(path))["format"] for path in FILES}
    assert written == {state.PLAIN, state.CENTRED}, "write files of a new description too"


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_a_file_of_the_past_decodes_as_it_did_and_goes_on(path):
    caches, metadata = load_caches(path)
    assert metadata == {"prompt": path.stem}
    expected = np.load(path.with_suffix(".npz"))
    assert len(expected.files) == sum(2 for cache in caches if not cache.empty())
    for layer, cache in enumerate(caches):
        if not cache.empty():
            for side, array in zip("kv", cache.dequantize(), strict=True):
                # devices differ in the last bit of a rotation
                np.testing.assert_allclose(
                    np.array(array), expected[f"{layer}.{side}"], rtol=2e-3, atol=2e-3
                )
        offset = cache.offset
        new = mx.ones((1, 1, 1, 32), mx.float16)
        out = cache.attend(new, *cache.update_and_fetch(new, new), scale=0.2)
        assert cache.offset == offset + 1
        assert mx.isfinite(out).all().item()
