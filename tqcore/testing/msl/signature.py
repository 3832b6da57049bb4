"""The text that MLX compiles for a kernel: header, signature, source.

A port of what MLX does when a ``mx.fast.metal_kernel`` is called (checked byte for byte against
what MLX prints with ``verbose=True``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from attrs import frozen

TYPES = {
    "bool": "bool",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "float16": "float16_t",
    "float32": "float",
    "bfloat16": "bfloat16_t",
    "complex64": "complex64_t",
}
"""MLX's name of a dtype, and the kernel's."""

ATTRIBUTES = {
    "dispatch_quadgroups_per_threadgroup": "uint",
    "dispatch_simdgroups_per_threadgroup": "uint",
    "dispatch_threads_per_threadgroup": "uint3",
    "grid_origin": "uint3",
    "grid_size": "uint3",
    "quadgroup_index_in_threadgroup": "uint",
    "quadgroups_per_threadgroup": "uint",
    "simdgroup_index_in_threadgroup": "uint",
    "simdgroups_per_threadgroup": "uint",
    "thread_execution_width": "uint",
    "thread_index_in_quadgroup": "uint",
    "thread_index_in_simdgroup": "uint",
    "thread_index_in_threadgroup": "uint",
    "thread_position_in_grid": "uint3",
    "thread_position_in_threadgroup": "uint3",
    "threadgroup_position_in_grid": "uint3",
    "threadgroups_per_grid": "uint3",
    "threads_per_grid": "uint3",
    "threads_per_simdgroup": "uint",
    "threads_per_threadgroup": "uint3",
}
"""Attributes that a source uses by naming them, in MLX's order."""

SMALL = 8
"""Inputs of fewer elements are in the constant address space."""

Template = Sequence[tuple[str, bool | int | str]]
"""Template arguments in order; a type is the name of its dtype."""


@frozen
class Definition:
    """A kernel as it is given to ``mx.fast.metal_kernel``, under the same names."""

    name: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    source: str
    header: str = ""
    ensure_row_contiguous: bool = True
    atomic_outputs: bool = False


@frozen
class Parameter:
    """One parameter of the kernel function.

    Args:
        kind: what is bound to it; ``input``, ``shape``, ``strides`` and ``ndim`` are an input's.
        index: which input or output; of an attribute, 0.
        name: as the source sees it.
        type: element type.
        space: address space; empty for an attribute, which is passed by value.
        reference: a reference, else a pointer.
    """

    kind: Literal["input", "shape", "strides", "ndim", "output", "attribute"]
    index: int
    name: str
    type: str
    space: str = ""
    reference: bool = False


@frozen
class Signature:
    """What MLX makes of a definition and the dtypes and shapes it is called with.

    Args:
        text: all of it, with the explicit instantiation of a template at the end.
        instance: the function to call, with its template arguments.
        parameters: in order.
        header_lines: lines of ``text`` before the signature.
        source_line, source_lines: line of ``text``, from 1, on which the source begins, and how
            many it has.
    """

    text: str
    instance: str
    parameters: tuple[Parameter, ...]
    header_lines: int
    source_line: int
    source_lines: int


def signature(
    kernel: Definition,
    inputs: Sequence[tuple[str, tuple[int, ...]]],
    output_dtypes: Sequence[str],
    template: Template = (),
) -> Signature:
    """Return what MLX compiles for these inputs ``(dtype, shape)`` and template arguments."""
    arguments = "<" + ", ".join(_value(value) for _, value in template) + ">" if template else ""
    name = "custom_kernel_" + kernel.name
    if template:
        name += "__" + arguments[1:-1].replace(", ", "_").replace("-", "_")
    for dtype, shape in inputs:
        name += f"_{TYPES[dtype]}{'' if shape else 's'}"
        name += "c" if shape and math.prod(shape) < SMALL else ""
    name += "".join(f"_{TYPES[dtype]}" for dtype in output_dtypes)

    parameters = _parameters(kernel, inputs, output_dtypes)
    text = kernel.header
    header_lines = text.count("\n")
    if template:
        text += "template <" + ", ".join(f"{_kind(v)} {key}" for key, v in template) + ">\n"
    text += f"[[kernel]] void {name}(\n"
    text += _declarations(parameters, len(inputs) + len(output_dtypes))
    source_line = text.count("\n") + 1
    source_lines = kernel.source.count("\n") + 1
    text += kernel.source + "\n}\n"
    if template:
        text += (
            f'\ntemplate [[host_name("{name}")]] [[kernel]] '
            f"decltype({name}{arguments}) {name}{arguments};\n"
        )
    return Signature(
        text, name + arguments, tuple(parameters), header_lines, source_line, source_lines
    )


def _parameters(
    kernel: Definition,
    inputs: Sequence[tuple[str, tuple[int, ...]]],
    output_dtypes: Sequence[str],
) -> list[Parameter]:
    found = []
    for i, (name, (dtype, shape)) in enumerate(zip(kernel.input_names, inputs, strict=True)):
        space = "constant" if math.prod(shape) < SMALL else "device"
        found.append(Parameter("input", i, name, TYPES[dtype], space, not shape))
        if not shape:
            continue
        # MLX looks for the name anywhere in the source, comments included.
        if f"{name}_shape" in kernel.source:
            found.append(Parameter("shape", i, f"{name}_shape", "int", "constant"))
        if f"{name}_strides" in kernel.source:
            found.append(Parameter("strides", i, f"{name}_strides", "int64_t", "constant"))
        if f"{name}_ndim" in kernel.source:
            found.append(Parameter("ndim", i, f"{name}_ndim", "int", "constant", True))
    for i, (name, dtype) in enumerate(zip(kernel.output_names, output_dtypes, strict=True)):
        kind = f"atomic<{TYPES[dtype]}>" if kernel.atomic_outputs else TYPES[dtype]
        found.append(Parameter("output", i, name, kind, "device"))
    for name, kind in ATTRIBUTES.items():
        if name in kernel.source:
            found.append(Parameter("attribute", 0, name, kind))
    return found


def _declarations(parameters: Sequence[Parameter], arrays: int) -> str:
    text = ""
    attributes = any(parameter.kind == "attribute" for parameter in parameters)
    for i, parameter in enumerate(parameters):
        end = ",\n"
        if parameter.kind == "attribute":
            text += f"  {parameter.type} {parameter.name} [[{parameter.name}]]"
            end = end if parameter is not parameters[-1] else ") {\n"
        else:
            const = "" if parameter.kind == "output" else "const "
            mark = "&" if parameter.reference else "*"
            kind = f"{const}{parameter.space} {parameter.type}{mark}"
            text += f"  {kind} {parameter.name} [[buffer({i})]]"
            # As MLX has it: it forgets that shapes and strides are buffers too, so with several
            # outputs, those and no attribute, it closes the list early and nothing compiles.
            if parameter.kind == "output" and not attributes and i >= arrays - 1:
                end = ") {\n"
        text += end
    return text


def _kind(value: bool | int | str) -> str:
    if isinstance(value, bool):
        return "bool"
    return "int" if isinstance(value, int) else "typename"


def _value(value: bool | int | str) -> str:
    return str(int(value)) if isinstance(value, int) else TYPES[value]
