"""mlx-vlm's server: its settings take any registered scheme, or say why not.

What the server is told at its start and what ``PATCH /v1/settings`` changes reach the batch
generator as flags, which ``install`` makes it take. Here they are checked before they are
stored, since a request that finds them wrong could only fail.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from attrs import asdict, fields

from tqcore.adapters.flags import HOST_DEFAULT_SCHEME, Flags
from tqcore.adapters.mlx_vlm._seams import SERVER_SEAMS, TESTED
from tqcore.adapters.patches import Patch, PatchSet
from tqcore.adapters.seams import check
from tqcore.choice import SchemeChoice
from tqcore.errors import OptionError, TqcoreError
from tqcore.registry import registry
from tqcore.schemestring import choose, is_plan, parse, parts

CONFIG = "mlx_vlm.server.runtime_config"
NAMES = tuple(a.name for a in fields(Flags))
SCHEME_NAMES = ("kv_quant_scheme", "kv_key_scheme", "kv_value_scheme")
ENVIRONMENT = {name: name.upper() for name in NAMES}
"""The variables by which the server takes the same settings."""

UNIFORM_NEEDS_BITS = (
    f"{HOST_DEFAULT_SCHEME} without kv_bits is the server's default and quantizes nothing: "
    "give kv_bits too, or kv_bits null for a dense cache"
)


class SchemeNames(list[str]):
    """The names that settings list; a scheme string with options is in it as well."""

    def __contains__(self, value: object) -> bool:
        try:
            names = [part.partition(":")[0].strip() for part in parts(str(value))]
        except OptionError:
            return False
        return all(super(SchemeNames, self).__contains__(name) for name in names)


def server_patches(flags: Flags, choice: SchemeChoice | None) -> PatchSet:
    """Return patches that make the server start with flags, and check every change of them.

    Args:
        flags: what the command line or the environment asked for.
        choice: what that means; None starts with a dense cache.

    Raises:
        HostError: a name of the server's that is needed moved.
    """
    patches = checking_patches()
    start = functools.partial(_starting, starting_values(flags, choice))
    patches.add([Patch(CONFIG, "RuntimeConfig.from_env", start)])
    return patches


def checking_patches() -> PatchSet:
    """Return patches that check every change of the server's settings.

    Raises:
        HostError: a name of the server's that is needed moved.
    """
    check(SERVER_SEAMS, "mlx-vlm", "vlm", TESTED)
    return PatchSet(
        [
            Patch(CONFIG, "RuntimeConfig.apply_changes", _checking),
            Patch(CONFIG, "_KNOB_SPEC", _taking_schemes),
        ]
    )


def starting_values(flags: Flags, choice: SchemeChoice | None) -> dict[str, Any]:
    """Return the server's settings for a choice; ``quantized_kv_start`` is 0 unless given."""
    values = {**asdict(flags), "quantized_kv_start": flags.quantized_kv_start or 0}
    values["kv_quant_scheme"] = HOST_DEFAULT_SCHEME
    if choice is not None:
        # said in full: the server's defaults would make something else of what is left out
        values.update(kv_quant_scheme=choice.text, kv_bits=choice.widths.bits)
        values.update(kv_key_scheme=None, kv_value_scheme=None)
        bits = choice.widths.bits
        if bits is None or (choice.names == (HOST_DEFAULT_SCHEME,) and bits % 1):
            # null is a dense cache to the server, and a fraction alone would mean turboquant
            key, value = choice.sides
            values.update(kv_bits=max(key, value), kv_key_bits=key, kv_value_bits=value)
    return values


def from_environment(flags: Flags) -> Flags:
    """Return flags with what was not said taken from the server's environment variables.

    Raises:
        OptionError: a variable holds no number where one is needed.
    """
    found = asdict(flags)
    for name in NAMES:
        text = os.environ.get(ENVIRONMENT[name], "")
        # as the server reads them: 0 is unset, and its default scheme asks for nothing
        default = HOST_DEFAULT_SCHEME if name == "kv_quant_scheme" else ""
        if found[name] is None and text not in ("", default):
            found[name] = text if name in SCHEME_NAMES else _number(name, text) or None
    return Flags(**found)


def _number(name: str, text: str) -> float:
    number = int if name in ("kv_group_size", "quantized_kv_start") else float
    try:
        return number(text)
    except ValueError:
        variable = ENVIRONMENT[name]
        raise OptionError(f"environment variable {variable}={text!r}: not a number") from None


def _taking_schemes(knobs: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    names = SchemeNames(info.name for info, _ in registry().schemes())
    return {
        name: {**spec, "allowed": names} if name in SCHEME_NAMES else spec
        for name, spec in knobs.items()
    }


def _starting(values: dict[str, Any], previous: Any) -> Any:
    def from_env(cls: type[Any]) -> Any:
        # the server falls back to these where a setting is null
        for name, value in values.items():
            os.environ.pop(ENVIRONMENT[name], None)
            if name in ("kv_quant_scheme", "quantized_kv_start"):
                os.environ[ENVIRONMENT[name]] = str(value)
        config = previous.__func__(cls)
        for name, value in values.items():
            setattr(config, name, value)
            config._env_defaults[name] = value
        return config

    return classmethod(from_env)


def _checking(previous: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(previous)
    def apply_changes(self: Any, payload: Any, op: str = "merge") -> Any:
        if not isinstance(payload, dict):
            return previous(self, payload, op)
        payload = _with_plan_read(payload)
        reason = _refusal(type(self), self, previous, payload, op)
        if reason is None:
            return previous(self, payload, op)
        # what is refused stays as it is, the other settings of the request are applied
        asked = [name for name in NAMES if name in payload]
        kept = {name: getattr(self, name) for name in NAMES}
        applied, rejected = previous(self, {**payload, **kept}, op)
        applied = {name: value for name, value in applied.items() if name not in NAMES}
        return applied, [*rejected, *({"name": name, "reason": reason} for name in asked)]

    return apply_changes


def _with_plan_read(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with a plan's own scheme string: the file may change or go."""
    text = payload.get("kv_quant_scheme")
    if not is_plan(text):
        return payload
    try:
        return {**payload, "kv_quant_scheme": choose(str(text)).text}
    except TqcoreError:
        return payload  # it is refused for this reason


def _refusal(
    kind: type[Any], config: Any, apply: Callable[..., Any], payload: dict[str, Any], op: str
) -> str | None:
    """Return why a request's settings cannot be what the cache stores, or None."""
    if not any(name in payload for name in NAMES):
        return None
    for name in SCHEME_NAMES:
        if text := payload.get(name):
            try:
                for part in parts(str(text)):
                    registry().scheme(parse(part)[0])
            except TqcoreError as error:
                return str(error)
    # on a copy: the server's own reading of the values, and its defaults for `op`
    trial = kind(**config.current())
    trial._env_defaults = config._env_defaults
    apply(trial, {k: v for k, v in payload.items() if k in NAMES}, op)
    wanted = {name: getattr(trial, name) for name in NAMES}
    said = payload.get("kv_quant_scheme")
    try:
        choice = Flags.take(dict(wanted)).choose()
    except TqcoreError as error:
        return str(error)
    if said == HOST_DEFAULT_SCHEME and choice is None and "kv_bits" not in payload:
        return UNIFORM_NEEDS_BITS
    if said == HOST_DEFAULT_SCHEME and choice is not None and said not in choice.names:
        return (
            f"with kv_bits={wanted['kv_bits']} the server means {choice.text} by "
            f"{said}: name {choice.text}, or give {said} whole bits"
        )
    return None
