"""Masks that differ from query head to query head, for packed tokens and for sinks alike."""

import mlx.core as mx
import pytest
from attrs import evolve

from tests.kernels import emulated, tensor_cpu, test_complete, test_tensor_around
from tests.kernels.test_tensor_cpu import use
from tqmetal import tensor
from tqmetal.tensor_kernel import CLOSE


@pytest.fixture(autouse=True, scope="module")
def forgotten():
    yield
    tensor.program.cache_clear()
    tensor_cpu.kernel.cache_clear()


def one_a_head(given, options):
    q, segment, mask = given
    shape = (*q.shape[:3], mask.k_start + segment.keys[0].shape[2])
    visible = mx.random.uniform(shape=shape, key=mx.random.key(9)) < 0.5
    turned = mx.contiguous(visible.swapaxes(2, 3)).swapaxes(2, 3)  # its keys are far apart
    return (q, segment, evolve(mask, kind="array", array=turned)), options


def fused_error(monkeypatch, old="", new=""):
    launches = emulated.launches(edit=lambda text: text.replace(old, new) if old else text)
    return test_complete.error(launches, test_complete.SEVERAL, one_a_head)


def tensor_error(monkeypatch, old="", new=""):
    case = test_tensor_around.SEVERAL
    if old:
        return test_tensor_around.planted(monkeypatch, case, old, new, one_a_head)
    use(monkeypatch, tensor_cpu.kernel)
    return test_tensor_around.error(case, one_a_head)


def test_the_fused_kernels_read_it(monkeypatch):
    assert fused_error(monkeypatch) < test_complete.CLOSE


def test_the_tensor_kernel_reads_it(monkeypatch):
    assert tensor_error(monkeypatch) < CLOSE


OF_HEAD = "q_head * mask_strides[1]"
WRONG = {
    "fused, tokens": (fused_error, "gqa + row / q_len) * mask_strides[1]", "gqa) * mask_strides[1]"),
    "fused, sinks": (fused_error, OF_HEAD, "0 * mask_strides[1]"),
    "fused, strides of tokens": (fused_error, "at * mask_strides[3]", "at"),
    "fused, strides of sinks": (fused_error, "(t + SINKS) * mask_strides[3]", "(t + SINKS)"),
    "tensor, tokens": (tensor_error, "GQA + row / Q_LEN) * mask_strides[1]", "GQA) * mask_strides[1]"),
    "tensor, sinks": (tensor_error, OF_HEAD, "0 * mask_strides[1]"),
}  # fmt: skip


@pytest.mark.parametrize("fault", WRONG.values(), ids=WRONG)
def test_what_another_head_or_key_sees_shows(fault, monkeypatch):
    error, old, new = fault
    assert not error(monkeypatch, old, new) < CLOSE
