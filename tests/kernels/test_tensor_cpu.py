"""The kernel of tensor cores on the CPU: right for every request it serves, and faults do not pass."""

import contextlib
import itertools
import re

import mlx.core as mx
import numpy as np
import pytest
from attrs import evolve

from tests.kernels import tensor_cpu
from tqcore.attention.mask import SegmentMask
from tqcore.protocols import EncodedSegment
from tqcore.select import KernelRequest, SideSpec
from tqcore.testing.msl.faults import FaultKind, KernelFault
from tqmetal import tensor
from tqmetal.checks import Stored, Variant, attend_error, readable
from tqmetal.probe import ATTENDED, probe_attend, probe_finished
from tqmetal.samples import sample_rows
from tqmetal.tensor_kernel import CLOSE

ROWS = ((1, 1), (4, 1), (8, 1), (2, 3), (1, 16))
TOKENS = ((1, None), (31, 1), (32, 2), (33, None), (300, 3))
AXES = {
    "dim": (64, 128),
    "key": (2, 3, 4),
    "value": (2, 3, 4),
    "rows": ROWS,
    "mask": ("none", "causal", "bool", "added"),
    "padded": (False, True),
    "capped": (False, True),
    "finished": (False, True),
    "dtype": ("float16", "bfloat16", "float32"),
    "tokens": TOKENS,
}


def pairwise(axes, seed=0):
    """Return choices that hold every pair of two axes' values, each the best of some at random."""
    names = list(axes)
    missing = {
        (a, x, b, y)
        for a, b in itertools.combinations(names, 2)
        for x, y in itertools.product(axes[a], axes[b])
    }
    rng, found = np.random.default_rng(seed), []
    while missing:
        a, x, b, y = min(missing, key=str)
        best = set()
        for _ in range(60):
            tried = {name: axes[name][rng.integers(len(axes[name]))] for name in names}
            tried |= {a: x, b: y}
            covered = {
                (c, tried[c], d, tried[d]) for c, d in itertools.combinations(names, 2)
            } & missing
            if len(covered) > len(best):
                best, choice = covered, tried
        missing -= best
        found.append(choice)
    return found


def named(case):
    return " ".join(f"{name}={value}" for name, value in case.items())


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    use(monkeypatch, tensor_cpu.kernel)


def use(monkeypatch, kernel):
    monkeypatch.setattr(tensor, "kernel", kernel)
    tensor.program.cache_clear()


@pytest.fixture(autouse=True, scope="module")
def forgotten():
    yield
    tensor.program.cache_clear()
    tensor_cpu.kernel.cache_clear()


def error(variant, finished=True, seed=0):
    return attend_error(variant, tensor.attend_finished if finished else tensor.attend, seed)


@pytest.mark.parametrize("case", pairwise(AXES), ids=named)
def test_attention_is_that_of_the_formula(case):
    (gqa, q_len), (tokens, parts) = case["rows"], case["tokens"]
    key, value = Stored(case["key"], case["dim"]), Stored(case["value"], case["dim"])
    variant = Variant(
        key, value, case["dtype"], case["mask"], case["padded"], case["capped"], gqa, q_len, tokens, parts
    )  # fmt: skip
    assert error(variant, case["finished"]) < CLOSE


TRELLISES = [
    Stored(bits, dim, kind="trellis", states=states)
    for bits, states, dim in itertools.product((2, 3, 4), (4, 8), (64, 128))
]


@pytest.mark.parametrize("i", range(len(TRELLISES)), ids=lambda i: str(TRELLISES[i]))
def test_a_trellis_on_either_side_with_anything_on_the_other(i):
    key = TRELLISES[i]
    # Every trellis is a value too: with another width, number of states, or none.
    others = [other for other in TRELLISES if other.dim == key.dim]
    value = others[(others.index(key) + 1 + i % 3) % len(others)]
    options = {"gqa": (1, 4, 8)[i % 3], "tokens": (45, 1, 33, 70)[i % 4], "dtype": "float16"}
    assert error(Variant(key, value, parts=1 + i % 2, **options), finished=i % 2) < CLOSE


@pytest.mark.parametrize("states", [4, 8])
def test_a_trellis_on_one_side_only(states):
    trellis, plain = Stored(4, 128, kind="trellis", states=states), Stored(3, 128)
    for sides in (trellis, plain), (plain, trellis):
        assert error(Variant(*sides, gqa=2, tokens=40, mask="causal", q_len=2)) < CLOSE


