"""Every error has its cause and remedy in docs/errors.md, and the messages shown there are ours."""

from __future__ import annotations

import re
from types import SimpleNamespace

import mlx.core as mx
import pytest

from tests.docs.pages import ROOT
from tqcore import QuantizedKVCache, enable, errors
from tqcore.registry import Registry
from tqcore.report.corpus import Corpus
from tqcore.schemestring import choose
from tqcore.select import KernelRequest, SideSpec, kernel_for
from tqcore.spec import CodecSpec, SchemeInfo

PAGE = (ROOT / "docs/errors.md").read_text()
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
SOURCES = [
    path.read_text()
    for folder in ("tqcore", "plugins", "metal_kernels")
    for path in (ROOT / folder).rglob("*.py")
]


def ours() -> set[str]:
    """Return the names of all classes of errors that derive from ours, wherever they are."""
    found = {"TqcoreError"}
    while True:
        bases = "|".join(found)
        pattern = rf"^class (\w+)\([^)]*\b(?:{bases})\b[^)]*\):"
        more = {n for text in SOURCES for n in re.findall(pattern, text, re.MULTILINE)} | found
        if more == found:
            return found
        found = more


CORE = [n for n, v in vars(errors).items() if isinstance(v, type) and issubclass(v, Exception)]


def test_the_scan_finds_what_the_core_has_and_more():
    assert set(CORE) < ours()


@pytest.mark.parametrize("name", sorted(ours()))
def test_every_error_is_on_the_page(name):
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("name", CORE)
def test_every_error_of_the_core_is_ours_and_has_its_row_and_section(name):
    error = getattr(errors, name)
    assert issubclass(error, errors.TqcoreError)
    assert error.__doc__
    assert f"| `{name}` |" in PAGE
    assert name == "TqcoreError" or name in SECTIONS


def declares(**hooks: object) -> SimpleNamespace:
    return SimpleNamespace(**hooks)


def duplicate() -> None:
    known = Registry([])
    mine = declares(tqcore_schemes=lambda: [SchemeInfo("mine", "a:b")])
    again = declares(tqcore_schemes=lambda: [SchemeInfo("mine", "c:d")])
    known.register(mine, "one", "package-one 1.0")
    known.register(again, "two", "package-two 2.0")


def kernel() -> None:
    side = SideSpec(128, 4, "u32le/1", "lut")
    kernel_for(KernelRequest("cpu", "float32", side, side), "metal-fused")


def shape() -> None:
    x = mx.zeros((1, 2, 3))
    QuantizedKVCache("turboquant", 4).update_and_fetch(x, x)


RAISED = {
    "UnknownNameError": lambda: choose("turbquant"),
    "DuplicateNameError": duplicate,
    "PluginError": lambda: Registry([]).register(declares(tqcore_rotation=list), "three"),
    "SpecError": lambda: CodecSpec.from_dict(
        {"rotation": None, "codebook": "c", "packer": "p", "bits": 4}
    ),
    "OptionError": lambda: choose("turboquant:seed=x"),
    "PlanError": lambda: choose("@nowhere.toml"),
    "WidthError": lambda: choose("uniform", 4.2),
    "ShapeError": shape,
    "KernelError": kernel,
    "HostError": lambda: enable(object()),
    "StateError": lambda: QuantizedKVCache("turboquant", 4).trim(-3),
    "Measuring": lambda: Corpus("book.txt", "", [1, 2, 3], ()).starts(1024, 1),
}


def test_every_section_shows_a_message():
    assert set(RAISED) == set(SECTIONS)


@pytest.mark.parametrize("section", SECTIONS)
def test_the_message_of_a_section_is_what_is_said(section):
    (shown,) = re.findall(r"^    tqcore: (.*)$", SECTIONS[section], re.MULTILINE)
    with pytest.raises(errors.TqcoreError) as got:
        RAISED[section]()
    if section != "Measuring":
        assert type(got.value).__name__ == section
    said = str(got.value)
    assert said.startswith(shown[:-1]) if shown.endswith("…") else said == shown
