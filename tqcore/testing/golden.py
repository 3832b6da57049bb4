"""Golden bytes: what a scheme stored once must decode for ever.

    from tqcore.testing.golden import check_golden

    def test_bytes_stay():
        check_golden("mine", Path(__file__).with_name("mine.json"))

The first run writes the file and fails; look at it and commit it. A later difference is a broken
format: give the new bytes a new layout id or a new name, and a new file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tqcore.codec import Codec, codec_for
from tqcore.errors import ShapeError
from tqcore.registry import registry
from tqcore.spec import SchemeInfo, ShapeCtx
from tqcore.testing.checks._subject import to_numpy
from tqcore.testing.checks.codebook import distortion
from tqcore.testing.strategies import HEAD_DIMS
from tqcore.testing.verdict import CheckFailed, expect
from tqcore.widths import widths_of

SAME = 0.97
"""Share of the stored words that must come again: another device's rounding moves a code that
lies on a boundary, another format moves half of them and more."""

ROWS = 8


def ramp(rows: int, dim: int) -> Any:
    """Return float32 ``[rows, dim]`` of exact binary fractions, well spread: no generator in it."""
    steps = np.arange(rows * dim, dtype=np.int64) * 7919 % 4093 - 2046
    return (steps / 512).astype(np.float32).reshape(rows, dim)


def check_golden(scheme: str, path: Path | str) -> None:
    """Compare what a scheme stores at every width with a file, and what it makes of the file.

    Args:
        scheme: its name; default options.
        path: of the JSON file; written where there is none.

    Raises:
        CheckFailed: bytes differ, old bytes decode to something else, or the file is new.
        UnknownNameError: no scheme has this name.
    """
    path = Path(path)
    info = registry().scheme(scheme)
    recorded = json.loads(path.read_text()) if path.exists() else {}
    made = {name: _record(codec) for name, codec in _codecs(info)}
    if not recorded:
        path.write_text(json.dumps(made, indent=1) + "\n")
        raise CheckFailed(
            f"scheme {scheme!r}",
            "its golden bytes were not recorded yet",
            f"a file {path.name}",
            "none: it is written now, look at it, commit it and run again",
            f"ramp({ROWS}, dim)",
        )
    for name, codec in _codecs(info):
        if name in recorded:  # a width that came later has no old bytes
            _compare(f"scheme {scheme!r} {name}", codec, recorded[name], made[name])


def _codecs(info: SchemeInfo) -> Iterator[tuple[str, Codec]]:
    """Yield the codecs of every width at the first head dimension that is stored."""
    for dim in HEAD_DIMS:
        ctx = ShapeCtx(layer=1, n_layers=4, kv_heads=2, key_dim=dim, value_dim=dim)
        try:
            for bits in widths_of(info):
                spec = info.resolve(bits, {}, ctx)
                yield f"keys, {bits:g} bits, dim {dim}", codec_for(spec.key, dim)
                yield f"values, {bits:g} bits, dim {dim}", codec_for(spec.value, dim)
            return
        except ShapeError:
            continue


def _record(codec: Codec) -> dict[str, Any]:
    import mlx.core as mx

    x = ramp(ROWS, codec.dim)
    planes = codec.encode(mx.array(x))
    return {
        "layout": codec.layout,
        "planes": {
            spec.name: np.array(plane).tobytes().hex()
            for spec, plane in zip(codec.planes, planes, strict=True)
        },
        "distortion": round(distortion(x, to_numpy(codec.decode(planes))), 6),
    }


def _compare(who: str, codec: Codec, old: dict[str, Any], new: dict[str, Any]) -> None:
    given = f"ramp({ROWS}, {codec.dim})"
    expect(
        (old["layout"], list(old["planes"])) == (new["layout"], list(new["planes"])),
        who,
        "the format has another name or other planes",
        expected=f"{old['layout']}: {', '.join(old['planes'])}",
        got=f"{new['layout']}: {', '.join(new['planes'])}",
        given=given,
    )
    for spec in codec.planes:
        a, b = (
            np.frombuffer(bytes.fromhex(each["planes"][spec.name]), np.uint8) for each in (old, new)
        )
        same = float((a == b).mean()) if a.shape == b.shape else 0.0
        expect(
            same >= SAME,
            who,
            "encoding writes other bytes: a changed byte is a new layout id or a new name",
            expected=f"plane {spec.name} = {old['planes'][spec.name][:24]}...",
            got=f"{new['planes'][spec.name][:24]}..., {same:.0%} of the bytes alike",
            given=given,
        )
    came = distortion(ramp(ROWS, codec.dim), to_numpy(codec.decode(_planes(codec, old))))
    expect(
        abs(came - old["distortion"]) <= 0.02 * old["distortion"] + 1e-5,
        who,
        "what was stored decodes to something else",
        expected=f"distortion {old['distortion']:g}, as recorded",
        got=f"{came:.6f}",
        given=f"the recorded planes of {given}",
    )


def _planes(codec: Codec, record: dict[str, Any]) -> list[Any]:
    import mlx.core as mx

    return [
        mx.array(
            np.frombuffer(bytes.fromhex(record["planes"][spec.name]), spec.dtype).reshape(
                ROWS, *spec.shape
            )
        )
        for spec in codec.planes
    ]
