"""Rotations read from the file that ``calibrate`` wrote."""

import functools
import hashlib
import tempfile
from pathlib import Path

import mlx.core as mx
import numpy as np

from tqcore.errors import OptionError, ShapeError


class Procrustes:
    """One matrix product with a learnt orthogonal matrix.

    Args:
        dim: length of the vectors; ``dim_out`` is the same.
        seed: not used.
        params: ``file``, its ``digest`` (optional), and the name of the ``matrix`` in it.
    """

    def __init__(self, dim, seed, params):
        matrices = _read(params["file"], params.get("digest"))
        name = params["matrix"]
        if name not in matrices:
            raise OptionError(
                f"{params['file']} has no matrix {name!r} but {', '.join(sorted(matrices))}: "
                "it was learnt for another model"
            )
        if matrices[name].shape != (dim, dim):
            raise ShapeError(f"{name} in {params['file']} is for {len(matrices[name])}, not {dim}")
        self.dim = self.dim_out = dim
        self._matrix = mx.array(matrices[name])

    @classmethod
    def example_params(cls, dim):
        """Return what the contract kit builds with: some orthogonal matrix."""
        path = Path(tempfile.gettempdir()) / f"tqcore-procrustes-{dim}.npz"
        q, _ = np.linalg.qr(np.random.default_rng(dim).standard_normal((dim, dim)))
        np.savez(path, **{"key.0": q.astype(np.float32)})
        return {"file": str(path), "matrix": "key.0"}

    def forward(self, x):
        """Rotate ``[..., dim]`` floats; float32 inside, returned in the dtype of ``x``."""
        return (x.astype(mx.float32) @ self._matrix).astype(x.dtype)

    def inverse(self, y):
        """Rotate ``[..., dim]`` back."""
        return (y.astype(mx.float32) @ self._matrix.T).astype(y.dtype)


@functools.lru_cache(maxsize=4)
def _read(file, digest):
    """Return the matrices of a file, if it is the one that a cache was written with."""
    path = Path(file)
    if not path.is_file():
        raise OptionError(f"there is no file {file}: learn it by `tqcore-procrustes MODEL FILE`")
    found = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    if digest not in (None, found):
        raise OptionError(f"{file} has digest {found}, and {digest} is wanted: learnt anew since?")
    with np.load(path) as arrays:
        return dict(arrays)