PAIRS = [*itertools.product((1.5, 2.5, 3.5), ("trellis",), (4, 8))]
PAIRS += [*itertools.product((1.5, 2, 2.5, 3, 3.5, 4), ("pair",), (4,))]
OTHERS = [(3, "lut", 4), (4, "lut", 4), (4, "trellis", 8), (2.5, "trellis", 4), (3.5, "pair", 4)]
PAIR_AXES = {
    "dim": (64, 128),
    "pair": PAIRS,
    "other": OTHERS,
    "swapped": (False, True),
    "rows": ROWS,
    "mask": ("none", "causal", "bool", "added"),
    "tokens": TOKENS,
}


@pytest.mark.parametrize("case", pairwise(PAIR_AXES), ids=named)
def test_codes_of_two_values_with_anything_on_the_other_side(case):
    (gqa, q_len), (tokens, parts) = case["rows"], case["tokens"]
    sides = [
        Stored(bits, case["dim"], kind=kind, states=states)
        for bits, kind, states in (case["pair"], case["other"])
    ]
    key, value = reversed(sides) if case["swapped"] else sides
    variant = Variant(
        key, value, "float16", case["mask"], gqa=gqa, q_len=q_len, tokens=tokens, parts=parts
    )
    assert error(variant, finished=not case["swapped"]) < CLOSE


PROBED = [("trellis", 2), ("trellis", 2.5), ("trellis", 3), ("trellis", 4), ("pair", 3.5)]


@pytest.mark.parametrize(("kind", "bits"), PROBED)
def test_the_probe_of_points_that_are_not_trained_passes(kind, bits):
    side = SideSpec(128, bits, "u32le/1", kind)
    request = KernelRequest("cuda", "float32", side, side, gqa=4)
    probe_finished(tensor.attend_finished, request, CLOSE, 40)


HEADS = 2


def coordinates(stored, monkeypatch):
    """Return the largest error of a coordinate of one key, and of one value, over the largest.

    One token's score with a query that is one coordinate, rotated, is that coordinate of its key; and
    its value is the output.
    """
    monkeypatch.setattr(tensor, "WARPS", 4)  # all but one have nothing to do
    codec, lead = stored.codec(0), (1, HEADS, 1)
    keys, values = (sample_rows(codec, seed, lead) for seed in (1, 2))
    unit = mx.broadcast_to(mx.eye(stored.dim), (1, HEADS, stored.dim, stored.dim))
    q = codec.rotation.inverse(unit).reshape(1, -1, 16, stored.dim)
    side = readable(codec)
    segment = EncodedSegment(keys, values, codec, codec)
    part = tensor.attend(q, segment, (side, side), SegmentMask(), scale=1.0)
    found = part.m.reshape(HEADS, -1), codec.rotation.forward(part.o / part.l[..., None])
    errors = []
    for came, planes in zip(found, (keys, values), strict=True):
        expected = codec.decode_rotated(planes).reshape(HEADS, 1, -1)
        came = came.reshape(HEADS, -1, stored.dim)
        largest = mx.abs(expected).max(-1, keepdims=True)
        errors.append(float((mx.abs(came - expected) / largest).max()))
    return errors


LOOKED_UP = [Stored(bits, dim) for bits in (2, 3, 4) for dim in (64, 128)]
ROUNDED = 0.01
"""Of the largest coordinate: half a byte's unit, and as much of the query's or the weight's."""


OF_TWO = [
    Stored(bits, dim, kind=kind, states=states)
    for (bits, kind, states), dim in itertools.product(PAIRS, (64, 128))
]


@pytest.mark.parametrize("stored", LOOKED_UP + TRELLISES + OF_TWO, ids=str)
def test_every_coordinate_is_right(stored, monkeypatch):
    assert max(coordinates(stored, monkeypatch)) < ROUNDED


LABELS = {
    "keys begin with another lane's word": (3, "lane + 3, 4)", "lane + 2, 4)"),
    "values begin with another lane's word": (4, "D == 64 ? 24 : 28)", "D == 64 ? 24 : 24)"),
    "u of other codes": (4, "s[0] = tqc_earlier(before, word, 1)", "s[0] = tqc_earlier(before, word, 5)"),
    "index of what is added": (4, "s[2] = word ^ tqc", "s[2] = word | tqc"),
    "windows": (3, "x << 2, 0x007f007fu", "x << 2, 0x003f003fu"),
    "bit before the lane's own": (3, "second == 0 ? WORDS - 1", "second == 0 ? 0"),
    "odd codes": (2, "(before, word, odd ? 3 : 5);  // .., ..,", "(before, word, odd ? 5 : 3);  // .., ..,"),
}  # fmt: skip


