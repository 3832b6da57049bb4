"""A plan as a TOML file, which ``--kv-quant-scheme @FILE`` reads; everything in it is checked."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

from attrs import fields_dict

from tqcore.errors import PlanError, TqcoreError
from tqcore.layers import Fits, skipped
from tqcore.plan.widths import DENSE, Plan
from tqcore.schemestring import MARK, parse, parts

FORMAT = 1
"""Version of the file; raised when an old reader would misread a new file."""

LARGEST = 1 << 20
"""Bytes of a file; a longer one is no plan."""

MOST_LAYERS = 4096

_OWN = ("layers", "fits")


ABOUT: dict[str, type] = {
    "model": str,
    "text": str,
    "context": float,
    "bytes_per_token": float,
    "bits": float,
    "predicted_kl": float,
    "measured_kl": float,
    "uniform_kl": float,
}
"""What ``[about]`` may hold: it is for people, and changes nothing."""

_TABLES = {
    "format": int,
    "scheme": str,
    "model": dict,
    "widths": dict,
    "about": dict,
}


def load(path: str | Path) -> Plan:
    """Read a plan and check that its scheme stores its widths.

    Args:
        path: of the file, ``~`` expanded.

    Raises:
        PlanError: no such file, no TOML, a key that is missing, unknown or of another type, or
            widths that the scheme does not store.
    """
    file = Path(path).expanduser()
    try:
        with file.open("rb") as stream:
            content = stream.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise PlanError(
            f"plan {str(path)!r} cannot be read: {reason}; `tqcore plan` writes one"
        ) from error
    if len(content) > LARGEST:
        raise PlanError(f"plan {str(path)!r}: more than {LARGEST} bytes are no plan")
    try:
        return loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise PlanError(f"plan {str(path)!r}: not TOML: it is no text in UTF-8") from error
    except PlanError as error:
        raise PlanError(f"plan {str(path)!r}: {error}") from error


def loads(text: str) -> Plan:
    """Read a plan from the text of a file.

    Raises:
        PlanError: as ``load``.
    """
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PlanError(f"not TOML: {error}") from error
    _check_keys(data, _TABLES, "the file", optional=("about",))
    if data["format"] != FORMAT:
        raise PlanError(f"format {data['format']}: this tqcore reads format {FORMAT}")
    plan = Plan(
        scheme=data["scheme"],
        fits=_fits(data["model"]),
        keys=_widths(data["widths"], "keys"),
        values=_widths(data["widths"], "values"),
        about=_about(data.get("about", {})),
    )
    _check(plan)
    return plan


def dumps(plan: Plan) -> str:
    """Return the text of a file that ``loads`` reads back to the same plan."""
    import tomli_w

    model = {name: size for name, size in plan.fits.to_dict().items() if size is not None}
    data: dict[str, Any] = {
        "format": FORMAT,
        "scheme": plan.scheme,
        "model": model,
        "widths": {"keys": _plain(plan.keys), "values": _plain(plan.values)},
    }
    if plan.about:
        data["about"] = dict(plan.about)
    return "# Written by `tqcore plan`; read by --kv-quant-scheme @FILE.\n" + tomli_w.dumps(data)


def _plain(widths: tuple[float, ...]) -> list[float]:
    return [int(width) if width == int(width) else width for width in widths]


def _check_keys(
    data: dict[str, Any], known: dict[str, Any], where: str, optional: tuple[str, ...] = ()
) -> None:
    for key in data:
        if key not in known:
            raise PlanError(f"unknown key {key!r} in {where}; known: {', '.join(known)}")
    for key, kind in known.items():
        if key not in data:
            if key in optional:
                continue
            raise PlanError(f"{where} lacks the key {key!r}")
        kinds = (int, float) if kind is float else kind
        if not isinstance(data[key], kinds) or isinstance(data[key], bool):
            name = {dict: "a table", str: "a string", list: "a list"}.get(kind, "a number")
            raise PlanError(f"{key!r} in {where}: expected {name}, found {_short(data[key])}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _fits(data: dict[str, Any]) -> Fits:
    known = dict.fromkeys(fields_dict(Fits), int)
    _check_keys(data, known, "[model]", optional=("kv_heads", "key_dim", "value_dim"))
    if not all(0 < size <= 1 << 20 for size in data.values()) or data["layers"] > MOST_LAYERS:
        raise PlanError(f"[model]: sizes out of range: {_short(data)}")
    return Fits(**data)


def _widths(data: dict[str, Any], side: str) -> tuple[float, ...]:
    _check_keys(data, {"keys": list, "values": list}, "[widths]")
    for width in data[side]:
        number = isinstance(width, int | float) and not isinstance(width, bool)
        if not number or not (width == DENSE or (math.isfinite(width) and 1 <= width <= 8)):
            raise PlanError(
                f"{side!r} in [widths]: expected bits from 1 to 8, or 16 for dense, "
                f"found {_short(width)}"
            )
    return tuple(float(width) for width in data[side])


def _about(data: dict[str, Any]) -> tuple[tuple[str, str | float], ...]:
    _check_keys(data, ABOUT, "[about]", optional=tuple(ABOUT))
    return tuple(data.items())


def _check(plan: Plan) -> None:
    count = plan.fits.layers
    for side, widths in (("keys", plan.keys), ("values", plan.values)):
        if len(widths) != count:
            raise PlanError(f"[widths]: {len(widths)} {side} for a model of {count} layers")
    try:
        if plan.scheme.strip().startswith(MARK):
            raise PlanError(f"scheme {plan.scheme!r}: a plan names no other plan")
        first, *_ = parts(plan.scheme)
        for option in _OWN:
            if option in parse(first)[1]:
                raise PlanError(f"scheme {plan.scheme!r}: {option} follows from the plan's tables")
        choice = plan.choose()
    except PlanError:
        raise
    except TqcoreError as error:
        raise PlanError(str(error)) from error
    skip = choice.policy.skip
    for layer, both in enumerate(zip(plan.keys, plan.values, strict=True)):
        dense = skipped(skip, layer, count)
        if both.count(DENSE) != 2 * dense:
            must = "stays dense: its widths are 16" if dense else "is packed: its widths are not 16"
            raise PlanError(f"[widths]: with skip={skip}, layer {layer} {must}")
