"""The rotation that suits a codebook best: orthogonal Procrustes in turns with quantization."""

import numpy as np

from tqcore.codec import codec_for
from tqcore.spec import CodecSpec
from tqplugins.lloyd_max.levels import levels

ROUNDS = 40


def learn(vectors, bits=2):
    """Return an orthogonal float32 ``[D, D]`` for ``[N, D]`` vectors (Gong & Lazebnik 2011).

    Quantize the rotated directions U R, then take the R that brings U nearest to the result,
    argmin |U R - C| = A B' of U' C = A S B'. Neither step makes the error larger.
    """
    dim = vectors.shape[-1]
    table = levels(dim, bits)
    bounds = (table[1:] + table[:-1]) / 2
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-30)
    start = codec_for(CodecSpec("hadamard", "beta-lloyd-max", "u32le", bits), dim, "numpy")
    rotation = start.rotation.forward(np.eye(dim))
    for _ in range(ROUNDS):
        turned = unit @ rotation
        codes = table[np.searchsorted(bounds, turned)]
        fit = (turned * codes).sum(-1, keepdims=True) / (codes * codes).sum(-1, keepdims=True)
        left, _, right = np.linalg.svd(unit.T @ (fit * codes))
        rotation = left @ right
    return rotation.astype(np.float32)
