"""Patches: applied once, shared by holders, undone in full, careful with strangers."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tqcore.adapters.attention import model_patches
from tqcore.adapters.patches import Patch, PatchSet

NAME = "a_host_for_patch_tests"


@pytest.fixture
def module() -> Iterator[Any]:
    made: Any = ModuleType(NAME)
    made.first = made.second = lambda: "theirs"
    sys.modules[NAME] = made
    yield made
    del sys.modules[NAME]


def ours(previous: Callable[[], str]) -> Callable[[], str]:
    return lambda: f"ours, then {previous()}"


def test_one_function_under_two_names_is_replaced_once_and_restored(module: Any) -> None:
    theirs = module.first
    patches = PatchSet([Patch(NAME, "first", ours), Patch(NAME, "second", ours)])
    patches.acquire("a")
    patches.acquire("a")
    assert module.first is module.second
    assert module.first() == "ours, then theirs"
    patches.release("a")
    assert module.first is module.second is theirs
    assert not patches.active


def test_patches_stay_while_anyone_holds_them(module: Any) -> None:
    patches = PatchSet([Patch(NAME, "first", ours)])
    patches.acquire("a")
    patches.acquire("b")
    patches.release("a")
    patches.release("stranger")
    assert module.first() == "ours, then theirs"
    patches.release("b")
    assert module.first() == "theirs"


def test_a_name_that_bound_our_replacement_gets_the_original_back(module: Any) -> None:
    theirs = module.first
    patches = PatchSet([Patch(NAME, "first", ours)])
    patches.acquire("a")
    module.late = module.first
    patches.add([Patch(NAME, "late", ours)])
    assert module.late() == "ours, then theirs"
    patches.release("a")
    assert module.late is theirs


def test_a_stranger_on_top_of_us_is_left_alone(module: Any) -> None:
    patches = PatchSet([Patch(NAME, "first", ours)])
    patches.acquire("a")
    between = module.first
    module.first = lambda: f"stranger, {between()}"
    patches.release("a")
    assert module.first() == "stranger, ours, then theirs"


@pytest.mark.parametrize("bound_before", [False, True])
def test_a_model_file_is_reached_whenever_it_was_imported(module: Any, bound_before: bool) -> None:
    """Two models are loaded, then both enabled: the second's file binds the unpatched function."""

    def scaled_dot_product_attention() -> str:
        return "the host's own"

    name = scaled_dot_product_attention.__name__
    module.scaled_dot_product_attention = scaled_dot_product_attention
    file: Any = ModuleType(f"{NAME}_file")
    file.scaled_dot_product_attention = scaled_dot_product_attention
    wrapped = functools.wraps(scaled_dot_product_attention)(lambda: "ours")
    module.scaled_dot_product_attention = wrapped
    if not bound_before:
        file.scaled_dot_product_attention = wrapped
    layer = type("Layer", (), {"__module__": file.__name__})()
    model: Any = SimpleNamespace(modules=lambda: [layer])
    sys.modules[file.__name__] = file
    try:
        found = model_patches(model, NAME)
    finally:
        del sys.modules[file.__name__]
    assert [(patch.module, patch.attribute) for patch in found] == [(file.__name__, name)]
