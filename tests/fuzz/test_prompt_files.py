"""Damaged prompt caches: refused with the reason, or caches that work; quickly, in little memory."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.budget import attempt, fuzz
from tests.fuzz.files import KINDS, apart, damaged_bytes, damaged_parts, together, whole
from tqcore.cache import load_caches
from tqcore.errors import StateError

SECONDS = 20.0
"""Processor time that one file may take, the compilation of kernels included."""

ROOM = 512 * 2**20
"""Bytes by which all of the fuzzing may grow the process."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("prompts")


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def read(path: Path, data: bytes) -> None:
    """Load a file; use what comes as a program would."""
    path.write_bytes(data)
    began = time.process_time()
    caches, metadata = attempt(load_caches, path, refusal=StateError) or ([], {})
    assert isinstance(metadata, dict)
    for cache in caches:
        attempt(use, cache)
    assert time.process_time() - began < SECONDS
    assert path.read_bytes() == data
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def use(cache) -> None:
    cache.report()
    if cache.empty():
        return
    assert cache.nbytes > 0
    (batch, heads), dims = cache.lead, [codec.dim for codec in cache.tokens.codecs]
    new = [mx.ones((batch, heads, 1, dim), cache.dtype) for dim in dims]
    q = mx.ones((batch, heads, 1, dims[0]), cache.dtype)
    out = cache.attend(q, *cache.update_and_fetch(*new), scale=0.1)
    assert out.shape == (batch, heads, 1, dims[1])
    mx.eval(out, *cache.dequantize())
    cache.trim(1)
    cache.copy()


@pytest.fixture(scope="module", autouse=True)
def little_memory(folder):
    for kind in KINDS:
        read(folder / "warm.safetensors", whole(kind))
    (folder / "warm.safetensors").unlink()
    before = peak()
    yield
    assert peak() - before < ROOM


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_put_together_again_loads(folder, kind):
    path = folder / "prompt.safetensors"
    path.write_bytes(together(apart(whole(kind))))
    caches, metadata = load_caches(path)
    assert metadata == {"prompt": "hello"}
    assert [cache.empty() for cache in caches][-1]


@fuzz(200)
@given(damaged_bytes())
def test_damaged_bytes(folder, data):
    read(folder / "prompt.safetensors", data)


@fuzz(300)
@given(damaged_parts())
def test_a_damaged_description(folder, data):
    read(folder / "prompt.safetensors", data)


@fuzz(40)
@given(st.sampled_from(KINDS), st.integers(0, 2**32 - 1))
def test_any_bits_are_codes_of_something(folder, kind, seed):
    """Arrays of noise under a right digest: every plane decodes, whatever is in it."""
    header, record, body = apart(whole(kind))
    noise = np.random.default_rng(seed).bytes(len(body))
    read(folder / "prompt.safetensors", together((header, record, noise)))
    load_caches(folder / "prompt.safetensors")
