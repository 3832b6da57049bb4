"""Which kernel serves a request, and why the others do not.

A kernel declares what it refuses as a list of reasons. ``auto`` takes the kernel of
highest priority that refuses nothing; a kernel that the user named must serve or raise.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from tqcore.errors import KernelError, PluginError, UnknownNameError
from tqcore.protocols import (
    CompletingKernel,
    EncodingKernel,
    FinishingKernel,
    RotatingKernel,
    ScoreKernel,
)
from tqcore.registry import registry

if TYPE_CHECKING:
    from tqcore.codec import Codec

KERNEL_VARIABLE = "TQCORE_KERNEL"
"""Names the one kernel to use; it must serve or the run stops."""

FAULT = "failed"
"""A reason that begins so tells of a fault here, not of a limit: ``tqcore doctor`` counts it."""

log = logging.getLogger("tqcore.kernels")


@frozen(cache_hash=True)
class SideSpec:
    """What a kernel must read on one side: keys or values."""

    dim: int
    bits: float
    layout: str
    decode_kind: str


@frozen(cache_hash=True)
class KernelRequest:
    """One shape of attention call, as far as a kernel may care.

    Args:
        device: ``cpu``, ``metal`` or ``cuda``.
        dtype: of the queries, ``float16``, ``bfloat16`` or ``float32``.
        key, value: what the packed sides look like.
        q_len: queries a row, 1 in decode.
        gqa: query heads a key/value head.
        mask: ``none``, ``causal`` or ``array``.
        softcap: whether logits are soft-capped.
        batch: rows.
    """

    device: str
    dtype: str
    key: SideSpec
    value: SideSpec
    q_len: int = 1
    gqa: int = 1
    mask: str = "none"
    softcap: bool = False
    batch: int = 1


@frozen
class EncodeRequest:
    """One kind of encoding call.

    Args:
        device: ``cpu``, ``metal`` or ``cuda``.
        dtype: of what is encoded, ``float16``, ``bfloat16`` or ``float32``.
        key, value: the codecs whose bytes are wanted.
    """

    device: str
    dtype: str
    key: Codec
    value: Codec


@frozen
class Choice:
    """The kernel that serves, and every one that does not with its reasons."""

    kernel: ScoreKernel
    rejected: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @functools.cached_property
    def rotates(self) -> bool:
        """Whether the kernel takes queries that are not rotated yet; asked at every step."""
        return isinstance(self.kernel, RotatingKernel)

    @functools.cached_property
    def finishes(self) -> bool:
        """Whether the kernel normalizes where its segment is all there is; asked as often."""
        return isinstance(self.kernel, FinishingKernel)

    @functools.cached_property
    def completes(self) -> bool:
        """Whether the kernel puts back what a cache has around its segment; asked as often."""
        return isinstance(self.kernel, CompletingKernel)


@frozen
class Encoder:
    """The kernel that encodes, or None where the codecs do; and why the others do not."""

    kernel: EncodingKernel | None
    rejected: tuple[tuple[str, tuple[str, ...]], ...] = ()


def select(kernels: Sequence[ScoreKernel], request: KernelRequest, prefer: str = "auto") -> Choice:
    """Choose a kernel for ``request``.

    Raises:
        UnknownNameError: ``prefer`` names no kernel.
        KernelError: the preferred kernel refuses, or every kernel does; with all reasons.
    """
    rejected: list[tuple[str, tuple[str, ...]]] = []
    for kernel in _considered(kernels, prefer):
        reasons = reasons_of(kernel.refuses, request)
        if not reasons:
            return Choice(kernel, tuple(rejected))
        rejected.append((kernel.name, tuple(reasons)))
    listed = "; ".join(f"{name}: {', '.join(reasons)}" for name, reasons in rejected)
    asked = "no kernel serves this" if prefer == "auto" else f"kernel {prefer!r} refuses this"
    raise KernelError(
        f"{asked}: {listed or 'no kernel is registered'}. `tqcore explain SCHEME` shows what "
        f"serves; unset {KERNEL_VARIABLE} to let one be chosen"
    )


def select_encoder(
    kernels: Sequence[ScoreKernel], request: EncodeRequest, prefer: str = "auto"
) -> Encoder:
    """Choose what encodes ``request``: kernels are asked as for attention, the codecs last.

    A preferred kernel that does not encode leaves it to the codecs: the bytes are theirs anyway.

    Raises:
        UnknownNameError: ``prefer`` names no kernel.
    """
    rejected: list[tuple[str, tuple[str, ...]]] = []
    for kernel in _considered(kernels, prefer):
        if not isinstance(kernel, EncodingKernel):
            continue
        reasons = reasons_of(kernel.refuses_encode, request)
        if not reasons:
            return Encoder(kernel, tuple(rejected))
        rejected.append((kernel.name, tuple(reasons)))
    return Encoder(None, tuple(rejected))


def _considered(kernels: Sequence[ScoreKernel], prefer: str) -> list[ScoreKernel]:
    """Return the kernels to ask, best first; the preferred one alone."""
    ordered = sorted(kernels, key=lambda kernel: (-kernel.priority, kernel.name))
    if prefer == "auto":
        return ordered
    named = [kernel for kernel in ordered if kernel.name == prefer]
    if not named:
        raise UnknownNameError("score kernel", prefer, [k.name for k in kernels])
    return named


def reasons_of(
    refuses: Callable[..., list[str]], request: KernelRequest | EncodeRequest
) -> list[str]:
    """Return the reasons of a kernel's ``refuses`` or ``refuses_encode``, whatever it raises."""
    try:
        return list(refuses(request))
    except Exception as error:  # a stranger's kernel must not stop the others
        return [f"{FAULT}: its {refuses.__name__}() raised {type(error).__name__}: {error}"]


