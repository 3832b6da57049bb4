"""The tensor kernel puts means, gains and sinks back itself, as the formula and the cache do."""

import mlx.core as mx
import numpy as np
import pytest

from tests.kernels import tensor_cpu
from tests.kernels.test_tensor_cpu import edited, named, pairwise, use
from tqcore.attention.mask import SegmentMask
from tqcore.protocols import Around, CompletingKernel
from tqcore.testing.msl.faults import FaultKind, KernelFault
from tqmetal import tensor
from tqmetal.checks import BATCH, Stored, Variant
from tqmetal.checks_around import attended, complete_error, given_of
from tqmetal.tensor import attend_complete
from tqmetal.tensor_kernel import CLOSE, CudaTensorKernel
from tqmetal.variants_around import Surroundings

AXES = {
    "dim": (64, 128),
    "kind": ("lut", "trellis"),
    "bits": ((4, 4), (3, 2), (2, 3), (3.5, 2.5)),
    "rows": ((1, 1), (4, 1), (8, 1), (4, 3), (1, 3), (8, 3)),
    "sinks": (0, 2, 4, 8),
    "gain": (False, True),
    "means": ("none", "keys", "values", "both"),
    "mask": ("none", "causal", "bool", "added"),
    "padded": (False, True),
    "capped": (False, True),
    "dtype": ("float16", "bfloat16", "float32"),
    "sink_dtype": ("float16", "bfloat16", "float32"),
    "tokens": ((7, None), (40, 1), (300, 3), (700, 20)),
}


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    use(monkeypatch, tensor_cpu.kernel)


@pytest.fixture(autouse=True, scope="module")
def forgotten():
    yield
    tensor.program.cache_clear()
    tensor_cpu.kernel.cache_clear()


def asked_of(case):
    """Return the variant, and how many sinks and which dtypes are around it."""
    (gqa, q_len), (tokens, parts) = case["rows"], case["tokens"]
    # Look-up codes of half widths are in two runs: the half widths of this kernel are a trellis's.
    stored = [
        Stored(bits, case["dim"], kind="trellis" if bits % 1 else case["kind"])
        for bits in case["bits"]
    ]
    variant = Variant(
        *stored, case["dtype"], case["mask"], case["padded"], case["capped"], gqa, q_len, tokens,
        parts,
    )  # fmt: skip
    means = (
        case["means"] in ("keys", "both") and not case["capped"],
        case["means"] in ("values", "both"),
    )
    around = Surroundings(case["sinks"], case["gain"], means, dense=case["sink_dtype"])
    return variant, around.sinks, around.dtypes


def error(case, change=None):
    variant, *around = asked_of(case)
    return complete_error(variant, attend_complete, *around, change=change)


@pytest.mark.parametrize("case", pairwise(AXES), ids=named)
def test_attention_is_that_of_the_formula(case):
    assert error(case) < CLOSE


USUAL = {
    "dim": 128, "kind": "lut", "bits": (4, 4), "rows": (4, 1), "sinks": 2, "gain": True, "means": "both",
    "mask": "none", "padded": False, "capped": False, "dtype": "float16", "sink_dtype": "float16",
    "tokens": (300, 3),
}  # fmt: skip
SEVERAL = {**USUAL, "rows": (4, 3)}


def test_means_and_sinks_may_be_strided():
    def strided(given, options):
        around = options["around"]
        views = [mx.contiguous(x.swapaxes(1, 3)).swapaxes(1, 3) for x in around]
        q = mx.contiguous(given[0].swapaxes(1, 3)).swapaxes(1, 3)
        return (q, *given[1:]), {**options, "around": Around(*views)}

    assert error(SEVERAL, strided) < CLOSE


def test_values_far_from_zero_keep_their_differences():
    given, options = given_of(*asked_of({**USUAL, "dtype": "float32", "sinks": 0}))
    around = options["around"]
    plain = attended(attend_complete, given, {**options, "around": Around(around.key_gain)})
    around = around._replace(value_mean=around.value_mean * 1000)
    came = attended(attend_complete, given, {**options, "around": around})
    mean = mx.repeat(around.value_mean.astype(mx.float32), 4, axis=1)
    np.testing.assert_allclose(came, plain + mean, atol=5e-4)


@pytest.mark.parametrize("shift", [-300.0, 300.0])
def test_one_side_may_outweigh_the_other_wholly(shift):
    def moved(given, options):
        around = options["around"]
        q = given[0] * 0 + 1
        mean = mx.full(around.key_mean.shape, shift, mx.bfloat16)
        return (q, *given[1:]), {**options, "around": around._replace(key_mean=mean)}

    assert error(USUAL, moved) < CLOSE


@pytest.mark.parametrize("mean", [False, True])
def test_a_row_that_sees_nothing_gives_zero_and_one_that_sees_only_sinks_gives_theirs(mean):
    case = {**USUAL, "mask": "bool", "tokens": (40, 2), "means": "both" if mean else "none"}
    (q, segment, _), options = given_of(*asked_of(case))
    visible = np.zeros((BATCH, 1, 1, 42), bool)
    visible[1, ..., 1] = True
    mask = SegmentMask("array", 41, array=mx.array(visible)).from_key(2)
    came = attended(attend_complete, (q, segment, mask), options)
    np.testing.assert_array_equal(np.asarray(came[0]), 0)
    sinks = mx.repeat(options["around"].sink_values[1, :, 1:2], 4, axis=0)
    np.testing.assert_allclose(came[1], sinks, rtol=1e-3)


