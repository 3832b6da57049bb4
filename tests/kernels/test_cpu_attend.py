"""Attention of the compiled CPU kernel: the float64 oracle, the portable kernel, every width."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.helpers import MIXED, WIDTHS, codec
from tqcore.attention.mask import SegmentMask
from tqcore.attention.naive import attention
from tqcore.codec import Codec, codec_for
from tqcore.protocols import EncodedSegment, Partial
from tqcore.spec import CodecSpec, PlaneSpec
from tqplugins import ufloat16
from tqplugins.kernels_cpu import device, sides
from tqplugins.kernels_mlx.device import PortableKernel

numba = pytest.importorskip("numba")
words = pytest.importorskip("tqplugins.kernels_cpu.words")
CPU, PORTABLE = device.CompiledKernel(), PortableKernel()
DIMS = st.sampled_from([7, 24, 36, 64, 72, 80, 96, 128, 160, 256])


@numba.njit
def _to_bytes(codes, width, at):
    return words.to_bytes(codes, width, at)


def affine(bits: int, dim: int, group: int = 64) -> Codec:
    return codec_for(
        CodecSpec("identity", "mlx-affine", "raw", bits, params={"group_size": group}), dim
    )


def coded(kind: str, bits: float, dim: int, seed: int = 0) -> Codec:
    """Return a codec of a scheme's kind: ``pair``, ``trellis4``, ``trellis8``, ``qjl``, ``lut``."""
    book, params = {
        "pair": ("pair", {}),
        "trellis4": ("trellis", {"states": 4}),
        "trellis8": ("trellis", {"states": 8}),
        "qjl": ("beta-lloyd-max-qjl", {}),
        "gaussian": ("beta-lloyd-max-qjl", {"sketch": "gaussian"}),
        "lut": ("beta-lloyd-max", {}),
    }[kind]
    return codec_for(CodecSpec("hadamard", book, "u32le", bits, seed, "mse", params=params), dim)


KINDS = [
    *(("pair", bits) for bits in (1, 1.5, 2, 2.5, 3, 3.5, 4)),
    *((f"trellis{states}", bits) for states in (4, 8) for bits in (1, 1.5, 2, 2.5, 3, 3.5, 4, 5)),
    *(("qjl", bits) for bits in (2, 2.5, 3, 4, 5.5, 8)),
    ("gaussian", 3),
    ("lut", 4),
]
HEAD_DIMS = (64, 72, 80, 96, 128, 192, 256, 8, 24)


def random_bits(key: Codec, value: Codec, batch: int, heads: int, tokens: int) -> EncodedSegment:
    """Return a segment of random words, each of which is a vector, and scales of some size."""
    rng = np.random.default_rng(tokens)
    planes = []
    for c in (key, value):
        lead = (batch, heads, tokens + 9)
        room = [mx.array(rng.integers(0, 2**32, (*lead, *c.planes[0].shape), dtype=np.uint32))]
        room += [mx.array(rng.integers(30000, 32000, lead, dtype=np.uint16)) for _ in c.planes[1:]]
        planes.append([plane[:, :, 4 : 4 + tokens] for plane in room])
    return EncodedSegment(planes[0], planes[1], key, value)


def draw(*shape: int, seed: int, dtype: mx.Dtype = mx.float32) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed)).astype(dtype)


def stored(key: Codec, value: Codec, batch: int, heads: int, tokens: int) -> EncodedSegment:
    """Return a segment cut out of larger buffers, as a cache's is."""
    planes = []
    for c, seed in ((key, 1), (value, 2)):
        room = c.encode(draw(batch, heads, tokens + 9, c.dim, seed=seed))
        planes.append([plane[:, :, 4 : 4 + tokens] for plane in room])
    return EncodedSegment(planes[0], planes[1], key, value)


def normalized(part: Partial, value: Codec) -> np.ndarray:
    l = mx.where(part.l == 0, 1, part.l)
    return np.array(value.rotation.inverse(part.o / l[..., None]))