@pytest.mark.parametrize("fault", LABELS.values(), ids=LABELS)
def test_a_wrong_label_is_a_wrong_coordinate(fault, monkeypatch):
    bits, old, new = fault
    with edited(monkeypatch, old, new):
        assert max(coordinates(Stored(bits, 64, kind="trellis"), monkeypatch)) > ROUNDED


def halves(bits, dim, states=4, kind="trellis"):
    return Stored(bits, dim, kind=kind, states=states)


NUMBERS = {
    "keys begin with another lane's bit": (halves(2.5, 128), "lane % 4, lane + 3)", "lane % 4, lane + 2)"),
    "values begin with another lane's bit": (halves(3.5, 64), "lane / 4, lane + 28)", "lane / 4, lane + 24)"),
    "a of another code": (halves(2.5, 128), "own[k], 2 * BITS)", "own[k], BITS)"),
    "a of even codes in both streams": (halves(1.5, 64), "tqc_tops<BITS>(k, 1)", "tqc_tops<BITS>(k, 0)"),
    "a of 8 states": (halves(3.5, 128, 8), "own[k], 3 * BITS)", "own[k], 2 * BITS)"),
    "b of 8 states before the lane's own": (halves(2.5, 64, 8), "earlier << BITS;", "earlier;"),
    "number from a wrong bit on": (halves(3.5, 128), "t * BITS - OF_ODD - 1;", "t * BITS - OF_ODD - 1 + (t == 15);"),
    "number without its uppermost bit": (halves(3.5, 64), "(1u << INDEX) - 1", "(1u << (INDEX - 1)) - 1"),
    "words of a number": (halves(2.5, 128, kind="pair"), "shift + 1 + INDEX > 32", "shift + 1 + INDEX > 40"),
    "last word of the last share": (halves(3, 64, kind="pair"), "? words[k] : __funnelshift_r(words[k], words[k + 1],", "? words[k] : __funnelshift_r(words[k], words[k],"),
    "word after the row": (halves(3.5, 128), "k < WORDS ? k : min(k,", "k < WORDS ? k : max(k,"),
    "points of two codes the wrong way round": (halves(2.5, 64, kind="pair"), "point(4 * step + 3, *points), 65536u, point(4 * step + 2,", "point(4 * step + 2, *points), 65536u, point(4 * step + 3,"),
    "points of the keys for the values": (halves(4, 128, kind="pair"), "points[i >= KPOINTS][", "points[0]["),
    "pieces of copies": (halves(3.5, 64), "WORDS % 2 == 0 ? 2 : 1", "WORDS % 2 == 0 ? 2 : 2"),
}  # fmt: skip


@pytest.mark.parametrize("fault", NUMBERS.values(), ids=NUMBERS)
def test_a_wrong_point_is_a_wrong_coordinate(fault, monkeypatch):
    stored, old, new = fault
    try:
        with edited(monkeypatch, old, new):
            came = max(coordinates(stored, monkeypatch))
    except KernelFault as found:
        kinds = FaultKind.UNINITIALIZED, FaultKind.RACE, FaultKind.MISALIGNED
        came = dict.fromkeys(kinds, np.inf)[found.kind]
    assert came > ROUNDED


FOUR = Stored(4, 128)
USUAL = Variant(FOUR, FOUR, gqa=4, tokens=300, parts=2)


def test_more_splits_than_are_merged_at_once():
    assert error(evolve(USUAL, gqa=8, tokens=200, parts=21)) < CLOSE


@pytest.mark.parametrize("seed", [1, 2])
def test_blocks_warps_and_lanes_may_run_in_any_order(seed, monkeypatch):
    use(monkeypatch, lambda variant: tensor_cpu.CpuKernel(variant, seed=seed))
    assert error(evolve(USUAL, parts=3)) < CLOSE


def test_o_m_and_l_are_those_of_the_portable_kernel():
    side = SideSpec(64, 3, "u32le/1", "lut")
    request = KernelRequest("cuda", "float16", side, side, gqa=4, mask="causal", softcap=True)
    probe_attend(tensor.attend, request, CLOSE, ATTENDED)


def test_rows_of_a_cache_are_strided():
    # attend_error cuts its rows out of more; here the queries are a transposed view as well.
    def attend(q, *given, **options):
        view = mx.contiguous(q.swapaxes(1, 2)).swapaxes(1, 2)
        return tensor.attend_finished(view, *given, **options)

    assert attend_error(evolve(USUAL, q_len=2), attend) < CLOSE


SMALL = evolve(USUAL, key=Stored(3, 128), tokens=150, parts=1)
"""With blocks of four warps one takes tokens twice; lanes read keys that others copied."""


