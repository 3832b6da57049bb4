"""The compiled functions, built once a process and kept between processes."""

from __future__ import annotations

import functools
import hashlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen

log = logging.getLogger("tqcore.kernels")


@frozen
class Functions:
    """What is called from Python, with a call record and the number of the thread."""

    attend: Callable[[Any, int], None]
    join: Callable[[Any], None]
    encode: Callable[[Any, int], None]


@functools.cache
def functions() -> Functions:
    """Compile, or load from the user's cache folder.

    Raises:
        ImportError: numba is not installed, or not for this numpy.
    """
    import numba

    from tqplugins.kernels_cpu import attention, encode
    from tqplugins.kernels_cpu.calls import ATTEND, ENCODE

    call, worker = numba.from_dtype(ATTEND)[::1], numba.int64
    start = time.perf_counter()
    built = Functions(
        attend=_compile(attention.attend, numba.void(call, worker)),
        join=_compile(attention.join, numba.void(call)),
        encode=_compile(encode.encode, numba.void(numba.from_dtype(ENCODE)[::1], worker)),
    )
    log.info("CPU kernels ready after %.1f s", time.perf_counter() - start)
    return built


@functools.cache
def expander(kind: str) -> int:
    """Return the address of the code that expands vectors of a decode kind.

    Kinds are compiled one by one, when first met.

    Raises:
        ImportError: as ``functions``.
    """
    import numba

    from tqplugins.kernels_cpu import expand_lut, expand_trellis
    from tqplugins.kernels_cpu.calls import SIDE

    expanders = {
        "lut": expand_lut.lut,
        "affine": expand_lut.affine,
        "lut+sign": expand_lut.lut_sign,
        "pair": expand_lut.pair,
        "trellis": expand_trellis.trellis,
    }
    signature = numba.void(numba.from_dtype(SIDE), *[numba.int64] * 7)
    return _address(_compile(expanders[kind], signature))


@functools.cache
def quantizer(kind: str) -> int:
    """Return the address of the code that finds codes, of ``lut``, ``pair`` or ``trellis``.

    Raises:
        ImportError: as ``functions``.
    """
    return _address(quantizers(kind))


@functools.cache
def quantizers(kind: str) -> Any:
    """Return what ``quantizer`` has the address of, to be called from Python."""
    import numba

    from tqplugins.kernels_cpu import quantize_lut, quantize_trellis
    from tqplugins.kernels_cpu.calls import ENCODE

    known = {
        "lut": quantize_lut.lut,
        "pair": quantize_lut.pair,
        "trellis": quantize_trellis.trellis,
    }
    signature = numba.void(numba.from_dtype(ENCODE), *[numba.int64] * 5)
    return _compile(known[kind], signature)


def _address(function: Any) -> int:
    """Return where the code of a compiled function is; the function must be kept alive."""
    (made,) = function.overloads.values()
    address: int = made.library.get_pointer_to_function(made.fndesc.llvm_cfunc_wrapper_name)
    return address


def _compile(function: Any, signature: Any) -> Any:
    """Compile for one signature, or load what an earlier process compiled."""
    from tqplugins.kernels_cpu.kept import keep

    keep(function, digest())
    function.compile(signature)
    function.disable_compile()
    return function


@functools.cache
def digest() -> str:
    """Return a name for the sources: other sources, other compiled code."""
    folder = Path(__file__).parent
    others = ("trellis/layout.py", "pair/search.py", "lut/policy.py", "ufloat16.py")
    sources = [*sorted(folder.glob("*.py")), *(folder.parent / name for name in others)]
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
