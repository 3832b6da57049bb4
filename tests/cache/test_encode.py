"""What a cache stores when a kernel encodes: its planes, or an error that names it."""

from __future__ import annotations

import mlx.core as mx
import pytest

from tests.core.test_select import Encoding
from tqcore import QuantizedKVCache
from tqcore import select as selection
from tqcore.errors import KernelError
from tqcore.select import _encoder_for
from tqplugins.kernels_mlx.device import PortableKernel


class Recording(Encoding):
    """Encodes as the codecs do, and notes what it was asked."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("recording", -1, *reasons)
        self.calls: list[tuple[int, ...]] = []

    def encode(self, keys, values, key_codec, value_codec):
        self.calls.append((*keys.shape, values.shape[3]))
        return key_codec.encode(keys), value_codec.encode(values)


@pytest.fixture
def installed(monkeypatch):
    def install(kernel):
        monkeypatch.setattr(selection, "kernels", lambda: (PortableKernel(), kernel))
        _encoder_for.cache_clear()
        return kernel

    yield install
    _encoder_for.cache_clear()


def fill(tokens: int = 5) -> QuantizedKVCache:
    cache = QuantizedKVCache("turboquant:skip=none", 4)
    key = mx.random.normal((1, 2, tokens, 64), key=mx.random.key(1))
    cache.update_and_fetch(key, key[..., :32])
    return cache


def test_a_kernel_that_encodes_gets_both_sides_in_one_call(installed):
    kernel = installed(Recording())
    came = fill()
    assert kernel.calls == [(1, 2, 5, 64, 32)]
    installed(Recording("not today"))
    for mine, theirs in zip(came.arrays(), fill().arrays(), strict=True):
        assert all(mx.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))


def test_a_long_prompt_is_encoded_in_blocks(installed, monkeypatch):
    monkeypatch.setattr("tqcore.cache.tokens.ENCODE_BUDGET", 1)
    kernel = installed(Recording())
    assert fill(150).length == 150
    assert [call[2] for call in kernel.calls] == [64, 64, 22]


def test_a_kernel_that_fails_to_encode_is_named(installed):
    installed(Encoding("faulty", 3))
    with pytest.raises(KernelError, match="kernel 'faulty' failed to encode: NotImplementedError"):
        fill()
