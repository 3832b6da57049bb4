"""Train the tables of ``points.json``: k-means in the plane, with the scale search in the loop.

python -m tqplugins.pair.train [--vectors 500] [--passes 40]

Pairs of coordinates of vectors that are uniform on the sphere of dimension 128. Tables are
symmetric, ``point[n - 1 - i] = -point[i]``, so that no code is biased.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from tqplugins import scalesearch
from tqplugins.pair.layout import WIDTHS
from tqplugins.points import write_points

DIM = 128

START_SIZE = 0.85
"""Of the untrained table: sizes are searched, which favours a smaller one."""

RANDOM_STARTS = 4

Floats = NDArray[np.float64]


def sphere(count: int, rng: np.random.Generator) -> Floats:
    """Return ``[count, DIM]`` vectors of norm sqrt(DIM) and random direction."""
    x = rng.standard_normal((count, DIM))
    return np.asarray(x * np.sqrt(DIM) / np.linalg.norm(x, axis=1, keepdims=True))


def moved(points: Floats, x: Floats, index: NDArray[np.intp]) -> tuple[Floats, float]:
    """Return each point at the mean of what chose it, weighed by the best scale, and D.

    Args:
        points: ``[n, span]``.
        x: vectors ``[N, DIM]``.
        index: the point of each symbol, ``[N, DIM / span]``.
    """
    c = points[index].reshape(x.shape)
    dot, square = (x * c).sum(1), (c * c).sum(1)
    scale = np.repeat(dot / square, index.shape[1])
    weight = np.bincount(index.ravel(), scale * scale, len(points))
    symbols = x.reshape(-1, points.shape[1])
    means = [np.bincount(index.ravel(), scale * column, len(points)) for column in symbols.T]
    trained = np.stack(means, 1) / np.where(weight > 0, weight, 1)[:, None]
    found = 1 - (dot**2 / square).mean() / x.shape[1]
    return np.where(weight[:, None] > 0, trained, points), float(found)


def companded(lattice: Floats, count: int) -> Floats:
    """Return lattice points of unit density, moved outwards to the density of good tables.

    For a plane normal law the best density is normal with twice the variance (Zador), which a
    radial map makes of the uniform disc that holds ``count`` points.
    """
    square = (lattice**2).sum(1)
    inside = np.maximum(1 - square * np.pi / count, 0.5 / count)
    radius = START_SIZE * np.sqrt(-4 * np.log(inside))
    return np.asarray(lattice * (radius / np.sqrt(square))[:, None])


def start(count: int, rng: np.random.Generator | None = None) -> Floats:
    """Return ``count`` points, symmetric: a companded hexagonal lattice, or drawn at random."""
    if rng is not None:
        half = START_SIZE * np.sqrt(2) * rng.standard_normal((count // 2, 2))
        return np.concatenate([half, -half[::-1]])
    i, j = (axis.ravel() for axis in np.mgrid[-24:24, -24:25])
    points = np.stack([i + (1 - j % 2) / 2, j * np.sqrt(0.75)], 1) / 0.75**0.25
    upper = points[(points[:, 1] > 0.01) | ((abs(points[:, 1]) < 0.01) & (points[:, 0] > 0))]
    half = companded(upper[np.argsort((upper**2).sum(1), kind="stable")[: count // 2]], count)
    return np.concatenate([half, -half[::-1]])


def trained(points: Floats, vectors: int, passes: int) -> tuple[Floats, float]:
    """Return a table trained with the scale search, and its D on vectors not yet seen."""
    rng, found = np.random.default_rng(0), 0.0
    sizes = scalesearch.sizes({}, "mse")
    for _ in range(passes):
        x, tree = sphere(vectors, rng), KDTree(points)

        def encode(y: Floats, tree: KDTree = tree) -> NDArray[np.intp]:
            return np.asarray(tree.query(y.reshape(-1, 2))[1].reshape(len(y), -1))

        def decode(index: NDArray[np.intp], points: Floats = points) -> Floats:
            return points[index].reshape(len(index), -1)

        index = scalesearch.best_of_sizes(np, sizes, x, encode, decode)
        better, found = moved(points, x, index)
        points = (better - better[::-1]) / 2
    return points, found


def best(count: int, vectors: int, passes: int) -> tuple[Floats, float]:
    """Return the best of the tables that the starts lead to."""
    rng = np.random.default_rng(0)
    starts = [start(count), *(start(count, rng) for _ in range(RANDOM_STARTS))]
    return min((trained(points, vectors, passes) for points in starts), key=lambda made: made[1])


def main() -> None:
    """Train every width and write ``points.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=int, default=500)
    parser.add_argument("--passes", type=int, default=40)
    args = parser.parse_args()
    tables = {}
    for bits in WIDTHS:
        points, found = best(2 ** round(2 * bits), args.vectors, args.passes)
        print(f"{bits:g} bits: D {found:.5f}, x4^b {found * 4**bits:.3f}", flush=True)
        tables[f"{bits:g}"] = points
    write_points("tqplugins.pair", tables)


if __name__ == "__main__":
    main()
