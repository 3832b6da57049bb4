"""Checks of a scheme behind a cache that takes means out of what it stores."""

from __future__ import annotations

from typing import Any

import numpy as np

from tqcore.choice import SchemeChoice
from tqcore.errors import ShapeError
from tqcore.spec import SchemeInfo
from tqcore.testing import strategies as tst
from tqcore.testing.checks._subject import to_backend, to_numpy
from tqcore.testing.verdict import NotApplicable, expect
from tqcore.widths import Widths

HEADS, QUERY_HEADS, DIM, TOKENS = 2, 4, 64, 64
AWAY = 10.0
"""How far from zero the vectors lie, in multiples of their spread."""

LIMIT = 1.5
"""Error around a far point over error around zero. The mean is drawn towards zero by one token of
60: that is a sixth of the spread, 3 % of its energy."""

TOLERANCE = 0.01
"""Of the largest output: kernels round."""


def check_scheme_centring(info: SchemeInfo) -> None:
    """Vectors around a far point cost what their spread costs, whatever came first.

    A sequence begins with vectors much closer together than later ones are. With ``centre=both``
    the later ones have no more error than the same vectors around zero; and attention is the
    formula's over what the cache decodes.
    """
    first = _noise(16) * 0.05
    later = _noise(17)
    point = AWAY * _noise(18)[:, :, :, :1]
    lost = []
    for centre, origin, chunks in (
        ("none", 0 * point, (later,)),
        ("both", point, (first, later)),
    ):
        cache = _cache(info, centre)
        try:
            for x in chunks:
                cache.update_and_fetch(*(to_backend(side, "mlx") for side in x + origin))
        except ShapeError as error:
            raise NotApplicable(f"head_dim {DIM} is refused: {error}") from None
        decoded = [to_numpy(side) for side in cache.dequantize()]
        exact = later + origin
        lost.append([_error(x[:, :, -TOKENS:], y) for x, y in zip(decoded, exact, strict=True)])
        _assert_formula(info, cache, decoded)
    for side, plain, centred in zip(("keys", "values"), *lost, strict=True):
        expect(
            centred <= LIMIT * plain,
            f"scheme {info.name!r}",
            f"{side} around a far point cost what their spread costs",
            expected=f"an error of at most {LIMIT} times {plain:.3g}, that of those around zero",
            got=f"{centred:.3g}",
            given=f"centre=both, {TOKENS} close vectors and {TOKENS} of spread 1, {AWAY:g} away",
        )


def _noise(seed: int) -> Any:
    x = tst.make_vectors(DIM, 2 * HEADS * TOKENS, "gaussian", seed=seed)
    return np.asarray(x, np.float32).reshape(2, 1, HEADS, TOKENS, DIM)


def _cache(info: SchemeInfo, centre: str) -> Any:
    from tqcore.cache import QuantizedKVCache

    given = {"centre": centre, "skip": "none", "window": 0, "sinks": 0}
    options = info.parse_options(given)
    widths = Widths().with_default(info.default_bits)
    return QuantizedKVCache(SchemeChoice(info, options, widths))


def _assert_formula(info: SchemeInfo, cache: Any, decoded: list[Any]) -> None:
    from tqcore.attention.naive import attention

    q = tst.make_vectors(DIM, QUERY_HEADS * 3, "gaussian", seed=19).reshape(1, -1, 3, DIM)
    came = to_numpy(cache.attend(to_backend(q, "mlx"), scale=0.125, mask="causal"))
    expected = attention(q, *decoded, scale=0.125, mask="causal")
    off = np.abs(came - expected).max() / np.abs(expected).max()
    expect(
        off <= TOLERANCE,
        f"scheme {info.name!r}",
        "attention over a cache is the formula over what the cache decodes",
        expected=f"at most {TOLERANCE} of the largest output apart",
        got=f"{off:.3g}",
        given=f"{QUERY_HEADS} query heads, {HEADS} heads of {DIM}, causal",
    )


def _error(x: Any, y: Any) -> float:
    return float(np.square(x.astype(np.float64) - y).mean())
