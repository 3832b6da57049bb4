"""Codes moved apart inside a word, and calls of compiled functions by address."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.extending import intrinsic

from tqplugins.kernels_cpu.simd import inlined

DEPOSITS = bool(llvm.get_host_cpu_features().get("bmi2")) and (
    llvm.get_host_cpu_name() not in ("znver1", "znver2")  # there it takes hundreds of cycles
)
"""Whether the processor scatters the bits of a word fast."""

_I64, _POINTER = ir.IntType(64), ir.IntType(8).as_pointer()


def _deposit(typing: Any, bits: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        if not DEPOSITS:
            return values[0]
        name, kind = "llvm.x86.bmi.pdep.64", ir.FunctionType(_I64, [_I64, _I64])
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        return builder.call(function, values)

    return types.uint64(bits, mask), generate


_deposited: Any = intrinsic(_deposit)


@inlined
def to_bytes(codes: Any, width: int, at: int) -> Any:
    """Return eight codes of ``width`` bits, one in each byte of a uint64, from bit ``at`` on."""
    if DEPOSITS:
        return _deposited(codes, np.uint64((((1 << width) - 1) << at) * 0x0101010101010101))
    for fields in (4, 2, 1):
        # Halves move apart, then quarters, then single codes.
        bits, step = np.uint64(fields * width), np.uint64(fields * (8 - width))
        here, low = np.uint64(0), np.uint64((1 << (fields * width)) - 1)
        for first in range(0, 64, 16 * fields):
            pair = codes >> np.uint64(first)
            here |= (pair & low | ((pair >> bits) & low) << (bits + step)) << np.uint64(first)
        codes = here
    return codes << np.uint64(at)


def _by_address(returned: Any, *given: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        record, address, *rest = values
        kind = ir.FunctionType(_POINTER, [_POINTER, *[_I64] * len(rest)])
        callee = builder.inttoptr(address, kind.as_pointer())
        builder.call(callee, [builder.bitcast(record, _POINTER), *rest])
        return context.get_dummy_value()

    return returned(*given), generate


def _expand(
    typing: Any, side: Any, function: Any, b: Any, h: Any, t: Any, n: Any, levels: Any,
    stride: Any, scales: Any,
) -> Any:  # fmt: skip
    return _by_address(types.void, side, function, b, h, t, n, levels, stride, scales)


def _quantize(
    typing: Any, c: Any, function: Any, x: Any, n: Any, codes: Any, fits: Any, spare: Any
) -> Any:
    return _by_address(types.void, c, function, x, n, codes, fits, spare)


expand: Any = intrinsic(_expand)
"""Call an expander (``expand.py``) at an address: with its record, and integers."""

quantize: Any = intrinsic(_quantize)
"""Call a quantizer (``encode.py``) at an address: with its record, and integers."""