def test_rows_may_be_all_padding_but_for_their_sinks():
    def hidden(given, options):
        q, segment, mask = given
        tokens = segment.keys[0].shape[2]
        return (q, segment, mask.hiding(mx.array([2, 2 + tokens]))), options

    assert error({**USUAL, "padded": True}, hidden) < CLOSE


def planted(monkeypatch, case, old, new, change=None):
    """Return the error of the kernel whose text ``old``, found once in its files, is ``new``."""
    with edited(monkeypatch, old, new):
        return error(case, change)


CAUSAL = {**SEVERAL, "mask": "causal", "padded": True, "tokens": (7, 1)}
BOOL = {**SEVERAL, "mask": "bool", "padded": True, "tokens": (40, 1)}
ADDED = {**BOOL, "mask": "added"}
CAPPED = {**USUAL, "capped": True, "means": "values"}
WRONG = {
    "shift forgotten": (USUAL, "exp2f(most + logits[SINKS] - top)", "exp2f(most - top)"),
    "shift of the wrong scale": (USUAL, "x *= numbers[3 + 2 * D];", "x *= s < SINKS ? numbers[3 + 2 * D] : 1.0f;"),
    "sink counted twice": (USUAL, "    sum += weight;", "    sum += weight + (s ? 0.0f : weight);"),
    "sink left out": (USUAL, "s < SINKS; s++) {\n    const float weight", "s < SINKS - 1; s++) {\n    const float weight"),
    "sinks of another head": (USUAL, "batch * sink_values_strides[0] + head *", "batch * sink_values_strides[0] + (1 - head) *"),
    "sinks of another row": (USUAL, "batch * sink_keys_strides[0] +", "(1 - batch) * sink_keys_strides[0] +"),
    "gain forgotten": (USUAL, "#ifdef KEY_GAIN", "#ifdef NO_GAIN"),
    "gain on the sinks too": (USUAL, "fmaf(asked[i], key(", "fmaf(asked[i] / static_cast<float>(key_gain[(batch * 2 + head) * D + lane * n + i]), key("),
    "mean of the other head": (USUAL, "batch * value_mean_strides[0] + head *", "batch * value_mean_strides[0] + (1 - head) *"),
    "mean added once": (USUAL, "x[i] = fmaf(sum, around_values", "x[i] = fmaf(1.0f, around_values"),
    "mean of the keys left out": (USUAL, "#ifdef KEY_MEAN", "#ifdef NO_MEAN"),
    "nothing put back": (USUAL, "put_around(r, most, sum, x);", ""),
    "query of another row": (SEVERAL, "const int query = row % Q_LEN;", "const int query = 0;"),
    "sinks see the future": (CAUSAL, "x = t <= place[0] + query ? x : -INFINITY;", "x = t < place[0] - 4 + query ? x : -INFINITY;"),
    "sinks without padding": (BOOL, "t += padding[batch];", ""),
    "mask of the packed tokens": (BOOL, "(t + SINKS) * mask_strides[3]];\n        #if MASK == 2\n        seen", "t * mask_strides[3]];\n        #if MASK == 2\n        seen"),
    "mask of the sinks": (ADDED, "x += log2e * static_cast<float>(entry);", ""),
    "sinks without their cap": (CAPPED, "if (CAPPED && s < SINKS)", "if (false)"),
}  # fmt: skip


@pytest.mark.parametrize("fault", WRONG.values(), ids=WRONG)
def test_what_is_wrong_shows(fault, monkeypatch):
    try:
        came = planted(monkeypatch, *fault)
    except KernelFault as found:
        came = {FaultKind.UNDEFINED: np.inf, FaultKind.OUT_OF_BOUNDS: np.inf}[found.kind]
    assert not came < CLOSE


def test_the_kernel_is_probed_once_a_program_and_gives_up_where_it_fails(monkeypatch):
    given, options = given_of(*asked_of(USUAL))
    kernel = CudaTensorKernel()
    assert isinstance(kernel, CompletingKernel)
    for _ in range(2):
        assert kernel.attend_complete(*given, **options) is not None
    assert len(kernel.probes._passed) == 1

    def edit(text):
        return text.replace("    sum += weight;", "")

    use(monkeypatch, lambda variant: tensor_cpu.CpuKernel(variant, edit))
    kernel = CudaTensorKernel()
    assert kernel.attend_complete(*given, **options) is None
    assert "outputs are wrong" in kernel.probes.failure


def test_more_sinks_than_it_holds_are_left_to_others():
    given, options = given_of(*asked_of({**USUAL, "sinks": 9}))
    assert CudaTensorKernel().attend_complete(*given, **options) is None


class Asked:
    """Stands for ``cuda-fused``; says what it was asked for."""

    def attend_finished(self, *given, **options):
        return "finished"

    def attend_complete(self, *given, around, **options):
        return around


def test_what_it_does_not_finish_or_complete_is_for_the_fused_kernel(monkeypatch):
    given, options = given_of(*asked_of({**USUAL, "sinks": 9}))
    kernel = CudaTensorKernel()
    kernel._fused = Asked()
    assert kernel.attend_complete(*given, **options) is options["around"]
    alone = {name: value for name, value in options.items() if name != "around"}
    assert not isinstance(kernel.attend_finished(*given, **alone), str)
    monkeypatch.setattr(tensor, "readable", lambda side: False)
    assert kernel.attend_finished(*given, **alone) == "finished"
    few = options["around"]._replace(sink_keys=None, sink_values=None)
    assert kernel.attend_complete(*given, **alone, around=few) is few
