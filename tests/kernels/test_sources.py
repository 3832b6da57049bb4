"""Kernel texts are package files, one body for both backends."""

import re

import pytest

from tqmetal import kernels

NAMES = ["dequantize.metal", "u32le.h", "prelude_metal.h", "prelude_cuda.h"]


@pytest.mark.parametrize("name", NAMES)
def test_sources_are_readable_from_the_package(name):
    text = kernels.read(name)
    assert text.startswith("//")
    assert text.isascii()
    assert text.endswith("\n")


@pytest.mark.parametrize("backend", ["metal", "cuda"])
def test_header_is_the_prelude_then_the_shared_functions(backend):
    assert kernels.header(backend) == kernels.read(f"prelude_{backend}.h") + kernels.read("u32le.h")
    assert "TQ_FN" in kernels.read(f"prelude_{backend}.h")


def test_cuda_never_redefines_the_word_device():
    assert not re.search(r"^\s*#\s*define\s+device\b", kernels.read("prelude_cuda.h"), re.M)


def test_shared_text_names_no_address_space():
    for name in ("dequantize.metal", "u32le.h"):
        code = re.sub(r"//.*", "", kernels.read(name))
        assert not re.search(r"\b(device|constant|thread|threadgroup)\b", code), name


def test_kernel_objects_are_built_once():
    assert kernels.dequantize("metal") is kernels.dequantize("metal")
