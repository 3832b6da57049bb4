"""The packer on any runs and any words: exact, or refused, and never a word out of place."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.budget import attempt, fuzz
from tqcore.errors import ShapeError
from tqplugins.bitpack.device import BitPacker
from tqplugins.bitpack.layout import WIDTHS
from tqplugins.bitpack.naive import NaiveBitPacker

good_runs = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from(WIDTHS)), min_size=1, max_size=5
).filter(lambda runs: any(count for count, _ in runs))
any_runs = st.lists(st.tuples(st.integers(-3, 80), st.integers(-2, 40)), max_size=4)


@fuzz(120)
@given(any_runs)
def test_runs_make_a_packer_or_are_refused_by_both(runs):
    device, naive = (
        attempt(lambda kind=kind: kind(runs).planes) for kind in (BitPacker, NaiveBitPacker)
    )
    assert device == naive
    assert device is None or device[0].shape[0] >= 1


@fuzz(120)
@given(good_runs, st.integers(0, 2**32 - 1), st.sampled_from([(), (3,), (0,), (2, 1, 3)]))
def test_any_words_unpack_to_codes_that_fit_and_pack_to_the_same_bits(runs, seed, lead):
    """Words off a disk need not come from a packer: what is left over in them is dropped."""
    device, naive = BitPacker(runs), NaiveBitPacker(runs)
    (plane,) = device.planes
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**32, (*lead, *plane.shape), dtype=np.uint32)
    codes = np.array(device.unpack((mx.array(words),)))
    np.testing.assert_array_equal(codes, naive.unpack((words,)))
    first = 0
    for count, width in runs:
        # as a Python number: numpy 2.0 to 2.2 crash on uint32 arrays compared with 2**32
        assert int(codes[..., first : first + count].max(initial=0)) < 2**width
        first += count
    (again,) = device.pack(mx.array(codes))
    np.testing.assert_array_equal(np.array(again), naive.pack(codes)[0])
    total = sum(count * width for count, width in runs)
    keep = np.full(plane.shape, 2**32 - 1, np.uint32)
    if total % 32:
        keep[-1] = 2 ** (total % 32) - 1
    np.testing.assert_array_equal(np.array(again), words & keep)


@fuzz(60)
@given(
    good_runs,
    st.lists(st.integers(0, 5), max_size=4),
    st.sampled_from([mx.uint32, mx.int32, mx.uint8, mx.float32]),
)
def test_arrays_of_another_shape_or_type_are_refused(runs, shape, dtype):
    packer = BitPacker(runs)
    array = mx.zeros(shape, dtype)
    count = sum(count for count, _ in runs)
    for call, size in (
        (packer.pack, count),
        (lambda words: packer.unpack((words,)), packer.planes[0].shape[0]),
    ):
        fits = dtype == mx.uint32 and shape and shape[-1] == size
        try:
            mx.eval(call(array))
        except ShapeError:
            assert not fits
        else:
            assert fits
