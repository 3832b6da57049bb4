"""Reading a model's code: can its layers be handed views instead of arrays?

A layer that passes what it fetched from its cache on to the host's attention takes views.
One that multiplies it, or hands it to ``mx``, needs plain arrays. This is read from the
code, since no list of model names stays complete and a failure would come in mid-run.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from tqcore.cache.view import CacheView

ATTENTION = "scaled_dot_product_attention"
EXPANSION = "dequantize_kv_state"
FETCHES = ("update_and_fetch", "keys_and_values")
NEEDS_ARRAYS = "the model computes attention itself and needs plain arrays"
STAYS_DENSE = "%s: the KV cache stays dense: %s"
_EXPANDING = (EXPANSION, "dequantize")
_VIEW_NAMES = frozenset(name for name in dir(CacheView) if not name.startswith("_"))
"""What a view has in common with an array; anything else asked of it needs one."""


def needs_arrays(classes: Iterable[Any], package: str) -> bool:
    """Say whether any of a model's ``classes`` that ``package`` defines needs plain arrays."""
    return any(
        cls.__module__.partition(".")[0] == package and _class_needs_arrays(cls) for cls in classes
    )


@functools.cache
def _class_needs_arrays(cls: Any) -> bool:
    trees = [tree for function in _functions(cls) if (tree := _parse(function)) is not None]
    fetching = [tree for tree in trees if any(_is_fetch(node) for node in ast.walk(tree))]
    if not fetching:
        return False
    if not any(_calls(tree, (ATTENTION, *_EXPANDING)) for tree in trees):
        return True
    return any(_uses_arrays(tree) for tree in fetching)


def _functions(cls: type[Any]) -> Iterator[Any]:
    for parent in cls.__mro__:
        if parent.__module__ == cls.__module__:
            yield from (f for f in vars(parent).values() if inspect.isfunction(f))


def _parse(function: Any) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return None  # no source to read: let it run


def _calls(tree: ast.AST, names: Iterable[str]) -> bool:
    """Whether any of ``names`` is used bare; ``mx.fast`` has one of them as an attribute."""
    return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(tree))


def _is_fetch(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in FETCHES
    )


def _uses_arrays(tree: ast.AST) -> bool:
    """Follow the fetched names down the function, in the order it is written."""
    fetched: set[str] = set()
    return any(_statement(node, fetched) for node in _statements(tree))


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield simple statements; the branch that runs without a cache is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and any(_is_fetch(n) for s in node.body for n in ast.walk(s)):
            yield from _statements(ast.Module(node.body, []))
        elif isinstance(node, (ast.FunctionDef, ast.If, ast.For, ast.While, ast.With, ast.Try)):
            yield from _statements(node)
        elif isinstance(node, ast.stmt):
            yield node


def _statement(node: ast.stmt, fetched: set[str]) -> bool:
    if fetched and any(_needs_array(part, fetched) for part in ast.walk(node)):
        return True
    if isinstance(node, ast.Assign):
        names = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        if any(_is_fetch(n) for n in ast.walk(node.value)):
            fetched |= names
        elif isinstance(node.value, ast.Call) or not _names(node.value) & fetched:
            fetched -= names
        else:
            fetched |= names  # a slice, or another name, of what was fetched
    return False


def _needs_array(node: ast.AST, fetched: set[str]) -> bool:
    if isinstance(node, ast.BinOp):
        return any(_is_one_of(side, fetched) for side in (node.left, node.right))
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id in fetched and node.attr not in _VIEW_NAMES
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in (*FETCHES, *_EXPANDING):
            return False
        given = [*node.args, *(k.value for k in node.keywords)]
        return any(_is_one_of(argument, fetched) for argument in given)
    return False


def _is_one_of(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
