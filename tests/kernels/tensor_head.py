"""The head of the tensor kernel: the parameters that MLX gives a variant."""

from __future__ import annotations

import mlx.core as mx

from tqcore.protocols import Around
from tqmetal import tensor
from tqmetal.tensor_text import Variant, kernel_text

TYPES = {
    "key_scales": "uint16_t", "value_scales": "uint16_t", "padding": "int32_t",
    "place": "int32_t", "arrived": "int32_t", "parts": "float", "o": "float", "m_out": "float",
    "l_out": "float",
}  # fmt: skip
"""Types of arrays by name; those that are not here are words."""

OF_VARIANT = {"q": "q_dtype", "mask": "mask_dtype", "out": "out_dtype"}
"""Arrays whose dtype a variant tells."""

DTYPES = {
    mx.float16: "__half", mx.bfloat16: "__nv_bfloat16", mx.float32: "float", mx.bool_: "bool",
    mx.int32: "int32_t",
}  # fmt: skip


def parameters(variant: Variant) -> list[tuple[str, str]]:
    """Return type and name of each, in order: the inputs with the shapes and strides read, outputs."""
    body = kernel_text(variant)[2]
    found = []
    for array in variant.inputs:
        found.append((f"const {_type(variant, array)}*", array))
        for suffix, kind in (("_shape", "Shape"), ("_strides", "Strides")):
            if array + suffix in body:
                found.append((f"const __grid_constant__ {kind}", array + suffix))
    outputs = tensor.OUTPUTS[variant.finished]
    return found + [(f"{_type(variant, array)}*", array) for array in outputs]


def _type(variant: Variant, array: str) -> str:
    if array in OF_VARIANT:
        return DTYPES[getattr(variant, OF_VARIANT[array])]
    if array in Around._fields:
        return DTYPES[variant.around.dtypes[Around._fields.index(array)]]
    return TYPES.get(array, "uint32_t")
