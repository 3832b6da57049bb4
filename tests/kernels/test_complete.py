"""The fused kernels put means, gains and sinks back themselves and normalize, as the formula does."""

import functools

import mlx.core as mx
import numpy as np
import pytest
from attrs import evolve

from tests.kernels import emulated
from tests.kernels.test_tensor_cpu import named, pairwise
from tqcore.attention.mask import SegmentMask
from tqcore.protocols import Around
from tqcore.testing.msl.faults import KernelFault
from tqmetal import variants
from tqmetal.checks import BATCH, Stored, Variant, decode_error
from tqmetal.checks_around import attended, complete_error, given_of
from tqmetal.complete import attend_complete, undoes
from tqmetal.kernels import ARRAYS
from tqmetal.variants_around import (
    MEANS,
    SINKS,
    Surroundings,
    completes,
    every_completion,
    some_completions,
)

CLOSE = 1e-4
AXES = {
    "key": (
        Stored(4, 64),
        Stored(3.5, 128, kind="trellis"),
        Stored(3, 64, kind="trellis", states=8),
        Stored(2.5, 256, kind="pair"),
        Stored(3.5, 64, kind="lut+sign"),
        Stored(4, 80, 32),
        Stored(5, 96),
        Stored(3, 64, rotation="identity"),
    ),
    "value": (
        Stored(3, 32),
        Stored(2.5, 128, kind="trellis"),
        Stored(2, 64, kind="trellis", states=8),
        Stored(3.5, 256, kind="pair"),
        Stored(6, 96, 32),
        Stored(2.25, 40, rotation="identity"),
    ),
    "rows": ((1, 1), (4, 1), (8, 1), (2, 4), (1, 3), (3, 2)),
    "sinks": SINKS,
    "gain": (False, True),
    "means": MEANS,
    "mask": variants.MASKS,
    "padded": (False, True),
    "capped": (False, True),
    "dtype": variants.DTYPES,
    "dense": variants.DTYPES,
    "learnt": ("bfloat16", "float32"),
    "tokens": ((7, None), (40, 1), (140, 2), (300, 7), (70, 60)),
}


@pytest.fixture(scope="module")
def launches():
    return emulated.launches()


def asked_of(case):
    """Return the variant, and what is around it."""
    (gqa, q_len), (tokens, parts) = case["rows"], case["tokens"]
    variant = Variant(
        case["key"], case["value"], case["dtype"], case["mask"], case["padded"], case["capped"],
        gqa, q_len, tokens, parts,
    )  # fmt: skip
    means = (case["means"][0] and not case["capped"], case["means"][1])
    return variant, Surroundings(case["sinks"], case["gain"], means, case["learnt"], case["dense"])


def error(launches, case, change=None):
    """Return the error beyond what rounding to the queries' dtype adds."""
    variant, around = asked_of(case)
    attend = functools.partial(attend_complete, launches)
    came = complete_error(variant, attend, around.sinks, around.dtypes, change=change)
    return came - mx.finfo(getattr(mx, variant.dtype)).eps / 2


@pytest.mark.parametrize("case", pairwise(AXES), ids=named)
def test_attention_is_that_of_the_formula(launches, case):
    assert error(launches, case) < CLOSE


USUAL = {
    "key": Stored(3.5, 128, kind="trellis"), "value": Stored(2.5, 128, kind="trellis"),
    "rows": (4, 1), "sinks": 2, "gain": True, "means": (True, True), "mask": "none",
    "padded": False, "capped": False, "dtype": "float32", "dense": "float16",
    "learnt": "bfloat16", "tokens": (140, 3),
}  # fmt: skip
SEVERAL = {**USUAL, "key": Stored(4, 64), "value": Stored(4, 64), "rows": (4, 3)}


@pytest.mark.parametrize("seed", [1, 2])
def test_threads_may_run_in_any_order(seed):
    assert error(emulated.launches(seed=seed), {**SEVERAL, "tokens": (70, 3)}) < CLOSE


@pytest.mark.parametrize("case", [USUAL, SEVERAL], ids=["trellis", "lut"])
def test_the_tiling_of_cuda_is_right_as_well(case):
    assert error(emulated.launches("cuda"), case) < CLOSE


def test_means_and_sinks_may_be_strided(launches):
    def strided(given, options):
        views = [mx.contiguous(x.swapaxes(1, 3)).swapaxes(1, 3) for x in options["around"]]
        q = mx.contiguous(given[0].swapaxes(1, 3)).swapaxes(1, 3)
        return (q, *given[1:]), {**options, "around": Around(*views)}

    assert error(launches, SEVERAL, strided) < CLOSE


