"""The fused decode on the Metal emulator, against the float64 formula and the portable kernel."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from attrs import evolve

from tests.kernels import emulated
from tqcore.attention.mask import SegmentMask
from tqcore.protocols import EncodedSegment
from tqmetal import checks, decode, variants
from tqmetal.checks import Stored, Variant, covering, decode_error, of_kinds, special
from tqmetal.tiling import LARGEST_DIM, SHARED, tiling
from tqplugins.kernels_mlx.device import PortableKernel

CLOSE = 1e-4
LUT = Stored(4, 64)


@pytest.fixture(scope="module")
def launches():
    return emulated.launches()


@pytest.mark.parametrize(
    "variant", [*covering(), *special(), *of_kinds()], ids=lambda variant: variant.name
)
def test_decode_equals_the_formula(launches, variant):
    assert decode_error(variant, launches) < CLOSE


def test_the_variants_cover_every_pair():
    wanted = set()
    for row in itertools.product(range(1, 9), checks.DIMS, checks.DTYPES, checks.MASKS):
        wanted |= set(itertools.combinations(row, 2))
    assert wanted <= set().union(*map(checks.pairs, covering()))


def test_other_kinds_meet_every_width_dimension_dtype_and_mask():
    found = set().union(*map(variants.kind_pairs, of_kinds()))
    for kind, widths in (
        (("pair", 4), variants.PAIR_WIDTHS),
        (("trellis", 4), variants.TRELLIS_WIDTHS),
        (("trellis", 8), variants.TRELLIS_WIDTHS),
        (("lut+sign", 4), variants.SIGN_WIDTHS),
    ):
        wanted = (*widths, *variants.FULL_DIMS, *variants.DTYPES, *variants.MASKS)
        assert {(kind, one) for one in wanted} <= found


@pytest.mark.parametrize("dim", [64, 256])
def test_field_case_44_our_decode_keeps_to_its_threadgroup_memory(launches, dim):
    stored = Stored(4, dim)
    for rows in ({"gqa": 1}, {"gqa": 8}, {"gqa": 4, "q_len": 4, "mask": "causal"}):
        assert decode_error(Variant(stored, stored, **rows), launches) < CLOSE


@pytest.mark.parametrize("seed", [1, 2])
def test_threads_may_run_in_any_order(seed):
    assert decode_error(Variant(LUT, LUT, tokens=70, parts=3), emulated.launches(seed=seed)) < CLOSE


@pytest.mark.parametrize(
    "variant", [*special()[:3], *of_kinds()[5::4]], ids=lambda variant: variant.name
)
def test_the_tiling_of_cuda_is_right_as_well(variant):
    assert decode_error(variant, emulated.launches("cuda")) < CLOSE


def parts_of(launches, tokens, mask=None, plan=None, **options):
    codec = LUT.codec(0)
    rng = np.random.default_rng(5)
    planes = checks.rows(codec, tokens, rng)
    q = mx.array(rng.standard_normal((2, 4, 1, 64), dtype=np.float32))
    side, mask = checks.readable(codec), mask or SegmentMask()
    came = decode.attend(launches, q, planes, planes, (side, side), mask, scale=0.1, **options)
    segment = EncodedSegment(planes, planes, codec, codec)
    return came, PortableKernel().attend(q, segment, mask, scale=0.1)


def assert_same(came, expected):
    for a, b in zip(came, expected, strict=True):
        np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_o_m_and_l_are_those_of_the_portable_kernel(launches, parts):
    assert_same(*parts_of(launches, 30, parts=parts))


def test_more_splits_than_tokens(launches):
    assert_same(*parts_of(launches, 3, parts=8))


def test_a_fully_hidden_row_is_empty(launches):
    hidden = np.ones((2, 1, 1, 30), bool)
    hidden[1] = False
    came, expected = parts_of(launches, 30, SegmentMask("array", array=mx.array(hidden)), parts=2)
    assert_same(came, expected)
    assert bool((came.m[1] == -mx.inf).all())
    assert bool((came.l[1] == 0).all())
    assert bool((came.o[1] == 0).all())


def test_the_lowest_finite_mask_hides_as_it_does_elsewhere(launches):
    low = np.zeros((1, 30), np.float32)
    low[:, 5:] = np.finfo(np.float32).min
    assert_same(*parts_of(launches, 30, SegmentMask("array", array=mx.array(low)), parts=2))


def test_a_mask_over_more_keys_than_the_segment_is_cut(launches):
    added = np.random.default_rng(1).standard_normal((2, 4, 1, 45)).astype(np.float32)
    mask = SegmentMask("array", array=mx.array(added)).from_key(15)
    padding = mx.array([17, 21])
    assert_same(*parts_of(launches, 30, mask.hiding(padding), parts=2))


@pytest.mark.parametrize("axes", [(1, 0, 2), (2, 1, 0), (0, 2, 1)])
def test_planes_of_any_strides_are_read_in_place(launches, axes):
    variant = Variant(LUT, LUT)
    rng = np.random.default_rng(3)
    codec = LUT.codec(0)
    side = checks.readable(codec)
    planes = [np.array(plane) for plane in checks.rows(codec, variant.tokens, rng)]
    back = np.argsort(axes)
    words = np.ascontiguousarray(planes[0].transpose(*axes, 3)).transpose(*back, 3)
    scale = np.ascontiguousarray(planes[1].transpose(axes)).transpose(back)
    q = rng.standard_normal((2, 1, 4, 64), dtype=np.float32).swapaxes(1, 2)
    came = decode.attend(
        launches, q, [words, scale], [words, scale], (side, side), SegmentMask(), scale=0.1
    )
    given = [mx.array(plane) for plane in planes]
    segment = EncodedSegment(given, given, codec, codec)
    assert_same(came, PortableKernel().attend(mx.array(q), segment, SegmentMask(), scale=0.1))


def test_no_plane_and_no_mask_is_copied():
    calls = []

    def record(**call):
        calls.append(call)
        return [
            mx.zeros(shape, kind)
            for shape, kind in zip(call["output_shapes"], call["output_dtypes"], strict=True)
        ]

    mask = mx.ones((1, 1, 1, 37), mx.bool_)
    codec = LUT.codec(0)
    planes = checks.rows(codec, 37, np.random.default_rng(0))
    side = checks.readable(codec)
    q = mx.zeros((2, 4, 1, 64))
    all_three = decode.Launches("metal", record, record, record)
    given = SegmentMask("array", array=mask)
    decode.attend(all_three, q, planes, planes, (side, side), given, scale=1.0, parts=2)
    inputs = calls[0]["inputs"]
    assert inputs[3] is planes[0]
    assert inputs[11].shape == (2, 4, 1, 37)
    assert not np.any(np.array(inputs[11].astype(mx.int32)) != 1)


@pytest.mark.parametrize("backend", ["metal", "cuda"])
@pytest.mark.parametrize("dims", [(8, 8), (64, 128), (80, 96), (128, 128), (192, 128), (256, 256)])
@pytest.mark.parametrize("rows", [1, 4, 7, 8, 9, 128])
def test_a_tiling_fits_the_device(backend, dims, rows):
    key, value = (checks.readable(Stored(4, dim).codec(0)) for dim in dims)
    plan = tiling(backend, key, value, rows)
    assert all(dim % plan.lanes == 0 for dim in dims)
    assert 1 <= plan.rows <= min(rows, 8)
    assert 4 * plan.simdgroups * plan.rows * value.dim <= SHARED
    assert max(dims) <= LARGEST_DIM


def test_queries_are_spread_evenly_over_tiles():
    side = checks.readable(Stored(4, 128).codec(0))
    assert tiling("cuda", side, side, 12).rows == 6
    assert tiling("cuda", side, side, 4).rows == 4


@pytest.mark.parametrize(
    ("name", "text", "broken"),
    [
        ("barrier after the tables", "TQ_BARRIER;\n\nauto keys", "auto keys"),
        ("barrier before the merge", "TQ_BARRIER;\n\nfor (int i = int(thread_id); i < ROWS * VD", "for (int i = int(thread_id); i < ROWS * VD"),
        ("barrier between splits", "(row.sum);\n  TQ_BARRIER;", "(row.sum);"),
        ("a word past the row", "words[(word + k) * stride]", "words[(word + k + 1) * stride]"),
        ("a token past the end", "at < end ? at : end - 1", "at"),
        ("tokens past the end count", "bool seen = at < end", "bool seen = true"),
        ("causal, one key less", "at <= place[0] + row % q_len", "at < place[0] + row % q_len"),
        ("causal, one key more", "at <= place[0] + row % q_len", "at <= place[0] + row % q_len + 1"),
        ("another query's mask", "row % q_len", "(row + 1) % q_len"),
        ("maximum of one team", "top = other > top ? other : top", "top = top"),
        ("no rescaling", "o[r][i] *= kept[r]", "o[r][i] *= 1.0f"),
        ("half of a team", "lanes = LANES / 2; lanes > 0", "lanes = LANES / 2; lanes > 1"),
        ("a bit too few", "bits & ((1u << BITS) - 1)", "bits & ((1u << (BITS - 1)) - 1)"),
        ("a transform cut short", "h < uint(LANES)", "h < uint(LANES) / 2"),
        ("a split left out", "k < splits ? column[k * D] : 0.0f", "k + 1 < splits ? column[k * D] : 0.0f"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_found(name, text, broken):
    edited = []

    def edit(source):
        edited.append(text in source)
        return source.replace(text, broken)

    variant = Variant(LUT, LUT, mask="causal", q_len=2, tokens=200, parts=2)
    found = False
    try:
        found = not decode_error(variant, emulated.launches(edit=edit)) < CLOSE
    except Exception:
        found = True
    assert any(edited), name
    assert found, name


TRELLIS = Variant(
    Stored(3, 64, kind="trellis"), Stored(2.5, 64, kind="trellis", states=8), gqa=2, parts=2
)
# 200 bits: what comes before the first code ends inside a word.
SHORT_TRELLIS = Variant(Stored(2.5, 80, kind="trellis"), LUT, gqa=1, tokens=40)
WIDE_TRELLIS = Variant(Stored(2, 256, kind="trellis", states=8), LUT, gqa=1, tokens=40)
SIGNED = Variant(Stored(3, 64, kind="lut+sign"), Stored(2.5, 64, kind="pair"), gqa=2)


@pytest.mark.parametrize(
    ("variant", "text", "broken"),
    [
        (TRELLIS, "word > 0 ? word - 1 : T * BITS / 32 - 1", "word > 0 ? word - 1 : 0"),
        (TRELLIS, "word > 0 ? word - 1 : T * BITS / 32 - 1", "word - 1"),
        (TRELLIS, "tq_funnel(last, words[word * stride], first * BITS % 32)", "last"),
        (TRELLIS, "codes ^ (two & odd)", "codes ^ (two & even)"),
        (TRELLIS, "codes ^ (two & even)", "codes"),
        (TRELLIS, "(one & even)", "(codes & even)"),
        (TRELLIS, "31 + i * BITS", "32 + i * BITS"),
        (TRELLIS, "share[0] << BITS", "share[0]"),
        (TRELLIS, "place / BITS % 2 == ODD", "true"),
        (SHORT_TRELLIS, "(first > 0 ? first : T) * BITS - three", "first * BITS - three"),
        (SHORT_TRELLIS, "<< (32 - three)", ""),
        (WIDE_TRELLIS, "flips = one ^ tq_funnel", "flips = tq_funnel"),
        (WIDE_TRELLIS, "32 - 3 * BITS", "32 - 2 * BITS"),
        (WIDE_TRELLIS, "tq_funnel(share[K], codes, 32 - BITS)", "codes << BITS"),
        (SIGNED, "sign ^ 0xbf800000u", "sign ^ 0x3f800000u"),
        (SIGNED, "sums[u][r] * sides[u][1]", "sums[u][r] * sides[u][0]"),
        (SIGNED, "KSTREAM = KD * KBITS", "KSTREAM = KD * (KBITS - 1)"),
        (SIGNED, "points[index].x[i % SPAN]", "points[index].x[0]"),
    ],
)  # fmt: skip
def test_a_fault_of_another_kind_is_found(variant, text, broken):
    edited = []

    def edit(source):
        edited.append(text in source)
        return source.replace(text, broken)

    try:
        found = not decode_error(variant, emulated.launches(edit=edit)) < CLOSE
    except Exception:
        found = True
    assert any(edited)
    assert found


def test_those_are_right_without_a_fault(launches):
    for variant in (TRELLIS, SHORT_TRELLIS, WIDE_TRELLIS, SIGNED):
        assert decode_error(variant, launches) < CLOSE


def test_the_same_variant_without_a_fault_is_right(launches):
    variant = Variant(LUT, LUT, mask="causal", q_len=2, tokens=200, parts=2)
    assert decode_error(variant, launches) < CLOSE
    assert decode_error(evolve(variant, dtype="float16"), launches) < CLOSE
