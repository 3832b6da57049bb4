"""Trained tables of points, shipped as ``points.json`` beside the codebook that uses them."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray


@functools.cache
def _tables(package: str) -> dict[str, Any]:
    text = resources.files(package).joinpath("points.json").read_text()
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def trained_points(package: str, name: str, dim: int) -> NDArray[np.float64]:
    """Return a table ``[n, span]`` for coordinates of unit vectors in dimension ``dim``.

    Part of the format: stored numbers never change, a new set is a new codebook. The file holds
    them for coordinates of variance 1, trained at dimension 128.
    """
    return np.asarray(np.array(_tables(package)[name]) / np.sqrt(dim))


def write_points(package: str, tables: dict[str, NDArray[np.float64]]) -> None:
    """Write ``points.json`` beside a package's modules, a line a table, six decimals."""
    rounded = {name: table.round(6).tolist() for name, table in tables.items()}
    lines = (f'"{name}":{json.dumps(table)}' for name, table in rounded.items())
    path = resources.files(package).joinpath("points.json")
    with open(str(path), "w") as file:
        file.write("{" + ",\n".join(lines) + "}\n")
