"""One run of codes by itself: the words it takes and no others, and what may stand behind them."""

import mlx.core as mx
import numpy as np
import pytest

from tqplugins.bitpack.layout import WIDTHS
from tqplugins.bitpack.run import pack_run, pad_last, unpack_run, words_for


def test_words_hold_32_bits():
    assert [words_for(bits) for bits in (0, 1, 31, 32, 33, 64, 65, 320)] == [
        0,
        1,
        1,
        1,
        2,
        2,
        3,
        10,
    ]


def test_zeros_are_added_to_the_last_axis_alone():
    x = mx.array([[1, 2], [3, 4]], mx.uint32)
    assert pad_last(x, 1, 2).tolist() == [[0, 1, 2, 0, 0], [0, 3, 4, 0, 0]]
    assert pad_last(x, 2, 0).tolist() == [[0, 0, 1, 2], [0, 0, 3, 4]]
    assert pad_last(x, 0, 1).tolist() == [[1, 2, 0], [3, 4, 0]]
    assert pad_last(x, 0, 0) is x


@pytest.mark.parametrize("width", WIDTHS)
def test_a_run_takes_its_words_and_reads_back_from_more(width):
    for n in (1, 3, 7, 8, 9, 31, 32, 33, 70):
        codes = np.random.default_rng(n).integers(0, 2**width, (2, n), dtype=np.uint32)
        words = pack_run(mx.array(codes), width)
        assert words.shape == (2, -(-n * width // 32))
        for extra in (0, 1, 3):
            behind = mx.full((2, extra), 0xFFFFFFFF, mx.uint32)
            came = unpack_run(mx.concatenate([words, behind], axis=-1), n, width)
            assert came.dtype == mx.uint32
            assert came.tolist() == codes.tolist()