def test_nothing_is_copied_and_nothing_is_read_that_is_not_there():
    calls = []
    usual = emulated.launches()
    spied = evolve(usual, complete=lambda **call: calls.append(call) or usual.complete(**call))
    attend = functools.partial(attend_complete, spied)
    variant, around = asked_of(USUAL)
    given, options = given_of(variant, around.sinks, around.dtypes)
    attended(attend, given, options)
    ids = {id(array) for array in calls[0]["inputs"]}
    assert {id(array) for array in options["around"][1:]} | {id(given[0])} <= ids
    alone = {**options, "around": Around(key_mean=options["around"].key_mean)}
    attended(attend, given, alone)
    assert dict(calls[1]["template"])["KMEAN"] == 0
    assert id(options["around"].key_mean) not in {id(array) for array in calls[1]["inputs"]}


@pytest.mark.parametrize("mask", ["causal", "bool"])
def test_both_kernels_are_given_one_padding_and_place(mask):
    """A row's padding is counted from the segment by MLX: twice would be two launches."""
    calls = []
    usual = emulated.launches()

    def spy(run):
        return lambda **call: calls.append(call["inputs"]) or run(**call)

    spied = evolve(usual, decode=spy(usual.decode), complete=spy(usual.complete))
    case = {**SEVERAL, "mask": mask, "padded": True, "tokens": (40, 1)}
    assert error(spied, case) < CLOSE
    decode, complete = (
        dict(zip(ARRAYS[name][0], inputs, strict=True))
        for name, inputs in zip(("decode", "complete"), calls, strict=True)
    )
    assert decode["padding"] is complete["padding"]
    assert decode["place"] is complete["place"]


def around_given(launches, case):
    attend = functools.partial(attend_complete, launches)
    variant, around = asked_of(case)
    given, options = given_of(variant, around.sinks, around.dtypes)
    return attend, given, options


@pytest.mark.parametrize("sinks", [0, 2])
def test_values_far_from_zero_keep_their_differences(launches, sinks):
    attend, given, options = around_given(launches, {**USUAL, "sinks": sinks})
    around = options["around"]
    if sinks:
        around = around._replace(sink_values=around.sink_values.astype(mx.float32))
    plain = attended(attend, given, {**options, "around": around._replace(value_mean=None)})
    far = around._replace(value_mean=mx.full(around.value_mean.shape, 1000.0))
    if sinks:
        far = far._replace(sink_values=around.sink_values + 1000)
    came = attended(attend, given, {**options, "around": far})
    np.testing.assert_allclose(came, plain + 1000, atol=1e-3)


@pytest.mark.parametrize("shift", [-300.0, 300.0])
def test_one_side_may_outweigh_the_other_wholly(launches, shift):
    def moved(given, options):
        q = given[0] * 0 + 1
        mean = mx.full(options["around"].key_mean.shape, shift, mx.bfloat16)
        around = options["around"]._replace(key_mean=mean)
        return (q, *given[1:]), {**options, "around": around}

    assert error(launches, USUAL, moved) < CLOSE


@pytest.mark.parametrize("mean", [False, True])
def test_a_row_that_sees_nothing_gives_zero_and_one_that_sees_only_sinks_gives_theirs(
    launches, mean
):
    case = {**USUAL, "mask": "bool", "tokens": (40, 2), "means": (mean, mean)}
    attend, (q, segment, _), options = around_given(launches, case)
    visible = np.zeros((BATCH, 1, 1, 42), bool)
    visible[1, ..., 1] = True
    mask = SegmentMask("array", 41, array=mx.array(visible)).from_key(2)
    came = attended(attend, (q, segment, mask), options)
    np.testing.assert_array_equal(np.asarray(came[0]), 0)
    sinks = mx.repeat(options["around"].sink_values[1, :, 1:2], 4, axis=0)
    np.testing.assert_allclose(came[1], sinks, rtol=1e-5)


def test_rows_may_be_all_padding_but_for_their_sinks(launches):
    def hidden(given, options):
        q, segment, mask = given
        tokens = segment.keys[0].shape[2]
        return (q, segment, mask.hiding(mx.array([2, 2 + tokens]))), options

    assert error(launches, {**USUAL, "padded": True}, hidden) < CLOSE


