"""u32le/1: exact for every width, length and mixture of runs, and the oracle's bytes."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tqcore.errors import ShapeError, WidthError
from tqplugins.affine.device import RawPacker
from tqplugins.bitpack.device import BitPacker
from tqplugins.bitpack.layout import WIDTHS
from tqplugins.bitpack.naive import NaiveBitPacker

runs_of = st.lists(
    st.tuples(st.integers(1, 70), st.sampled_from(WIDTHS)), min_size=1, max_size=4
).map(tuple)


def random_codes(runs, lead, seed):
    rng = np.random.default_rng(seed)
    parts = [rng.integers(0, 2**width, (*lead, count)) for count, width in runs]
    return np.concatenate(parts, axis=-1).astype(np.uint32)


def check(runs, codes):
    device, naive = BitPacker(runs), NaiveBitPacker(runs)
    (words,), (expected,) = device.pack(mx.array(codes)), naive.pack(codes)
    total = sum(count * width for count, width in runs)
    assert words.dtype == mx.uint32
    assert words[0].nbytes == 4 * -(-total // 32) * int(np.prod(words.shape[1:-1]))
    assert device.planes == naive.planes
    assert device.planes[0].shape == words.shape[-1:]
    np.testing.assert_array_equal(np.array(words), expected)
    np.testing.assert_array_equal(np.array(device.unpack((words,))), codes)
    np.testing.assert_array_equal(naive.unpack((expected,)), codes)


@settings(max_examples=120, deadline=None)
@given(runs=runs_of, seed=st.integers(0, 2**32 - 1))
def test_round_trip_and_oracle(runs, seed):
    check(runs, random_codes(runs, (2, 3), seed))


@pytest.mark.parametrize("width", WIDTHS)
def test_every_short_length(width):
    for n in (*range(1, 34), 63, 64, 65, 80, 96, 128):
        codes = random_codes(((n, width),), (2,), n)
        codes[0] = 2**width - 1
        check(((n, width),), codes)


@pytest.mark.parametrize("width", WIDTHS)
def test_bit_positions(width):
    """One code at a time, against arithmetic on a Python integer."""
    n = 40
    for i in range(n):
        codes = np.zeros((1, n), np.uint32)
        codes[0, i] = 2**width - 1
        (words,) = BitPacker(((n, width),)).pack(mx.array(codes))
        stream = sum(int(w) << (32 * k) for k, w in enumerate(np.array(words)[0]))
        assert stream == (2**width - 1) << (i * width)


def test_left_over_bits_are_zero():
    (words,) = BitPacker(((3, 7),)).pack(mx.array(np.full((1, 3), 127, np.uint32)))
    assert int(words[0, 0]) == 2**21 - 1


def test_leading_axes_and_no_tokens():
    packer = BitPacker(((5, 3), (4, 2)))
    for lead in ((), (1,), (2, 1, 0), (2, 3, 4)):
        codes = random_codes(((5, 3), (4, 2)), lead, 1)
        (words,) = packer.pack(mx.array(codes))
        assert words.shape == (*lead, 1)
        np.testing.assert_array_equal(np.array(packer.unpack((words,))), codes)


def test_words_may_be_a_strided_view():
    """A cache hands over slices of a larger buffer."""
    packer = BitPacker(((20, 3), (9, 5)))
    codes = random_codes(((20, 3), (9, 5)), (2, 8), 0)
    (words,) = packer.pack(mx.array(codes))
    wide = mx.concatenate([words, words + 1], axis=-1)[:, 2:7, : words.shape[-1]]
    np.testing.assert_array_equal(np.array(packer.unpack((wide,))), codes[:, 2:7])
    every_other = mx.array(codes)[:, ::2]
    np.testing.assert_array_equal(np.array(packer.pack(every_other)[0]), np.array(words)[:, ::2])


@pytest.mark.parametrize("packer", [BitPacker, NaiveBitPacker])
def test_refusals(packer):
    with pytest.raises(WidthError, match=r"9 bits.*packs widths 1, 2"):
        packer(((4, 9),))
    with pytest.raises(ShapeError, match="at least one code"):
        packer(())
    with pytest.raises(ShapeError, match="-1 codes"):
        packer(((-1, 4),))


def test_wrong_arrays_are_refused():
    packer = BitPacker(((8, 4),))
    with pytest.raises(ShapeError, match=r"uint32 codes \[\.\.\., 8\]"):
        packer.pack(mx.zeros((2, 7), dtype=mx.uint32))
    with pytest.raises(ShapeError, match="uint32 words"):
        packer.unpack((mx.zeros((2, 1), dtype=mx.int32),))
    for codes in (mx.array(7, mx.uint32), mx.zeros((2, 8), mx.int32), mx.zeros((8, 9), mx.uint32)):
        with pytest.raises(ShapeError, match=r"codes \[\.\.\., 8\]"):
            packer.pack(codes)
    for words in (mx.array(7, mx.uint32), mx.zeros((2, 2), mx.uint32), mx.zeros((1, 0), mx.uint32)):
        with pytest.raises(ShapeError, match=r"words \[\.\.\., 1\]"):
            packer.unpack((words,))
    with pytest.raises(WidthError, match="32-bit words"):
        RawPacker(((4, 8),))
    with pytest.raises(ShapeError, match="at least one word"):
        RawPacker(())


@pytest.mark.parametrize("kind", [BitPacker, NaiveBitPacker])
def test_the_widths_are_one_to_eight_sixteen_and_thirty_two(kind):
    packed = []
    for width in range(-1, 40):
        try:
            kind(((3, width),))
        except WidthError:
            continue
        packed.append(width)
    assert packed == [1, 2, 3, 4, 5, 6, 7, 8, 16, 32]


@pytest.mark.parametrize("kind", [BitPacker, NaiveBitPacker])
def test_a_run_of_no_codes_is_left_out(kind):
    codes = np.array([[1, 0, 3]], np.uint32)
    given = mx.array(codes) if kind is BitPacker else codes
    runs = ((0, 5), (3, 2), (0, 8))
    assert np.array_equal(kind(runs).pack(given)[0], kind(((3, 2),)).pack(given)[0])
