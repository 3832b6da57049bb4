"""Checks of schemes: resolution, specs, and the codecs that come of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from tqcore.codec import Codec, codec_for
from tqcore.errors import OptionError, ShapeError
from tqcore.registry import registry
from tqcore.spec import CodecSpec, SchemeInfo, SchemeSpec, ShapeCtx, to_json
from tqcore.testing import strategies as tst
from tqcore.testing.checks._subject import thinned, to_backend, to_numpy
from tqcore.testing.checks.codebook import distortion
from tqcore.testing.checks.distortion import rate_limit
from tqcore.testing.checks.packer import assert_planes
from tqcore.testing.verdict import CheckFailed, expect
from tqcore.widths import widths_of

DIMS = (64, 80, 96, 128, 256)


def specs_of(info: SchemeInfo, dim: int = 128) -> Iterator[tuple[float, SchemeSpec]]:
    """Yield ``(bits, spec)`` at every width to try."""
    ctx = ShapeCtx(layer=1, n_layers=4, kv_heads=2, key_dim=dim, value_dim=dim)
    for bits in thinned(widths_of(info)):
        yield bits, info.resolve(bits, {}, ctx)


def codecs_of(info: SchemeInfo, dims: tuple[int, ...] = DIMS) -> Iterator[tuple[str, float, Codec]]:
    """Yield ``(label, asked bits, codec)`` of both sides; a ``ShapeError`` refuses a dimension."""
    refused = []
    for dim in thinned(dims):
        try:
            for bits, spec in specs_of(info, dim):
                for side, codec in (("key", spec.key), ("value", spec.value)):
                    who = f"scheme {info.name!r} {side}s, {bits:g} bits, dim {dim}"
                    yield who, bits, codec_for(codec, dim)
        except ShapeError as error:
            refused.append(f"{dim}: {error}")
    if len(refused) == len(thinned(dims)):
        raise CheckFailed(
            f"scheme {info.name!r}",
            "refuses everything",
            "at least one of the usual head dimensions stored",
            refused[0],
            f"head dimensions {', '.join(map(str, thinned(dims)))}",
        )


def check_spec_json(info: SchemeInfo) -> None:
    """Specs survive JSON, resolve the same twice, and name registered parts."""
    known = registry()
    for bits, spec in specs_of(info):
        again = SchemeSpec.from_dict(json.loads(to_json(spec)))
        who, given = f"scheme {info.name!r}", f"resolve({bits:g})"
        for what, came in (
            ("its spec does not survive JSON", again),
            ("two resolutions differ", dict(specs_of(info))[bits]),
        ):
            expect(came == spec, who, what, expected=spec, got=came, given=given)
        for codec in (spec.key, spec.value):
            _assert_registered(codec, known)


def _assert_registered(codec: CodecSpec, known: Any) -> None:
    # raises UnknownNameError, whose message says what exists
    known.component("rotation", codec.rotation)
    known.component("codebook", codec.codebook)
    known.component("packer", codec.packer)


def check_scheme_options(info: SchemeInfo) -> None:
    """Declared defaults parse to themselves; choices resolve; a misspelt option is refused."""
    parsed = info.parse_options({})
    for option in info.all_options().values():
        again = option.parse(str(parsed[option.name]))
        who = f"scheme {info.name!r}, option {option.name}"
        expect(
            again == parsed[option.name],
            who,
            "its default does not parse as itself",
            expected=repr(parsed[option.name]),
            got=repr(again),
            given=f"{option.name}={parsed[option.name]}",
        )
        for choice in option.choices:
            info.resolve(None, {option.name: choice})
        expect(
            option.help, who, "it has no help", expected="a line", got="none", given="as declared"
        )
    try:
        info.parse_options({"no-such-option": "1"})
    except OptionError:
        return
    raise CheckFailed(
        f"scheme {info.name!r}",
        "takes an option that it does not declare",
        "OptionError",
        "no error",
        "no-such-option=1",
    )


def check_scheme_bytes(info: SchemeInfo) -> None:
    """Planes are as declared on real arrays, and cost little more than the width.

    Scales and padding together: at most 1 bit a value where the head dimension is a multiple of
    64; elsewhere groups may have to be padded by half.
    """
    for who, _, codec in codecs_of(info):
        recipe = tst.Recipe(codec.dim, 6, "gaussian", 13)
        x = recipe.make().reshape(1, 2, 3, codec.dim)
        planes = codec.encode(to_backend(x, "mlx"))
        assert_planes(codec.planes, planes, (1, 2, 3), who, recipe)
        padding = 1 if codec.dim % 64 == 0 else 1.5
        limit = padding * codec.spec.bits + 1
        expect(
            codec.bits_per_value <= limit,
            who,
            "more is stored than the width promises",
            expected=f"at most {limit:.3g} bits a value for {codec.spec.bits:.3g}",
            got=f"{codec.bits_per_value:.3g}: {_bytes(codec)}",
            given=recipe,
        )


def _bytes(codec: Codec) -> str:
    return ", ".join(f"{plane.name} {plane.nbytes} bytes" for plane in codec.planes)


def check_scheme_distortion(info: SchemeInfo, factor: float = 3.0) -> None:
    """Distortion on Gaussian vectors stays within ``factor`` of sqrt(3) pi / 2 * 4^-b."""
    for who, _, codec in codecs_of(info, (64, 128)):
        recipe = tst.Recipe(codec.dim, 256, "gaussian", 14)
        x = recipe.make()
        came = distortion(x, to_numpy(codec.decode(codec.encode(to_backend(x, "mlx")))))
        limit = factor * rate_limit(codec.spec.bits, codec.dim)
        expect(
            came <= limit,
            who,
            "too much distortion",
            expected=f"at most {limit:.3g}",
            got=f"{came:.3g}",
            given=recipe,
        )


def check_scheme_storage(info: SchemeInfo) -> None:
    """What is decoded after append, trim and copy is what was decoded at once, bit for bit."""
    from tqcore.cache.storage import PlaneStore

    for who, _, codec in codecs_of(info, (64,)):
        recipe = tst.Recipe(codec.dim, 2 * 40, "heavy", 15)
        planes = codec.encode(to_backend(recipe.make().reshape(1, 2, 40, codec.dim), "mlx"))
        store = PlaneStore(codec.planes, step=16)
        store.append([plane[:, :, :25] for plane in planes])
        store.trim(5)
        store = store.copy()
        store.append([plane[:, :, 20:] for plane in planes])
        expected, came = to_numpy(codec.decode(planes)), to_numpy(codec.decode(store.view()))
        wrong = np.argwhere(expected != came)
        expect(
            not len(wrong),
            who,
            "storage changes what is decoded",
            expected="the same bits",
            got=f"{len(wrong)} values differ, the first at {wrong[:1].tolist()}",
            given=f"{recipe}: 25 tokens appended, 5 trimmed, copied, 20 appended",
        )
