"""No kernel path copies the packed cache: a step reads it where it is."""

import ast
import gc
from importlib.resources import files

import mlx.core as mx
import pytest

from tests.cache.helpers import kv
from tqcore.attention import blocks
from tqcore.cache import QuantizedKVCache

KERNELS = ("metal_kernel", "cuda_kernel")


def launches() -> list[tuple[str, ast.Call]]:
    """Return every call that builds a kernel object, in the package of kernels."""
    found = []
    for path in files("tqmetal").iterdir():
        if path.name.endswith(".py"):
            tree = ast.parse(path.read_text())
            made = {
                target.id
                for node in ast.walk(tree)
                if isinstance(node, ast.Assign) and _names_a_kernel(node.value)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            found += [
                (path.name, node)
                for node in ast.walk(tree)
                if isinstance(node, ast.Call) and _is_kernel(node.func, made)
            ]
    return found


def _names_a_kernel(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in KERNELS for n in ast.walk(node))


def _is_kernel(function: ast.expr, made: set[str]) -> bool:
    named = isinstance(function, ast.Name) and function.id in made
    return named or (isinstance(function, ast.Attribute) and function.attr in KERNELS)


def test_field_case_43_every_kernel_object_takes_strided_planes():
    assert launches()
    for name, call in launches():
        given = {word.arg: word.value for word in call.keywords}
        contiguous = given.get("ensure_row_contiguous")
        assert isinstance(contiguous, ast.Constant), name
        assert contiguous.value is False, name


@pytest.mark.parametrize("scheme", ["turboquant", "uniform"])
def test_field_case_43_a_decode_step_holds_far_less_than_a_copy(scheme, monkeypatch):
    monkeypatch.setattr(blocks, "BUDGET", 2**19)
    cache = QuantizedKVCache(scheme, 4)
    cache.update_and_fetch(*kv(32767, 4, 64))
    mx.eval(cache.state)
    q = mx.random.normal((1, 8, 1, 64), key=mx.random.key(0))
    new = kv(1, 4, 64, seed=1)
    mx.eval(q, *new)
    gc.collect()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval(cache.attend(q, *cache.update_and_fetch(*new), scale=0.125))
    grown = mx.get_peak_memory() - before
    assert cache.nbytes > 7_500_000
    assert grown < cache.nbytes / 4
