"""Kernel texts are package files, one body for both backends."""

import re

import pytest

from tqmetal import kernels

INCLUDED = sorted(set().union(*kernels.HEADERS.values()))
SHARED = [*(f"{name}.metal" for name in kernels.ARRAYS), *INCLUDED]
NAMES = [*SHARED, "prelude_metal.h", "prelude_cuda.h"]


@pytest.mark.parametrize("name", NAMES)
def test_sources_are_readable_from_the_package(name):
    text = kernels.read(name)
    assert text.startswith("//")
    assert text.isascii()
    assert text.endswith("\n")


@pytest.mark.parametrize("backend", ["metal", "cuda"])
@pytest.mark.parametrize("name", kernels.ARRAYS)
def test_header_is_the_prelude_then_the_shared_functions(name, backend):
    shared = "".join(map(kernels.read, kernels.HEADERS[name]))
    assert kernels.header(name, backend) == kernels.read(f"prelude_{backend}.h") + shared


@pytest.mark.parametrize("name", kernels.ARRAYS)
def test_nothing_is_included_that_is_not_used(name):
    text = kernels.read(f"{name}.metal")
    for included in reversed(kernels.HEADERS[name]):
        source = kernels.read(included)
        defined = re.findall(r"TQ_FN .*?\b(tq_\w+)\(|struct .*(tq_\w+) {|#define (TQ_\w+)", source)
        words = {word for found in defined for word in found if word}
        assert words & set(re.findall(r"\w+", text)), included
        text += source


def test_other_text_has_another_name(monkeypatch):
    names = []
    monkeypatch.setattr(
        kernels.mx.fast, "metal_kernel", lambda **given: names.append(given["name"])
    )
    build, read = kernels.kernel.__wrapped__, kernels.read
    build("merge", "metal")
    build("merge", "metal")
    monkeypatch.setattr(kernels, "read", lambda name: read(name) + "\n")
    build("merge", "metal")
    assert names[0] == names[1] != names[2]


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
