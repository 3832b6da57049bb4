"""Where mlx-vlm itself makes its TurboQuant caches or asks for them, read from its code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import mlx_vlm

CLASSES = ("TurboQuantKVCache", "BatchTurboQuantKVCache", "HybridQuantKVCache")
HOME = "turboquant"
"""mlx-vlm's own module of these classes, which ours never enter."""

REPLACED = "ours in its place after `install()`"
UNREACHED = "called with a configuration that `install()` keeps to itself: never reached"

MAKING: dict[str, str] = {
    "generate.common:maybe_quantize_kv_cache.hybridize": REPLACED,
    "generate.common:maybe_quantize_kv_cache.quantize_entry": REPLACED,
    "generate.ar:_make_cache._make_quant_cache": REPLACED,
    "apc:_fill_stream_layer_cache": UNREACHED,
    "apc:_fill_batch_layer_cache": UNREACHED,
    "apc:_empty_quant_batch_cache": UNREACHED,
}
"""What becomes of each place that makes one."""

ASKING: dict[str, str] = {
    "generate.common:maybe_quantize_kv_cache.hybridize": REPLACED,
    "generate.common:maybe_quantize_kv_cache.quantize_entry": REPLACED,
    "models.base:scaled_dot_product_attention": "ours are instances, and attend themselves",
    "models.base:_turboquant_attention_applies": "ours are no batch of this kind: yes for both",
    "models.glm4_moe_lite.language:Glm4MoeLiteAttention.__call__": "ours are instances, and expand",
}
"""What our classes answer at each `isinstance`."""


def found(kind: str) -> set[str]:
    """Return ``module:function`` of every call (``making``) or ``isinstance`` (``asking``)."""
    root = Path(mlx_vlm.__file__).parent
    sites = set()
    for path in root.rglob("*.py"):
        text = path.read_text()
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        if module != HOME and "tests" not in path.parts and any(c in text for c in CLASSES):
            sites |= {f"{module}:{at}" for at in _sites(ast.parse(text), kind, ())}
    return sites


def _sites(node: ast.AST, kind: str, inside: tuple[str, ...]) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        inside = (*inside, node.name)
    if isinstance(node, ast.Call) and (_makes(node) if kind == "making" else _asks(node)):
        yield ".".join(inside)
    for child in ast.iter_child_nodes(node):
        yield from _sites(child, kind, inside)


def _makes(call: ast.Call) -> bool:
    called = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    return isinstance(called, ast.Name) and called.id in CLASSES


def _asks(call: ast.Call) -> bool:
    asked = isinstance(call.func, ast.Name) and call.func.id in ("isinstance", "issubclass")
    return asked and any(isinstance(n, ast.Name) and n.id in CLASSES for n in ast.walk(call))
