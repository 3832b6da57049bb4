"""Hypothesis strategies: vectors as attention heads produce them, codes, widths, shapes.

Vectors are drawn as a recipe, a shape and a seed, not number by number: a failing example prints
in one line that can be run, and 128 coordinates cost as little as one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen
from hypothesis import strategies as st

Vectors = np.ndarray[Any, np.dtype[np.float32]]
Codes = np.ndarray[Any, np.dtype[np.uint32]]

HEAD_DIMS = (64, 80, 96, 128, 192, 256)
"""Head dimensions of released models."""

AWKWARD_DIMS = (1, 2, 3, 7, 36, 72, 100, 112, 144, 160)
"""Head dimensions that no power of two divides well, or that are tiny."""

SHAPES = ("gaussian", "anisotropic", "outlier", "one_hot", "constant", "heavy", "some_zero")
"""What ``vectors`` draws: each broke some quantizer once."""


def head_dims(awkward: bool = True) -> st.SearchStrategy[int]:
    """Return a strategy of head dimensions."""
    return st.sampled_from(HEAD_DIMS + AWKWARD_DIMS if awkward else HEAD_DIMS)


@frozen
class Recipe:
    """Vectors to make: prints as the call that makes them, and shrinks to a plain Gaussian one.

    Args:
        dim, rows: of the float32 ``[rows, dim]``.
        shape: one of ``SHAPES``.
        seed: of the generator.
        scale: what every number is multiplied by.
    """

    dim: int
    rows: int
    shape: str = "gaussian"
    seed: int = 0
    scale: float = 1.0

    def make(self) -> Vectors:
        """Return the vectors."""
        return make_vectors(self.dim, self.rows, self.shape, self.seed, self.scale)

    def __str__(self) -> str:
        scale = "" if self.scale == 1 else f", scale={self.scale:g}"
        return f"make_vectors({self.dim}, {self.rows}, {self.shape!r}, seed={self.seed}{scale})"


def recipes(
    dim: int, rows: int = 4, scales: tuple[float, float] = (-3.0, 3.0), exact_rows: bool = False
) -> st.SearchStrategy[Recipe]:
    """Return a strategy of recipes, whose smallest example is one Gaussian vector of size 1.

    Args:
        dim: of a vector.
        rows: vectors an example, at most.
        scales: smallest and largest power of ten that an example is multiplied by.
        exact_rows: whether every example has ``rows`` vectors.
    """
    return st.builds(
        Recipe,
        st.just(dim),
        st.just(rows) if exact_rows else st.integers(1, rows),
        st.sampled_from(SHAPES),
        st.integers(0, 2**16),
        st.floats(*scales).map(lambda power: 10.0**power),
    )


def vectors(
    dim: int, rows: int = 4, scales: tuple[float, float] = (-3.0, 3.0)
) -> st.SearchStrategy[Vectors]:
    """Return a strategy of float32 ``[rows, dim]``; arguments as ``recipes``."""
    return recipes(dim, rows, scales, exact_rows=True).map(Recipe.make)


def make_vectors(dim: int, rows: int, shape: str, seed: int, scale: float = 1.0) -> Vectors:
    """Return float32 ``[rows, dim]`` of one of ``SHAPES``."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, dim))
    if shape == "anisotropic":
        x *= np.exp(rng.standard_normal(dim))
    elif shape == "outlier":
        x[:, rng.integers(dim)] += 50 * rng.choice((-1, 1), rows)
    elif shape == "one_hot":
        x = np.eye(dim)[rng.integers(dim, size=rows)] * x[:, :1]
    elif shape == "constant":
        x = np.broadcast_to(x[:, :1], x.shape)
    elif shape == "heavy":
        x = rng.standard_t(2, (rows, dim))
    elif shape == "some_zero":
        x[::2] = 0
    return (scale * x).astype(np.float32)


def runs(n: int) -> st.SearchStrategy[tuple[tuple[int, int], ...]]:
    """Return a strategy of ``((count, bits), ...)`` for ``n`` codes: one width, or b+1 then b."""

    def build(bits: int, wide: int) -> tuple[tuple[int, int], ...]:
        pairs = ((wide, bits + 1), (n - wide, bits))
        return tuple((count, width) for count, width in pairs if count)

    return st.one_of(
        st.integers(1, 8).map(lambda bits: ((n, bits),)),
        st.builds(build, st.integers(1, 7), st.integers(0, n)),
    )


def make_codes(runs: tuple[tuple[int, int], ...], lead: tuple[int, ...], seed: int) -> Codes:
    """Return uint32 codes ``[*lead, n]``, every value of every width in use."""
    rng = np.random.default_rng(seed)
    parts = [rng.integers(0, 2**bits, (*lead, count)) for count, bits in runs]
    return np.concatenate(parts, axis=-1).astype(np.uint32)


@frozen
class CodesRecipe:
    """Codes to make: prints as the call that makes them, few ones with their values."""

    runs: tuple[tuple[int, int], ...]
    lead: tuple[int, ...] = ()
    seed: int = 0

    def make(self) -> Codes:
        """Return uint32 ``[*lead, n]``."""
        return make_codes(self.runs, self.lead, self.seed)

    def __str__(self) -> str:
        made = self.make()
        shown = f" = {made.tolist()}" if 0 < made.size <= 8 else ""
        return f"make_codes({self.runs}, {self.lead}, seed={self.seed}){shown}"


def codes(
    runs: tuple[tuple[int, int], ...], lead: tuple[int, ...] = (2, 3)
) -> st.SearchStrategy[Codes]:
    """Return a strategy of uint32 codes ``[*lead, n]`` that fit ``runs``."""
    return st.integers(0, 2**16).map(lambda seed: make_codes(runs, lead, seed))
