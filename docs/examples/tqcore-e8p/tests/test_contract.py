"""tqcore's contract, the lattice, and what it is for."""

import mlx.core as mx
import numpy as np
import pytest
from tqcore_e8p.codebook import E8P

from tqcore.codec import codec_for
from tqcore.registry import registry
from tqcore.testing.contract import contract

SCHEMES = ("e8p", "turboquant")


@contract("tqcore-e8p")
def test_contract(check):
    """Run one check."""
    check()


@pytest.mark.parametrize(("bits", "share"), [(2, 0.80), (4, 0.90)])
def test_less_error_than_scalar_levels_at_the_same_bytes(bits, share):
    """Distortion of Gaussian vectors against turboquant's optimal scalar levels."""
    x = np.random.default_rng(0).standard_normal((2048, 128)).astype(np.float32)
    codecs = [codec_for(registry().scheme(name).resolve(bits).key, 128) for name in SCHEMES]
    assert codecs[0].nbytes == codecs[1].nbytes
    errors = [np.square(np.array(c.decode(c.encode(mx.array(x)))) - x).sum() for c in codecs]
    assert errors[0] <= share * errors[1]


def test_the_nearest_point_is_found():
    """All 65 536 points are distinct, and none is nearer than the one that is taken."""
    book = E8P(8, 2, "mse", {})
    points = np.array(book._points(mx.arange(65536).astype(mx.uint32)))
    assert len(np.unique(points, axis=0)) == 65536
    y = np.random.default_rng(1).standard_normal((64, 8)).astype(np.float32) * 1.3
    best = np.square(y[:, None] - points).sum(-1).min(-1)
    taken = points[np.array(book._nearest(mx.array(y)))]
    np.testing.assert_allclose(np.square(y - taken).sum(-1), best, rtol=1e-4)
