"""Train the points of ``points.json``: generalized Lloyd iterations with the encoder in the loop.

python -m tqplugins.trellis.train [--vectors 1500] [--passes 40]

Vectors are uniform on the sphere of dimension 128, sizes are searched as they will be, and each
point moves to the mean of the coordinates that chose it, weighed by the scale that is stored.
Needs numba (``tqcore[fast]``).
"""

from __future__ import annotations

import argparse

import numpy as np

from tqplugins import scalesearch
from tqplugins.kernels_cpu.search import search
from tqplugins.lloyd_max.levels import levels
from tqplugins.pair.train import DIM, Floats, companded, moved, sphere
from tqplugins.points import write_points
from tqplugins.trellis.layout import STATES, WIDTHS, Trellis

MIRROR = {4: [1, 0, 3, 2], 8: [3, 2, 1, 0]}
"""Labels of a path whose low bits are all flipped: a mirrored vector takes them."""


def start(shape: Trellis) -> Floats:
    """Return points before training, labelled so that each label's are far from each other.

    At one coordinate: Lloyd-Max levels, label ``i mod 4``. At two: the square lattice around
    (1/2, 0), labels by its coordinates modulo 2 (Ungerboeck's set partition), companded. Its
    centre is such that a point's mirror image has the label that the trellis needs.
    """
    count = 2 ** (shape.width + 1)
    if shape.span == 1:
        return np.asarray(levels(DIM, shape.width + 1)[:, None] * np.sqrt(DIM))
    i, j = (axis.ravel() for axis in np.mgrid[-24:24, -24:25])
    made = np.empty((count // 4, 4, 2))
    for parity, label in ((0, 0), (1, 2)):
        coset = np.stack([i + 0.5, j], 1)[(i % 2 == parity) & (j % 2 == parity)]
        near = coset[np.argsort((coset**2).sum(1), kind="stable")[: count // 4]]
        made[:, label] = companded(near, count)
        made[:, MIRROR[shape.states][label]] = -made[::-1, label]
    return made.reshape(count, 2)


def train(shape: Trellis, vectors: int, passes: int, seed: int = 0) -> tuple[Floats, float]:
    """Return trained points and the distortion of the last pass, on vectors not yet seen."""
    rng = np.random.default_rng(seed)
    points, found = start(shape), 0.0
    sizes = scalesearch.sizes({}, "mse")
    for _ in range(passes):
        x = sphere(vectors, rng)
        codes = search(shape, points / np.sqrt(DIM), sizes, (x / np.sqrt(DIM)).astype(np.float32))
        index = shape.numbers(np, codes).astype(np.intp)
        trained, found = moved(points, x, index)
        if shape.span == 1:
            points = (trained - trained[::-1]) / 2
        else:
            labelled = trained.reshape(-1, 4, 2)
            mirrored = labelled[::-1, MIRROR[shape.states]]
            points = ((labelled - mirrored) / 2).reshape(-1, 2)
    return points, found


def main() -> None:
    """Train every width and number of states and write ``points.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=int, default=1500)
    parser.add_argument("--passes", type=int, default=40)
    args = parser.parse_args()
    tables = {}
    for states in STATES:
        for bits in WIDTHS:
            shape = Trellis(DIM, bits, states)
            points, found = train(shape, args.vectors, args.passes)
            told = f"{states} states, {bits:g} bits: D {found:.5f}, x4^b {found * 4**bits:.3f}"
            print(told, flush=True)
            tables[shape.table] = points
    write_points("tqplugins.trellis", tables)


if __name__ == "__main__":
    main()