@pytest.mark.parametrize("dtype", variants.DTYPES)
@pytest.mark.parametrize("sign", [-1, 1])
def test_what_the_dtype_cannot_hold_is_its_largest_value(launches, dtype, sign):
    attend, given, options = around_given(launches, {**USUAL, "dtype": dtype})
    largest = mx.finfo(getattr(mx, dtype)).max
    around = options["around"]._replace(value_mean=mx.full((2, 2, 1, 128), sign * 3.4e38))
    came = attended(attend, given, {**options, "around": Around(value_mean=around.value_mean)})
    assert bool((came * sign == largest).all()) or dtype == "float32"
    assert bool(mx.isfinite(came).all())


CAUSAL = {**SEVERAL, "mask": "causal", "padded": True, "tokens": (7, 1)}
BOOL = {**SEVERAL, "mask": "bool", "padded": True, "tokens": (40, 1)}
ADDED = {**BOOL, "mask": "added"}
CAPPED = {**SEVERAL, "capped": True}
ALONE = {**SEVERAL, "sinks": 0}
PLAIN = {**SEVERAL, "sinks": 0, "gain": False, "means": (False, False)}
EIGHT = {**SEVERAL, "sinks": 8, "rows": (1, 1)}
WRONG = {
    "shift forgotten": (SEVERAL, "packed.top + logits[SINKS] - finite", "packed.top - finite"),
    "shift of the wrong scale": (SEVERAL, "x = factors[0] * tq_team_sum<32>(x);", "x = (s < SINKS ? factors[0] : 1.0f) * tq_team_sum<32>(x);"),
    "sink counted twice": (SEVERAL, "sum += weight;", "sum += s ? weight : 2 * weight;"),
    "sink left out": (SEVERAL, "s < SINKS; s++) {\n      const float weight", "s < SINKS - 1; s++) {\n      const float weight"),
    "last sink of many left out": (EIGHT, "s < SINKS; s++) {\n      const float weight", "s < SINKS - 1; s++) {\n      const float weight"),
    "sinks of another head": (SEVERAL, "sink_values_strides[0] + head *", "sink_values_strides[0] + (1 - head) *"),
    "sinks of another row": (SEVERAL, "(batch * sink_keys_strides[0]", "((1 - batch) * sink_keys_strides[0]"),
    "one sink for all": (SEVERAL, "s * sink_keys_strides[2]", "0 * sink_keys_strides[2]"),
    "gain forgotten": (SEVERAL, "if (GAIN)", "if (false)"),
    "gain after the rotation": (SEVERAL, "queries[(r * (n / chunk) + i / chunk) * LANES + lane].x[i % chunk] = x[i];", "queries[(r * (n / chunk) + i / chunk) * LANES + lane].x[i % chunk] = x[i] / (GAIN ? static_cast<float>(gain[(lane * n + i) * gain_stride]) : 1.0f);"),
    "gain of another channel": (SEVERAL, "gain[(lane * n + i)", "gain[(lane * n)"),
    "gain of another head": (SEVERAL, "head * key_gain_strides[1]", "(1 - head) * key_gain_strides[1]"),
    "mean of another head": (SEVERAL, "value_mean_strides[0] + head *", "value_mean_strides[0] + (1 - head) *"),
    "mean added once": (SEVERAL, "kept * x + sum * values[SINKS]", "kept * x + values[SINKS]"),
    "mean of sinks too": (SEVERAL, "kept * x + sum * values[SINKS]", "kept * x + (sum + tq_exp(logits[0] - finite)) * values[SINKS]"),
    "mean left out where there is no sink": (ALONE, "x += sum * values[SINKS];", ""),
    "mean of the keys left out": (SEVERAL, "else if (KMEAN)", "else if (false)"),
    "mean of keys of another head": (SEVERAL, "key_mean_strides[0] + head *", "key_mean_strides[0] + (1 - head) *"),
    "nothing put back": (SEVERAL, "if (SINKS > 0) {\n    float top", "if (false) {\n    float top"),
    "largest sink overlooked": (SEVERAL, "sum *= kept;", ""),
    "query of another position": (SEVERAL, "const int query = int(threadgroup_position_in_grid.x) % q_len;", "const int query = 0;"),
    "query of another head": (SEVERAL, "head * (rows / q_len) +", "head +"),
    "output of another row": (SEVERAL, "threadgroups_per_grid.y + head) * rows + threadgroup_position_in_grid.x", "threadgroups_per_grid.y + head) * rows + rows - 1 - threadgroup_position_in_grid.x"),
    "sinks see the future": (CAUSAL, "x = t <= place[0] + query ? x : -INFINITY;", "x = t < place[0] - 4 + query ? x : -INFINITY;"),
    "sinks without padding": (BOOL, "PADDED ? padding[batch] : 0", "0"),
    "padding of another row": (BOOL, "PADDED ? padding[batch] : 0", "PADDED ? padding[1 - batch] : 0"),
    "mask of the packed tokens": (BOOL, "(t + SINKS) * mask_strides[3]", "t * mask_strides[3]"),
    "mask of the sinks": (ADDED, "x += static_cast<float>(entry);\n        }\n      }\n    }\n", "}\n      }\n    }\n"),
    "bool mask of the sinks": (BOOL, "x = static_cast<float>(entry) != 0.0f ? x : -INFINITY;", ""),
    "sinks without their cap": (CAPPED, "if (CAPPED) {\n        x = factors[1]", "if (false) {\n        x = factors[1]"),
    "not normalized": (PLAIN, "sum > 0.0f ? x / sum", "sum > 0.0f ? x"),
    "not rotated back": (PLAIN, "tq_hadamard<n, 32>(x, uint(lane));", ""),
    "rotated back without signs": (PLAIN, "x[i] *= signs[lane * n + i];\n  }\n}", "x[i] *= 0.125f;\n  }\n}"),
    "one simdgroup's values": (PLAIN, "float x = tq_merged<D, ROTATED ? 1 : SLICES>", "float x = tq_merged<D, SLICES>"),
    "no barrier after the weights": (PLAIN, "row.sum = tq_team_sum<32>(row.sum);\n  TQ_BARRIER;", "row.sum = tq_team_sum<32>(row.sum);"),
    "no barrier after the slices": (PLAIN, "outs[thread_id] = x;\n  TQ_BARRIER;", "outs[thread_id] = x;"),
    "no barrier after the rotation": (PLAIN, "  TQ_BARRIER;\n}\n\nif (thread_id < D)", "}\n\nif (thread_id < D)"),
    "a split left out": (PLAIN, "k < splits ? held[i]", "k + 1 < splits ? held[i]"),
    "a split of another row": (PLAIN, "parts + row * splits * D, tops + row * splits", "parts + row * splits * D, tops + (row ^ 1) * splits"),
    "sum of one lane": (PLAIN, "row.sum = tq_team_sum<32>(row.sum);", ""),
}  # fmt: skip


