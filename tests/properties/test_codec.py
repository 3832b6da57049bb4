"""What a codec does around its parts: which floats reach the rotation, what a vector costs."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tqcore.codec import codec_for
from tqcore.spec import CodecSpec

BACKENDS = ["mlx", "numpy"]


def rotated(rows, backend, dtype="float32"):
    """Rows as the identity rotation gets and returns them."""
    codec = codec_for(CodecSpec("identity", "uniform", "u32le", 4), 4, backend)
    if backend == "mlx":
        return np.array(codec.rotate(mx.array(rows).astype(getattr(mx, dtype))))
    return codec.rotate(np.array(rows, dtype))


@pytest.mark.parametrize("backend", BACKENDS)
def test_usual_vectors_reach_the_rotation_as_they_are(backend):
    rows = [[1.5, -2.25, 0.0, 1e-30], [3e4, -1e10, 7.0, 2.0**100]]
    x = np.array(rows, np.float32)
    came = rotated(rows, backend)
    assert came.dtype == (np.float32 if backend == "mlx" else np.float64)
    np.testing.assert_array_equal(came, x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_is_zero_and_infinity_the_largest_of_what_went_in(backend):
    came = rotated([[np.nan, 1.0, np.nan, -2.0]], backend)
    assert came.tolist() == [[0.0, 1.0, 0.0, -2.0]]
    half = rotated([[np.inf, -np.inf, 0.0, 1.0]], backend, "float16")
    assert half.tolist() == [[65504.0, -65504.0, 0.0, 1.0]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_vectors_beyond_2_to_the_100_are_shrunk_by_2_to_the_40(backend):
    above = float(np.nextafter(np.float32(2.0**100), np.float32(np.inf)))
    came = rotated([[above, 1.0, -(2.0**50), 0.0], [2.0**120, -(2.0**90), 0.0, 0.0]], backend)
    assert came.tolist() == [
        [above * 2.0**-40, 2.0**-40, -(2.0**10), 0.0],
        [2.0**80, -(2.0**50), 0.0, 0.0],
    ]
    infinite = rotated([[np.inf, 1.0, 0.0, 0.0]], backend)
    assert infinite[0, 0] == float(np.finfo(np.float32).max) * 2.0**-40


def test_the_cost_of_a_vector_counts_every_plane():
    codec = codec_for(CodecSpec("hadamard", "beta-lloyd-max", "u32le", 3), 128)
    assert (codec.nbytes, codec.bits_per_value) == (50, 3.125)
