"""Single-token mistakes planted in two kernels are caught: by a check, or by a wrong result."""

import re

import mlx.core as mx
import numpy as np
import pytest

from tests.msl.helpers import read
from tqcore.select import SideSpec
from tqcore.testing.msl import Emulator, KernelFault
from tqmetal import kernels, probe

MISTAKES = {
    "softmax.metal": [
        (r"lane == 0", "lane <= 1"),
        (r"threadgroup_barrier\(mem_flags::mem_threadgroup\);", ""),
        (r"mem_threadgroup\)", "mem_device)"),
        (r"simd_sum\(|simd_max\(", "("),
        (r" < ", " <= "),
        (r"\+= threads", "+= 1 + threads"),
        (r"total \+=", "total ="),
        (r"-INFINITY", "0.0f"),
        (r"- largest", "+ largest"),
        (r"\[group\]", "[lane]"),
        (r"\[32\]", "[2]"),
        (r"row \* N", "row + N"),
        (r" / total", " * total"),
        (r"const device", "const thread"),
        (r"\[lane\]", "[group]"),
    ],
    "dequantize.metal": [
        (r"words_shape\[2\]", "words_shape[1]"),
        (r" / uint\(LANES\)| % uint\(LANES\)", " + uint(LANES)"),
        (r"i < uint", "i <= uint"),
        # look-up codes have no biases
        (r"(?<!biases)_strides\[0\]", "_strides[1]"),
        (r"(?<!biases)_strides\[2\]", "_strides[0]"),
        (r"words_strides\[3\]", "words_strides[2]"),
        (r"at\.z \* heads", "at.y * heads"),
        (r"\* D;", "* D + 1;"),
        (r"i \+= uint\(LANES\)", "i += 1"),
        (r"BITS, WIDE", "BITS, 0"),
        (r"\* factor", "+ factor"),
    ],
}


def mutants():
    for file, mistakes in MISTAKES.items():
        text = kernels.read(file) if file == "dequantize.metal" else read(file)
        for pattern, replacement in mistakes:
            for number, match in enumerate(re.finditer(pattern, text)):
                if "//" in text[: match.start()].rpartition("\n")[2]:
                    continue
                changed = text[: match.start()] + replacement + text[match.end() :]
                yield pytest.param(file, changed, id=f"{file}-{pattern}-{number}")


def softmax_is_right(text):
    # Softmax forgives a wrong maximum unless exponentials then over- or underflow.
    x = np.random.default_rng(5).standard_normal((3, 300)).astype(np.float32) - 1000
    x[0, 96] = x[1, 193] = -800
    kernel = Emulator(max_steps=100_000).metal_kernel("softmax", ["x"], ["out"], text)
    (out,) = kernel(
        inputs=[x],
        template=[("T", mx.float32), ("N", 300)],
        grid=(3 * 96, 1, 1),
        threadgroup=(96, 1, 1),
        output_shapes=[x.shape],
        output_dtypes=[mx.float32],
    )
    return np.allclose(np.array(out), np.array(mx.softmax(mx.array(x), -1)), rtol=1e-5)


def dequantize_is_right(text, monkeypatch):
    inputs, outputs = kernels.ARRAYS["dequantize"]
    kernel = Emulator(max_steps=100_000).metal_kernel(
        name="tq_dequantize",
        input_names=inputs,
        output_names=outputs,
        source=text,
        header=kernels.header("dequantize", "metal"),
        ensure_row_contiguous=False,
    )
    monkeypatch.setattr(probe, "kernel", lambda name, backend: kernel)
    try:
        probe.probe_dequantize("metal", SideSpec(80, 3.5, "u32le/1", "lut"))
    except RuntimeError as error:
        if isinstance(error, KernelFault):
            raise
        return False
    return True


def is_caught(file, text, monkeypatch):
    try:
        if file == "softmax.metal":
            return not softmax_is_right(text)
        return not dequantize_is_right(text, monkeypatch)
    except KernelFault as fault:
        return bool(fault.line) or fault.kind == "unwritten"


@pytest.mark.parametrize(("file", "text"), list(mutants()))
def test_a_planted_mistake_is_caught(file, text, monkeypatch):
    assert is_caught(file, text, monkeypatch)


def test_the_kernels_themselves_are_right(monkeypatch):
    assert softmax_is_right(read("softmax.metal"))
    assert dequantize_is_right(kernels.read("dequantize.metal"), monkeypatch)
