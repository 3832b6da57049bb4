"""Checks of score kernels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tqcore.attention.mask import SegmentMask
from tqcore.attention.naive import attention
from tqcore.codec import Codec, codec_for, side_spec
from tqcore.device import device_kind
from tqcore.protocols import EncodedSegment, Partial, ScoreKernel
from tqcore.registry import registry
from tqcore.select import KernelRequest
from tqcore.spec import Component, ShapeCtx
from tqcore.testing import strategies as tst
from tqcore.testing.checks._subject import label, to_backend, to_numpy
from tqcore.widths import widths_of

CALLS = (
    # (kv heads, query heads a kv head, queries, tokens, mask)
    (2, 1, 1, 37, "none"),
    (2, 4, 1, 64, "none"),
    (1, 6, 1, 130, "array"),
    (2, 2, 5, 70, "causal"),
    (1, 3, 4, 33, "array"),
)
"""Shapes of attention that kernels are compared at."""


def check_kernel_refusals(component: Component) -> None:
    """Name, priority and laziness are declared; ``refuses`` returns a list of reasons."""
    kernel: ScoreKernel = component.load()()
    assert kernel.name == component.name, (
        f"{label(component)}: the class calls itself {kernel.name!r}"
    )
    assert isinstance(kernel.priority, int), f"{label(component)}: priority {kernel.priority!r}"
    assert isinstance(kernel.lazy, bool), f"{label(component)}: lazy {kernel.lazy!r}"
    spec = registry().schemes()[0][0].resolve()
    side = side_spec(codec_for(spec.key, 128))
    for device, dtype in itertools.product(("cpu", "metal", "cuda"), ("float16", "float32")):
        reasons = kernel.refuses(KernelRequest(device, dtype, side, side))
        assert isinstance(reasons, list), f"{label(component)}: refuses gave {reasons!r}"
        assert all(isinstance(reason, str) and reason for reason in reasons), (
            f"{label(component)}: refuses gave {reasons!r}, expected reasons in words"
        )


def check_kernel_equals_oracle(component: Component, tolerance: float = 2e-3) -> None:
    """Attention equals the float64 oracle on the decoded vectors, at every width it serves."""
    kernel: ScoreKernel = component.load()()
    for info, _ in registry().schemes():
        for bits in widths_of(info):
            spec = info.resolve(bits, {}, ShapeCtx(key_dim=64, value_dim=64))
            key, value = codec_for(spec.key, 64), codec_for(spec.value, 64)
            for call in CALLS:
                gap = _gap(kernel, key, value, call)
                assert gap is None or gap <= tolerance, (
                    f"{label(component)} on {info.name} at {bits:g} bits, (kv heads, gqa, "
                    f"queries, tokens, mask) {call}: off by {gap:.2g} of the values' size"
                )


def _gap(
    kernel: ScoreKernel, key: Codec, value: Codec, call: tuple[int, int, int, int, str]
) -> float | None:
    """Return the largest difference from the oracle, or None when the kernel refuses."""
    heads, gqa, q_len, tokens, mask = call
    sides = side_spec(key), side_spec(value)
    request = KernelRequest(device_kind(), "float32", *sides, q_len, gqa, mask)
    if kernel.refuses(request):
        return None
    import mlx.core as mx

    def draw(*shape: int, seed: int) -> Any:
        rows = tst.make_vectors(shape[-1], int(np.prod(shape[:-1])), "gaussian", seed)
        return rows.reshape(shape)

    q = draw(1, heads * gqa, q_len, key.dim, seed=16)
    stored_k = key.encode(to_backend(draw(1, heads, tokens, key.dim, seed=17), "mlx"))
    stored_v = value.encode(to_backend(draw(1, heads, tokens, value.dim, seed=18), "mlx"))
    given = _mask(mask, q_len, tokens)
    rotated = key.rotation.forward(mx.array(q))
    came = kernel.attend(
        rotated,
        EncodedSegment(stored_k, stored_v, key, value),
        SegmentMask.of(mx.array(given) if mask == "array" else given, q_len, tokens),
        scale=key.dim**-0.5,
    )
    expected = attention(
        q,
        to_numpy(key.decode(stored_k)),
        to_numpy(value.decode(stored_v)),
        scale=key.dim**-0.5,
        mask=given,
    )
    return float(np.abs(_normalized(came, value) - expected).max())


def _mask(kind: str, q_len: int, tokens: int) -> Any:
    if kind == "none":
        return None
    if kind == "causal":
        return "causal"
    visible = np.random.default_rng(19).random((q_len, tokens)) < 0.6
    visible[:, 0] = True
    return visible


def _normalized(part: Partial, value: Codec) -> Any:
    return to_numpy(value.rotation.inverse(part.o / part.l[..., None]))
