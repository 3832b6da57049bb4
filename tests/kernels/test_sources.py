"""Kernel texts are package files, one body for both backends."""

import re

import pytest

from tqmetal import kernels

SHARED = [*(f"{name}.metal" for name in kernels.ARRAYS), *kernels.HEADERS]
NAMES = [*SHARED, "prelude_metal.h", "prelude_cuda.h"]


@pytest.mark.parametrize("name", NAMES)
def test_sources_are_readable_from_the_package(name):
    text = kernels.read(name)
    assert text.startswith("//")
    assert text.isascii()
    assert text.endswith("\n")


@pytest.mark.parametrize("backend", ["metal", "cuda"])
def test_header_is_the_prelude_then_the_shared_functions(backend):
    shared = "".join(map(kernels.read, kernels.HEADERS))
    assert kernels.header(backend) == kernels.read(f"prelude_{backend}.h") + shared


def test_both_preludes_define_the_same_words():
    words = [
        set(re.findall(r"\bTQ_[A-Z]+\b|\btq_[a-z]+(?=\()", kernels.read(f"prelude_{b}.h")))
        for b in ("metal", "cuda")
    ]
    assert words[0] == words[1]


def test_cuda_never_redefines_the_word_device():
    assert not re.search(r"^\s*#\s*define\s+device\b", kernels.read("prelude_cuda.h"), re.M)


def test_shared_text_names_no_address_space():
    for name in SHARED:
        code = re.sub(r"//.*", "", kernels.read(name))
        assert not re.search(r"\b(device|constant|thread|threadgroup)\b", code), name


def test_kernel_objects_are_built_once():
    assert kernels.kernel("decode", "metal") is kernels.kernel("decode", "metal")