@contextlib.contextmanager
def edited(monkeypatch, old, new):
    """Have the kernel's text ``old``, which is once in its files, be ``new``."""
    found = set()

    def edit(text):
        if old in text:
            assert text.count(old) == 1
            found.add(text)
        return text.replace(old, new)

    use(monkeypatch, lambda variant: tensor_cpu.CpuKernel(variant, edit))
    yield
    assert len(found) == 1


def planted(monkeypatch, variant, old, new):
    if variant is SMALL:
        monkeypatch.setattr(tensor, "WARPS", 4)
    with edited(monkeypatch, old, new):
        return error(variant, finished=False)


WAIT = "  tqc_wait<1>();\n  __syncwarp();\n\n  // "
EIGHT = evolve(USUAL, gqa=8)
TWO = evolve(USUAL, value=halves(4, 128, kind="pair"))
SPLIT = evolve(USUAL, gqa=8, parts=20, tokens=200)
WRONG = {
    "fragment rows": (USUAL, "b[t][0], a[t][1], b[t][1], q", "a[t][1], b[t][0], b[t][1], q"),
    "byte of a weight": (USUAL, "0x4444u - 4 * next_place", "0x4444u - 3 * next_place"),
    "order of weights": (EIGHT, "1], 0x0040u), 0x5410u", "1], 0x0040u), 0x1054u"),
    "upper half of the codes": (USUAL, "bytes[0][1] = tqc_permute(table[0], table[1], codes >> 16", "bytes[0][1] = tqc_permute(table[0], table[1], codes >> 12"),
    "other table": (USUAL, "codes ^ 0x88888888u", "codes ^ 0x88888880u"),
    "rows of 16 words": (TWO, "D / 64 * BITS == 16 ?", "D / 64 * BITS == 99 ?"),
    "3-bit words": (SMALL, "x << 2, 0x003f003fu", "x << 2, 0x001f003fu"),
    "no wait for keys": (SMALL, WAIT + "Scores", "  __syncwarp();\n\n  // Scores"),
    "no wait for values": (SMALL, WAIT + "Weights", "  __syncwarp();\n\n  // Weights"),
    "a split too few": (SPLIT, "k < splits; k += HELPERS", "k < splits - 1; k += HELPERS"),
    "counter": (USUAL, "== splits - 1", "== splits"),
}  # fmt: skip


@pytest.mark.parametrize("fault", WRONG.values(), ids=WRONG)
def test_what_is_wrong_shows(fault, monkeypatch):
    try:
        came = planted(monkeypatch, *fault)
    except KernelFault as found:
        came = {FaultKind.UNDEFINED: np.inf, FaultKind.UNWRITTEN: np.inf}[found.kind]
    assert not came < CLOSE


MERGE = "if (thread_id == 0) {\n  int* counter"
RACES = {
    "keys before their barrier": (SMALL, WAIT + "Scores", "  tqc_wait<1>();\n\n  // Scores"),
    "values before theirs": (SMALL, WAIT + "Weights", "  tqc_wait<1>();\n\n  // Weights"),
    "keys fetched too early": (SMALL, "  __syncwarp();  // the keys are read", "  // the keys are read"),
    "values fetched too early": (SMALL, "  __syncwarp();  // the values", "  // the values"),
    "queries": (USUAL, "}\n__syncthreads();\n\n// Every lane has", "}\n\n// Every lane has"),
    "merge of lanes": (USUAL, "// Lanes, then warps.\n__syncthreads();", "// Lanes, then warps."),
    "merge of warps": (USUAL, "}\n__syncthreads();\n\nconst long long unit", "}\n\nconst long long unit"),
    "merge of splits": (USUAL, "__syncthreads();\n" + MERGE, MERGE),
    "fence": (USUAL, "__threadfence();\n__syncthreads();\n" + MERGE, "__syncthreads();\n" + MERGE),
    "who is last": (USUAL, "}\n__syncthreads();\nif (is_last)", "}\nif (is_last)"),
    "shares": (USUAL, "    __syncwarp();\n    float x[n];", "    float x[n];"),
    "helpers": (USUAL, "      __syncthreads();  // every warp", "      // every warp"),
}  # fmt: skip


@pytest.mark.parametrize("fault", RACES.values(), ids=RACES)
def test_a_missing_barrier_is_a_fault(fault, monkeypatch):
    with pytest.raises(KernelFault) as found:
        planted(monkeypatch, *fault)
    assert found.value.kind in (FaultKind.RACE, FaultKind.UNINITIALIZED)
    assert re.match(r"tensor\w*\.(cu|h)$", found.value.part)
