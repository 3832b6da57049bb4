"""Which scale makes ``s * c`` stand for ``u``, once the levels ``c`` are chosen.

``norm``      s = ||u||             the paper's (TurboQuant, Algorithm 1); shrinks ||u|| on average
``mse``       s = <u, c> / ||c||^2  least squares: the smallest error these levels allow
``unbiased``  s = ||u||^2 / <u, c>  makes <u, s c> = ||u||^2: inner products keep their size

All three store the same bytes. One formula serves numpy and MLX: ``xp`` is the module.
"""

from __future__ import annotations

from typing import Any

from tqcore.errors import OptionError

POLICIES = ("norm", "mse", "unbiased")

TINY = 2.0**-100
"""Vectors whose largest magnitude is below this are zero: their scale could not be stored."""


def check(policy: str) -> str:
    """Return ``policy``.

    Raises:
        OptionError: it is not one of ``POLICIES``.
    """
    if policy not in POLICIES:
        raise OptionError(f"scale={policy!r}: expected one of {', '.join(POLICIES)}")
    return policy


def scale_of(xp: Any, policy: str, length: Any, dot: Any, square: Any) -> Any:
    """Return the scale of each vector.

    Levels that point away from the vector (``dot <= 0``; symmetric tables never do) get what
    is best then: nothing for ``mse``, the plain norm for ``unbiased``.

    Args:
        xp: ``numpy`` or ``mlx.core``.
        policy: one of ``POLICIES``.
        length: ||u||, ``[...]``.
        dot: <u, c> / ||u||, ``[...]``.
        square: ||c||^2, ``[...]``.

    Returns:
        ``[...]`` of the same dtype; infinite where it overflows.
    """
    if policy == "norm":
        return length
    towards = dot > 0
    if policy == "mse":
        return xp.where(towards, length * dot / xp.where(square > 0, square, 1), 0)
    return length / xp.where(towards, dot, 1)
