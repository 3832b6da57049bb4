"""The doctor's calls on the fused Metal kernel, which runs on the emulator here."""

from __future__ import annotations

import mlx.core as mx
import pytest
from attrs import evolve

from tests.kernels import emulated
from tqcore.doctor import sample
from tqcore.doctor.calls import Call, calls
from tqcore.doctor.check import check_attend, check_encode
from tqcore.registry import registry
from tqmetal import decode, fused, probe

SCHEMES = [evolve(registry().scheme("turboquant"), widths=(3, 4)), registry().scheme("uniform")]
OTHERS = [
    evolve(registry().scheme("pair"), widths=(3,)),
    evolve(registry().scheme("trellis"), widths=(3,)),
    evolve(registry().scheme("turboquant-prod"), widths=(4,)),
]
CALLS = [
    evolve(call, tokens=max(40, call.q_len))
    for call in (
        *calls(SCHEMES)[:7],
        *(call for call in calls(OTHERS) if call.q_len * call.gqa <= 16),
    )
]


def emulate(monkeypatch, edit=lambda text: text):
    for module in (fused, probe):
        monkeypatch.setattr(module, "kernel", lambda name, _: emulated.kernel(name, edit=edit))
        monkeypatch.setattr(
            decode, "launches", lambda backend: emulated.launches(backend, edit=edit)
        )
    monkeypatch.setattr(probe, "launches", decode.launches)
    monkeypatch.setattr(sample, "device_kind", lambda: "metal")


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.text)
def test_the_fused_kernel_is_right_or_says_why_not(monkeypatch, call: Call):
    emulate(monkeypatch)
    kernel, given = fused.MetalFusedKernel(), sample.sample_of(call)
    verdict = check_attend(kernel, given)
    if call.q_len > fused.LONGEST:
        assert verdict.outcome == "refused"
    else:
        assert verdict.outcome == "right", verdict
        # It rounds outputs to the queries' dtype where it finishes them.
        assert verdict.error < 1e-4 + mx.finfo(given.q.dtype).eps / 2
    encoded = check_encode(kernel, given)
    assert encoded.outcome == (
        "right" if call.scheme.name in ("turboquant", "trellis") else "refused"
    ), encoded


def test_a_fault_of_the_kernels_text_fails_its_probe(monkeypatch):
    emulate(monkeypatch, lambda text: text.replace("o[r][i] *= kept[r]", "o[r][i] *= 1.0f"))
    verdict = check_attend(fused.MetalFusedKernel(), sample.sample_of(CALLS[0]))
    assert verdict.outcome == "failed"
    assert verdict.reasons[0].startswith("failed its probe")