@pytest.mark.parametrize("fault", WRONG.values(), ids=WRONG)
def test_what_is_wrong_shows(fault):
    case, text, broken = fault
    edited = []

    def edit(source):
        edited.append(text in source)
        return source.replace(text, broken)

    try:
        wrong = not error(emulated.launches(edit=edit), case) < CLOSE
    except KernelFault:
        wrong = True
    assert any(edited)
    assert wrong


def test_without_a_fault_all_of_those_are_right(launches):
    for case in (SEVERAL, CAUSAL, BOOL, ADDED, CAPPED, ALONE, PLAIN, EIGHT):
        assert error(launches, case) < CLOSE


def test_the_variants_hold_every_number_of_sinks_and_what_is_learnt():
    for cases in (list(every_completion()), some_completions()):
        assert {around.sinks for _, around in cases} == set(SINKS)
        assert {around.means for _, around in cases} == set(MEANS)
        assert {around.gain for _, around in cases} == {False, True}
        for variant, around in cases:
            assert undoes(variant.value.codec(1).rotation)
            assert not (variant.capped and around.means[0])
    dims = {
        (variant.value.dim, variant.dtype, around.sinks) for variant, around in every_completion()
    }
    assert len(dims) == len(variants.FULL_DIMS) * 3 * len(SINKS)


def test_what_completes_is_told_from_what_is_stored():
    sides = [*variants.every_side(), Stored(4, 64, rotation="orthogonal"), Stored(4, 16)]
    for stored in sides:
        if stored.kind != "lut+sign":
            assert completes(stored) == undoes(stored.codec(1).rotation), stored


def test_the_merge_by_itself_is_right(launches):
    for parts in (1, 2, 60):
        variant = Variant(Stored(4, 64), Stored(4, 64), tokens=70, parts=parts)
        assert decode_error(variant, launches) < CLOSE
