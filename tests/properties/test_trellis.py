"""The trellis codebook: decoding rule, device and compiled against oracle, distortion, no start."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tqcore.codec import codec_for
from tqcore.errors import OptionError, ShapeError, WidthError
from tqcore.registry import registry
from tqcore.spec import CodecSpec, ShapeCtx
from tqcore.testing import strategies as tst
from tqcore.widths import Widths
from tqplugins import ufloat16
from tqplugins.kernels_cpu.device import unbuilt
from tqplugins.kernels_cpu.search import search
from tqplugins.lloyd_max.levels import distortion as scalar
from tqplugins.trellis.device import TrellisCodebook
from tqplugins.trellis.layout import STATES, WIDTHS, labels, step_label
from tqplugins.trellis.naive import NaiveTrellisCodebook
from tqplugins.trellis.viterbi import best_path, least_cost

EACH = list(itertools.product(STATES, WIDTHS))
TARGETS = {2: 0.087, 2.5: 0.044, 3: 0.0225, 3.5: 0.0110, 4: 0.0057}


def normals(count, dim, seed=0):
    return np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)


def compiled(book):
    def choose(unit):
        table = np.array(book.points)
        return mx.array(search(book.trellis, table, book.sizes, np.array(unit)))

    return choose


needs_numba = pytest.mark.skipif(unbuilt() is not None, reason="needs the extra `fast`")


@pytest.mark.parametrize("states", STATES)
@given(st.data())
@settings(max_examples=30, deadline=None)
def test_labels_of_a_word_are_those_of_its_steps(states, data):
    low = np.array(data.draw(st.lists(st.integers(0, 1), min_size=8, max_size=40)))
    memory = states.bit_length() - 1
    history = sum(int(low[-1 - k]) << k for k in range(memory))
    for t, label in enumerate(labels(np, states, low)):
        assert label == step_label(states, history, int(low[t]))
        history = (history << 1 | int(low[t])) & (states - 1)


@pytest.mark.parametrize(("states", "bits"), EACH)
def test_decode_is_shifts_an_xor_and_a_table(states, bits):
    """The rule of docs/format.md on the packed stream itself, as one long number a vector."""
    codec = codec_for(
        CodecSpec("identity", "trellis", "u32le", bits, params={"states": states}), 128
    )
    words, scale = (np.array(plane) for plane in codec.encode(mx.array(normals(4, 128))))
    assert codec.layout == "u32le/1"
    count, width = codec.codebook.trellis.symbols, codec.codebook.trellis.width
    tops = sum(1 << (width * t + width - 1) for t in range(count))
    index = np.empty((4, count), int)
    for vector, row in zip(index, words, strict=True):
        stream = int.from_bytes(row.astype("<u4").tobytes(), "little")

        def before(steps, stream=stream):
            """Return the stream of the codes ``steps`` before: around the end of the vector."""
            bits = steps * width
            return (stream << bits | stream >> (count * width - bits)) & tops

        mine = stream & tops
        high = mine ^ before(2) if states == 4 else mine ^ before(1) ^ before(3)
        low = before(1) if states == 4 else before(2)
        for t in range(count):
            code = stream >> (width * t) & (2**width - 1)
            label = [top >> (width * t + width - 1) & 1 for top in (high, low)]
            vector[t] = 4 * (code & (2 ** (width - 1) - 1)) + 2 * label[0] + label[1]
    points = np.array(codec.codebook.points)[index].reshape(4, 128)
    expected = points * ufloat16.decode(np, scale)[:, None]
    np.testing.assert_allclose(np.array(codec.decode((mx.array(words), mx.array(scale)))), expected)


@pytest.mark.parametrize("states", STATES)
@given(seed=st.integers(0, 2**16), steps=st.integers(1, 5))
@settings(max_examples=12, deadline=None)
def test_the_tree_finds_the_best_path_of_all(states, seed, steps):
    """Against every one of the 2^T words, for counts of leaves that are odd and even."""
    count = min(states // 2 * steps, 12)
    cost = np.random.default_rng(seed).exponential(size=(4, count)).astype(np.float32)
    every = np.array(list(itertools.product((0, 1), repeat=count)))
    total = cost[labels(np, states, every), np.arange(count)].sum(-1)
    low = np.array(best_path(mx.array(cost[..., None]), states))[:, 0]
    found = cost[labels(np, states, low), np.arange(count)].sum()
    assert found == pytest.approx(total.min(), rel=1e-5)
    # A path may also come from any state: the histories before the first bit are free.
    memory = states.bit_length() - 1
    free = np.array(list(itertools.product((0, 1), repeat=count + memory)))
    free_labels = labels(np, states, free)[:, memory:]
    least = cost[free_labels, np.arange(count)].sum(-1).min()
    assert float(least_cost(mx.array(cost[..., None]), states)[0]) == pytest.approx(least, rel=1e-5)


@pytest.mark.parametrize(("states", "bits"), EACH)
@pytest.mark.parametrize("dim", [64, 80])
def test_device_and_compiled_write_the_oracles_codes(states, bits, dim):
    params = {"states": states}
    x = normals(24, dim, seed=3)
    expected, (scale,) = NaiveTrellisCodebook(dim, bits, "mse", params).encode(x.astype(float))
    book = TrellisCodebook(dim, bits, "mse", params)
    ways = {"mlx": book.encode(mx.array(x))}
    if unbuilt() is None:
        ways["compiled"] = book.encode_by(compiled(book), mx.array(x))
    for way, (codes, side) in ways.items():
        same = (np.array(codes) == expected).all(-1)
        assert same.mean() >= 0.95, f"{way}: {same.mean():.0%} of the vectors as the oracle's"
        assert (np.abs(np.array(side[0]).astype(int) - scale)[same] <= 1).all()


@needs_numba
@settings(max_examples=25, deadline=None)
@given(x=tst.vectors(64, rows=11), bits=st.sampled_from(WIDTHS), search=st.sampled_from((1, 3, 8)))
def test_compiled_is_as_near_as_the_device_on_any_vectors(x, bits, search):
    book = TrellisCodebook(64, bits, "mse", {"search": search})
    u = mx.array(x)
    errors = [
        np.array(((book.decode(*coded) - u) ** 2).sum(-1))
        for coded in (book.encode(u), book.encode_by(compiled(book), u))
    ]
    size = (x.astype(np.float64) ** 2).sum(-1)
    assert (np.abs(errors[0] - errors[1]) <= 0.03 * size + 1e-30).all()


@pytest.mark.parametrize("bits", TARGETS)
def test_distortion_reaches_its_target(bits):
    book = TrellisCodebook(128, bits, "mse")
    x = mx.array(normals(2000, 128, seed=5))
    choose = compiled(book) if unbuilt() is None else book._choose
    error = book.decode(*book.encode_by(choose, x)) - x
    found = float(((error**2).sum(-1) / (x**2).sum(-1)).mean())
    assert found <= TARGETS[bits] * 1.005
    assert found < 0.8 * scalar(128, bits)


def test_more_states_and_more_sizes_are_nearer():
    x = mx.array(normals(400, 128, seed=6))

    def found(**params):
        book = TrellisCodebook(128, 3, "mse", params)
        error = book.decode(*book.encode(x)) - x
        return float(((error**2).sum(-1) / (x**2).sum(-1)).mean())

    assert found(states=8) < found(states=4) < found(states=4, search=1)


@pytest.mark.parametrize("states", STATES)
def test_no_position_is_worse_than_another(states):
    book = TrellisCodebook(64, 2, "mse", {"states": states, "search": 1})
    x = mx.array(normals(3000, 64, seed=7))
    square = np.array(((book.decode(*book.encode(x)) - x) ** 2).mean(0))
    assert square.std() / square.mean() < 3 * np.sqrt(2.2 / 3000)


@pytest.mark.parametrize("lead", [(), (3,), (1, 2, 0), (2, 1, 2)])
def test_any_leading_axes(lead):
    book = TrellisCodebook(64, 2.5, "mse")
    codes, (scale,) = book.encode(mx.ones((*lead, 64)))
    assert codes.shape == (*lead, book.n)
    assert scale.shape == lead
    assert book.decode(codes, (scale,)).shape == (*lead, 64)


@pytest.mark.parametrize("book", [TrellisCodebook, NaiveTrellisCodebook])
def test_what_is_not_stored_is_refused(book):
    with pytest.raises(WidthError, match="a trellis stores widths 1"):
        book(64, 2.25, "mse")
    with pytest.raises(OptionError, match="states=16: expected one of 4, 8"):
        book(64, 2, "mse", {"states": 16})
    with pytest.raises(ShapeError, match="multiple of 8"):
        book(36, 2.5, "mse", {"states": 8})
    with pytest.raises(OptionError, match="search=8 with scale=norm"):
        book(64, 2, "norm", {"search": 8})


@pytest.mark.parametrize("scheme", ["trellis", "pair"])
@pytest.mark.parametrize(
    ("bits", "key", "value"), [(1, 1, 1), (2, 2.5, 1.5), (2.5, 3, 2), (3, 3.5, 2.5), (4, 4, 4)]
)
def test_keys_get_what_can_be_moved_to_them(scheme, bits, key, value):
    info = registry().scheme(scheme)
    spec = info.resolve(bits)
    assert (spec.key.bits, spec.value.bits) == (key, value)
    assert {spec.key.scale, spec.value.scale} == {"unbiased"}
    spec = info.resolve(Widths(bits, value=4))
    assert (spec.key.bits, spec.value.bits) == (bits if bits % 1 == 0 else key, 4)


def test_the_scheme_gives_keys_the_bit_and_stores_halves_when_asked():
    info = registry().scheme("trellis")
    spec = info.resolve(3.5)
    assert (spec.key.bits, spec.value.bits) == (4, 3)
    spec = info.resolve(Widths(None, 3.5, 2.5))
    assert (spec.key.bits, spec.value.bits) == (3.5, 2.5)
    ctx = ShapeCtx(key_dim=128)
    for bits, nbytes in ((2, 34), (2.5, 42), (3, 50), (3.5, 58), (4, 66)):
        key = info.resolve(Widths(None, bits, bits), {}, ctx).key
        assert codec_for(key, 128).nbytes == nbytes
    with pytest.raises(OptionError, match="states=5"):
        info.resolve(3, {"states": "5"})
    with pytest.raises(OptionError, match="search=0"):
        info.resolve(3, {"search": "0"})
