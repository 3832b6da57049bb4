"""The function that calls a kernel: for running it, and for the address-space pass."""

from __future__ import annotations

from tqcore.testing.msl.signature import ATTRIBUTES, Parameter, Signature

_DERIVED = {
    "grid_origin": "__msl_make<uint3>(0)",
    "grid_size": "__msl_uint3(t->threads_per_grid)",
    "thread_execution_width": "t->threads_per_simdgroup",
    "thread_index_in_quadgroup": "t->thread_index_in_threadgroup % 4",
    "quadgroup_index_in_threadgroup": "t->thread_index_in_threadgroup / 4",
    "quadgroups_per_threadgroup": "t->simdgroups_per_threadgroup * 8",
    "dispatch_quadgroups_per_threadgroup": "t->dispatch_simdgroups_per_threadgroup * 8",
}


def entry(signature: Signature) -> str:
    """Return the definition of ``msl_entry``, which the runtime calls for every thread."""
    buffers = [p for p in signature.parameters if p.kind != "attribute"]
    arguments = [_buffer(i, parameter) for i, parameter in enumerate(buffers)]
    arguments += [_attribute(p.name) for p in signature.parameters if p.kind == "attribute"]
    return (
        '\n#line 1 "entry"\n'
        'extern "C" void msl_entry(void* const* buffers, const __msl_thread* t) '
        f"{{ {signature.instance}({', '.join(arguments)}); }}\n"
    )


def strict_entry(signature: Signature) -> str:
    """Return a caller whose pointers have their address spaces; it makes clang check a template."""
    declared, arguments = [], []
    for i, parameter in enumerate(signature.parameters):
        pointer = "" if parameter.kind == "attribute" else "*"
        const = "const " if pointer and parameter.kind != "output" else ""
        declared.append(f"{const}{parameter.space} {parameter.type}{pointer} p{i}")
        arguments.append(("*" if parameter.reference else "") + f"p{i}")
    return (
        '\n#line 1 "entry"\n'
        f"void __msl_entry({', '.join(declared)}) "
        f"{{ {signature.instance}({', '.join(arguments)}); }}\n"
    )


def _buffer(index: int, parameter: Parameter) -> str:
    const = "" if parameter.kind == "output" else "const "
    pointer = f"({const}{parameter.type}*)buffers[{index}]"
    return f"*{pointer}" if parameter.reference else pointer


def _attribute(name: str) -> str:
    if name in _DERIVED:
        return _DERIVED[name]
    return f"__msl_uint3(t->{name})" if ATTRIBUTES[name] == "uint3" else f"t->{name}"
