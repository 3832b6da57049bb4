"""The caches that are compared: dense, ours, and the hosts' own quantized ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx
from attrs import field, frozen

from tqcore.adapters import disable, enable
from tqcore.choice import SchemeChoice
from tqcore.errors import TqcoreError
from tqcore.measure.errors import MeasureError
from tqcore.measure.forward import Caches, logits
from tqcore.measure.greedy import generate
from tqcore.measure.hosts import DENSE, PEER, Loaded
from tqcore.report.options import Asked
from tqcore.spec import ShapeCtx

AFFINE = "mlx-lm affine"
AFFINE_BITS = (2, 3, 4, 5, 6, 8)
"""Widths of MLX's affine quantization."""

GROUPS = (64, 32)
"""Group sizes, the hosts' default first; a head must be a multiple."""


@frozen
class Contender:
    """One kind of cache.

    Args:
        name: as rows are called.
        family: the same at every width; a line in a plot.
        bits: asked for; None for dense.
        ours: whether it is a scheme of tqcore's.
        identity: everything that its results depend on, in words.
        caches: makes fresh ones, one a layer.
        widths: bits of keys and of values, of our schemes.
    """

    name: str
    family: str
    bits: float | None
    ours: bool
    identity: str
    caches: Callable[[], Caches] = field(eq=False)
    widths: tuple[float, float] | None = None


def contenders(
    loaded: Loaded, schemes: Sequence[Asked], bits: Sequence[float], peers: bool
) -> tuple[list[Contender], list[str]]:
    """Return dense, our schemes and the peers at the same widths; and notes on who is missing."""
    found = [Contender(DENSE, DENSE, None, False, DENSE, loaded.dense_caches)]
    found += [_ours(loaded, each) for each in schemes]
    if not peers:
        return found, []
    others, notes = _affine(loaded, bits)
    if loaded.host == "vlm":
        others += [_turboquant(loaded, b) for b in bits]
    else:
        notes.append(f"{PEER}: left out, only mlx-vlm runs its caches")
    for other in others:
        if problem := _fails(loaded, other):
            notes.append(f"{other.name}: left out, it fails on this model: {problem}")
        else:
            found.append(other)
    return found, notes


def warm_up(loaded: Loaded, contender: Contender) -> None:
    """Read a few tokens: kernels are compiled before anything is timed.

    Raises:
        MeasureError: predictions that are no numbers.
    """
    token = max(loaded.end_tokens)
    caches = contender.caches()
    rows = logits(loaded.model, [token] * 32, caches)
    if not mx.all(mx.isfinite(rows)).item():
        raise MeasureError("its predictions are not finite numbers")
    generate(loaded.model, caches, token, max_tokens=2)


def _fails(loaded: Loaded, contender: Contender) -> str:
    try:
        warm_up(loaded, contender)
    except Exception as error:  # a peer that cannot run this model must not cost the others
        return f"{type(error).__name__}: {error}"
    return ""


def _ours(loaded: Loaded, asked: Asked) -> Contender:
    # a plan's widths are in its text
    identity = f"{asked.choice.text} at {asked.bits:g} bits, {asked.choice.package}"
    name = f"{asked.scheme} {asked.bits:g}"
    return Contender(
        name,
        asked.scheme,
        asked.bits,
        True,
        identity,
        lambda: _made(loaded, asked.choice),
        _widths(asked.choice),
    )


def _widths(choice: SchemeChoice) -> tuple[float, float] | None:
    """Return the bits of keys and of values; None where they are made for a model's own shapes."""
    try:
        spec = choice.resolve(ShapeCtx())
    except TqcoreError:
        return None
    return spec.key.bits, spec.value.bits


def _made(loaded: Loaded, choice: SchemeChoice) -> Caches:
    """Return caches as ``enable`` makes them, and leave the model as it was."""
    wiring = enable(loaded.model, choice, host=loaded.host)
    try:
        return wiring.make()
    finally:
        disable(loaded.model, host=loaded.host)


def _affine(loaded: Loaded, bits: Sequence[float]) -> tuple[list[Contender], list[str]]:
    dims = head_dims(loaded)
    group = next((size for size in GROUPS if all(dim % size == 0 for dim in dims)), None)
    widths = [int(b) for b in bits if b in AFFINE_BITS]
    if group is None:
        return [], [f"{AFFINE}: left out, heads of {dims[0]} and {dims[1]} fit no group"]
    return [_affine_at(loaded, width, group) for width in widths], []


def _affine_at(loaded: Loaded, bits: int, group: int) -> Contender:
    return Contender(
        f"{AFFINE} {bits}",
        AFFINE,
        float(bits),
        False,
        f"{AFFINE} at {bits} bits, groups of {group}",
        lambda: loaded.affine_caches(bits, group),
    )


def _turboquant(loaded: Loaded, bits: float) -> Contender:
    def caches() -> Caches:
        return loaded.peer_caches(bits, range(len(loaded.dense_caches())))

    return Contender(f"{PEER} {bits:g}", PEER, bits, False, f"{PEER} at {bits:g} bits", caches)


def head_dims(loaded: Loaded) -> tuple[int, int]:
    """Return the head dimensions of keys and values, as a token fills the first layer."""
    caches = loaded.dense_caches()
    logits(loaded.model, [max(loaded.end_tokens)], caches)
    keys: mx.array = caches[0].keys
    values: mx.array = caches[0].values
    return keys.shape[-1], values.shape[-1]