def visible(mask: SegmentMask, shape: tuple[int, ...]) -> np.ndarray:
    return np.array(mask.apply(mx.zeros(shape)))


def check(
    q: mx.array, segment: EncodedSegment, mask: SegmentMask, softcap: float | None = None
) -> None:
    """Compare with the oracle on the decoded vectors, and (o, m, l) with the portable kernel."""
    key, value = segment.key_codec, segment.value_codec
    scale = key.dim**-0.5
    rotated = key.rotation.forward(q.astype(mx.float32))
    came = CPU.attend(rotated, segment, mask, scale=scale, softcap=softcap)
    theirs = PORTABLE.attend(rotated, segment, mask, scale=scale, softcap=softcap)
    assert [x.shape for x in came] == [x.shape for x in theirs]
    assert {x.dtype for x in came} == {mx.float32}
    shape = (*q.shape[:3], segment.keys[0].shape[2])
    expected = attention(
        q.astype(mx.float32),
        key.decode(segment.keys),
        value.decode(segment.values),
        scale=scale,
        softcap=softcap,
        mask=visible(mask, shape),
    )
    np.testing.assert_allclose(normalized(came, value), expected, atol=3e-5)
    np.testing.assert_allclose(came.m, theirs.m, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(came.l, theirs.l, rtol=1e-4, atol=1e-6)


def mask_of(kind: str, q_len: int, tokens: int, batch: int, heads: int) -> SegmentMask:
    rng = np.random.default_rng(tokens)
    given: Any = {"none": None, "causal": "causal"}.get(kind)
    if kind == "bool":
        given = mx.array(rng.random((batch, 1, q_len, tokens)) < 0.6)
    if kind == "added":
        given = mx.array(rng.normal(size=(heads, q_len, tokens)).astype(np.float16))
    return SegmentMask.of(given, q_len, tokens, (batch, heads))


@pytest.mark.parametrize("bits", [*WIDTHS, *MIXED])
@pytest.mark.parametrize("shuffles", [True, False])
def test_every_width_equals_the_oracle(bits, shuffles, monkeypatch):
    if not shuffles:
        monkeypatch.setattr(sides, "_shuffles", lambda: False)
        sides.tables_of.cache_clear()
    segment = stored(codec(bits, 128), codec(bits, 80, seed=1), 2, 2, 75)
    check(draw(2, 6, 1, 128, seed=3), segment, SegmentMask())
    sides.tables_of.cache_clear()


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize(("dim", "group"), [(64, 64), (128, 32), (80, 64), (256, 128)])
def test_affine_groups_equal_the_oracle(bits, dim, group):
    segment = stored(affine(bits, dim, group), affine(bits, dim, group), 1, 2, 70)
    check(draw(1, 4, 1, dim, seed=3), segment, SegmentMask())


@pytest.mark.parametrize("turn", range(len(KINDS)))
@pytest.mark.parametrize("step", [3, 14])
def test_every_kind_equals_the_oracle_beside_another(turn, step):
    key = coded(*KINDS[turn], HEAD_DIMS[turn % len(HEAD_DIMS)])
    dim = HEAD_DIMS[(turn // 3 + step) % len(HEAD_DIMS)]
    value = coded(*KINDS[(turn * 5 + step) % len(KINDS)], dim, seed=1)
    batch, heads, gqa = [(2, 2, 3), (1, 3, 1), (3, 1, 8)][turn % 3]
    q_len, tokens = [(1, 75), (5, 33), (16, 140)][(turn + step) % 3]
    assert sides.tables_of(key) is not None
    assert sides.tables_of(value) is not None
    q = draw(batch, heads * gqa, q_len, key.dim, seed=3)
    mask = mask_of(["none", "causal", "bool", "added"][turn % 4], q_len, tokens, batch, heads * gqa)
    if turn % 2:
        mask = mask.hiding(mx.array([3, 0, 11][:batch]))
    check(q, random_bits(key, value, batch, heads, tokens), mask, [None, 20.0][step % 2])


@pytest.mark.parametrize("key", ["pair", "trellis4", "trellis8", "qjl"])
def test_a_prompt_of_every_kind_equals_the_oracle(key):
    segment = stored(coded(key, 3, 64), coded("trellis4", 2.5, 64, seed=1), 1, 2, 150)
    check(draw(1, 4, 150, 64, seed=3), segment, SegmentMask.of("causal", 150, 150))


@pytest.mark.parametrize("kind", ["trellis4", "pair", "qjl"])
def test_kinds_by_look_ups_in_memory_alone(kind, monkeypatch):
    monkeypatch.setattr(sides, "_shuffles", lambda: False)
    sides.tables_of.cache_clear()
    c = coded(kind, 3, 128)
    check(draw(1, 4, 1, 128, seed=3), random_bits(c, c, 1, 2, 40), SegmentMask())
    sides.tables_of.cache_clear()


@pytest.mark.parametrize("width", range(1, 9))
def test_codes_are_spread_to_bytes_with_and_without_the_instruction(width, monkeypatch):
    monkeypatch.setattr(words, "DEPOSITS", False)
    codes = [int(c) for c in np.random.default_rng(width).integers(0, 2**width, 8)]
    word = np.uint64(sum(c << (width * i) for i, c in enumerate(codes)))
    expected = sum(c << (8 * i) for i, c in enumerate(codes))
    assert int(words.to_bytes.py_func(word, width, 0)) == expected
    assert int(_to_bytes(word, width, 0)) == expected


class Stranger:
    """Somebody's pairs, which have nothing of ours but what the decode kind says."""

    decode_kind = "pair"

    def __init__(self, dim: int) -> None:
        self.dim, self.n, self.runs = dim, dim // 2, ((dim // 2, 3),)
        self.side_planes = (PlaneSpec("scale", "uint16"),)
        self.points = mx.array(np.random.default_rng(5).normal(size=(8, 2)).astype(np.float32))

    def decode(self, codes: mx.array, side: Any) -> mx.array:
        vectors = self.points[codes].reshape(*codes.shape[:-1], self.dim)
        return vectors * ufloat16.decode(mx, side[0])[..., None]


def test_a_strangers_codebook_of_a_known_kind_is_served():
    known = coded("pair", 1.5, 64)
    own = Codec(known.spec, known.rotation, Stranger(64), known.packer)
    assert sides.tables_of(own) is not None
    check(draw(1, 4, 1, 64, seed=3), random_bits(own, known, 1, 2, 40), SegmentMask())


@given(
    key=st.tuples(st.sampled_from([*WIDTHS, *MIXED]), DIMS),
    value=st.tuples(st.sampled_from([*WIDTHS, *MIXED]), DIMS),
    heads=st.sampled_from([(1, 1), (2, 1), (1, 6), (3, 3), (2, 8)]),
    q_len=st.integers(1, 16),
    tokens=st.integers(1, 200),
    batch=st.integers(1, 3),
    kind=st.sampled_from(["none", "causal", "bool", "added"]),
    softcap=st.sampled_from([None, 0.5, 30.0]),
    dtype=st.sampled_from([mx.float32, mx.float16, mx.bfloat16]),
)
def test_any_shape_width_and_mask_equals_the_oracle(key, value, heads, q_len, tokens, batch, kind, softcap, dtype):  # fmt: skip
    kv_heads, gqa = heads
    q_len = min(q_len, tokens)
    segment = stored(codec(*key), codec(*value, seed=1), batch, kv_heads, tokens)
    q = draw(batch, kv_heads * gqa, q_len, key[1], seed=3, dtype=dtype)
    check(q, segment, mask_of(kind, q_len, tokens, batch, kv_heads * gqa), softcap)


@pytest.mark.parametrize("kind", ["none", "causal", "bool"])
def test_field_case_37_padding_is_hidden_whatever_the_mask(kind):
    segment = stored(codec(4), codec(3, seed=1), 3, 2, 90)
    padding = mx.array([0, 41, 7])
    mask = mask_of(kind, 5, 90, 3, 4).hiding(padding)
    check(draw(3, 4, 5, 64, seed=3), segment, mask)
    # a segment that starts later in the sequence
    later = evolve(mask_of(kind, 5, 90, 3, 4), k_start=0).hiding(padding).from_key(30)
    tail = EncodedSegment(
        [p[:, :, 30:] for p in segment.keys], [p[:, :, 30:] for p in segment.values], *segment[2:]
    )
    check(draw(3, 4, 5, 64, seed=3), tail, later)


def test_keys_with_positions_of_their_own():
    segment = stored(codec(4), codec(4, seed=1), 2, 2, 40)
    columns = mx.array(np.stack([np.arange(40) - 3, np.arange(40)[::-1]]))
    for kind in ("none", "causal", "added"):
        check(draw(2, 4, 3, 64, seed=3), segment, mask_of(kind, 3, 40, 2, 4).at(columns))


def test_a_row_that_sees_nothing_is_empty():
    segment = stored(codec(4), codec(4, seed=1), 2, 1, 70)
    came = CPU.attend(draw(2, 2, 1, 64, seed=3), segment, SegmentMask().hiding(mx.array([70, 69])), scale=1.0)  # fmt: skip
    assert mx.all(came.m[0] == -mx.inf)
    assert not mx.any(came.l[0])
    assert not mx.any(came.o[0])
    np.testing.assert_allclose(came.l[1], 1)


@pytest.mark.parametrize(("q_len", "gqa", "tokens"), [(130, 1, 130), (90, 4, 300), (300, 3, 301)])
def test_a_prompt_equals_the_oracle(q_len, gqa, tokens):
    segment = stored(codec(3), codec(4, seed=1), 1, 2, tokens)
    check(draw(1, 2 * gqa, q_len, 64, seed=3), segment, SegmentMask.of("causal", q_len, tokens))


@pytest.mark.parametrize("tokens", [3000, 4097])
def test_a_long_cache_is_cut_in_spans_and_merged(tokens, monkeypatch):
    monkeypatch.setattr(device, "threads", lambda: 3)
    segment = stored(codec(4), codec(3.5, seed=1), 1, 1, tokens)
    check(draw(1, 3, 1, 64, seed=3), segment, SegmentMask())
    check(draw(1, 3, 4, 64, seed=3), segment, SegmentMask.of("causal", 4, tokens))


def test_large_logits_do_not_overflow():
    segment = stored(codec(4), codec(4, seed=1), 1, 1, 64)
    check(1e4 * draw(1, 2, 1, 64, seed=3), segment, SegmentMask())


def test_a_query_that_is_no_number_gives_none():
    segment = stored(codec(4), codec(4, seed=1), 1, 1, 64)
    q = mx.full((1, 1, 1, 64), mx.nan)
    assert mx.all(mx.isnan(CPU.attend(q, segment, SegmentMask(), scale=1.0).o))


@pytest.mark.parametrize("fields", [("runs",), ("side_planes",)])
def test_a_side_that_cannot_be_read_is_attended_by_mlx(fields):
    known = codec(4)

    class Other(type(known.codebook)):
        """As if its codes or its scale were of another kind."""

    book = Other.__new__(Other)
    book.__dict__.update(known.codebook.__dict__)
    if "runs" in fields:
        book.runs, book.levels = ((20, 4), (20, 4), (24, 4)), known.codebook.levels * 3
    else:
        book.side_planes = (evolve(known.codebook.side_planes[0], name="other"),)
    assert sides.tables_of(Codec(known.spec, known.rotation, book, known.packer)) is None
    segment = stored(known, known, 1, 1, 40)
    stranger = EncodedSegment(*segment[:2], Codec(known.spec, known.rotation, book, known.packer), known)  # fmt: skip
    q = draw(1, 2, 1, 64, seed=3)
    if "side_planes" in fields:
        came, expected = (k.attend(q, s, SegmentMask(), scale=0.1) for k, s in ((CPU, stranger), (PORTABLE, segment)))  # fmt: skip
        np.testing.assert_allclose(came.o, expected.o, rtol=1e-5, atol=1e-5)