def _problem(kernel: object) -> str | None:
    for name, kind in (("name", str), ("priority", int)):
        if not isinstance(getattr(kernel, name, None), kind):
            return f"has no {name} ({kind.__name__})"
    missing = [n for n in ("refuses", "attend") if not callable(getattr(kernel, n, None))]
    return f"has no method {missing[0]}" if missing else None


def kernels() -> tuple[ScoreKernel, ...]:
    """Return one instance of every registered kernel that can be built."""
    return _built()[0]


def unavailable() -> dict[str, str]:
    """Return the registered kernels that cannot be built, and why."""
    return dict(_built()[1])


@functools.cache
def _built() -> tuple[tuple[ScoreKernel, ...], dict[str, str]]:
    built, failures = [], {}
    for name in registry().names("score_kernel"):
        try:
            kernel = registry().build("score_kernel", name)
            if problem := _problem(kernel):
                raise PluginError(f"score kernel {name!r} {problem}")
            built.append(kernel)
        except Exception as error:  # a kernel's own dependency may be missing
            log.warning("score kernel %s is not available: %s", name, error)
            failures[name] = f"{type(error).__name__}: {error}"
    return tuple(built), failures


def check_preferred() -> None:
    """Check that ``TQCORE_KERNEL`` names a registered kernel; imports none.

    Raises:
        UnknownNameError: it does not.
    """
    if (name := _preferred()) != "auto":
        registry().component("score_kernel", name)


def kernel_for(request: KernelRequest, prefer: str | None = None) -> Choice:
    """Choose among the installed kernels, once a request; rejections are logged once.

    ``prefer`` defaults to ``TQCORE_KERNEL``, else ``auto``.
    """
    return _kernel_for(request, prefer or _preferred())


def encoder_for(request: EncodeRequest, prefer: str | None = None) -> Encoder:
    """Choose what encodes among the installed kernels, as ``kernel_for`` does for attention."""
    return _encoder_for(request, prefer or _preferred())


def _preferred() -> str:
    return os.environ.get(KERNEL_VARIABLE) or "auto"


@functools.lru_cache(maxsize=1024)
def _kernel_for(request: KernelRequest, prefer: str) -> Choice:
    choice = select(kernels(), request, prefer)
    _log(choice.rejected, choice.kernel.name)
    return choice


def _log(rejected: tuple[tuple[str, tuple[str, ...]], ...], taken: str) -> None:
    for name, reasons in rejected:
        log.info("kernel %s passed over for %s: %s", name, taken, ", ".join(reasons))


@functools.lru_cache(maxsize=256)
def _encoder_for(request: EncodeRequest, prefer: str) -> Encoder:
    encoder = select_encoder(kernels(), request, prefer)
    taken = encoder.kernel.name if encoder.kernel else "the codec"
    _log(encoder.rejected, f"{taken}'s encoding")
    return encoder
