"""The scale search: never worse, as good as measured, and only where it can work."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tqcore.errors import OptionError
from tqcore.registry import registry
from tqcore.testing import strategies as tst
from tqplugins import scalesearch
from tqplugins.lloyd_max.device import LloydMaxCodebook, SearchedLloydMaxCodebook
from tqplugins.lloyd_max.levels import distortion


def errors(book, x):
    u = mx.array(x)
    return np.array(((book.decode(*book.encode(u)) - u) ** 2).sum(-1), dtype=np.float64)


@pytest.mark.parametrize(("bits", "gain"), [(2, 0.011), (3, 0.06), (4, 0.14), (5, 0.19)])
def test_gain_over_the_norm_alone(bits, gain):
    x = np.random.default_rng(0).standard_normal((4000, 128)).astype(np.float32)
    found = errors(SearchedLloydMaxCodebook(128, bits, "mse", {"search": 8}), x)
    assert (found / (x**2).sum(-1)).mean() <= (1 - gain) * distortion(128, bits)


@settings(max_examples=30, deadline=None)
@given(x=tst.vectors(64, rows=6), bits=st.integers(1, 8), odd=st.sampled_from((3, 5, 9)))
def test_an_odd_count_holds_the_norm_itself_so_it_is_never_worse(x, bits, odd):
    plain = errors(LloydMaxCodebook(64, bits, "mse"), x)
    searched = errors(SearchedLloydMaxCodebook(64, bits, "mse", {"search": odd}), x)
    assert (searched <= plain * 1.001 + 1e-6 * (x.astype(np.float64) ** 2).sum(-1)).all()


def test_one_size_is_the_norm():
    assert scalesearch.sizes({"search": 1}, "mse") == (1.0,)
    x = mx.array(np.random.default_rng(1).standard_normal((50, 64)).astype(np.float32))
    one = SearchedLloydMaxCodebook(64, 3.5, "unbiased", {"search": 1}).encode(x)
    plain = LloydMaxCodebook(64, 3.5, "unbiased").encode(x)
    assert one[0].tolist() == plain[0].tolist()
    assert one[1][0].tolist() == plain[1][0].tolist()


@pytest.mark.parametrize("count", [0, -1, 65, 2.5, "8"])
def test_counts_out_of_range_are_refused(count):
    with pytest.raises(OptionError, match="1 to 64"):
        scalesearch.sizes({"search": count}, "mse")


def test_the_scheme_takes_it_as_an_option():
    info = registry().scheme("turboquant")
    assert info.resolve(4).key.codebook == "beta-lloyd-max"
    key = info.resolve(4, {"search": "8"}).key
    assert (key.codebook, dict(key.params)) == ("beta-lloyd-max-search", {"search": 8})
    with pytest.raises(OptionError, match="the norm fits one size only"):
        info.resolve(4, {"search": "8", "scale": "norm"})
