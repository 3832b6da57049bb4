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
from tqcore.testing.checks._subject import to_backend, to_numpy
from tqcore.testing.checks.codebook import distortion, rate_limit
from tqcore.testing.checks.packer import assert_planes
from tqcore.widths import widths_of

DIMS = (64, 80, 96, 128, 256)


def specs_of(info: SchemeInfo, dim: int = 128) -> Iterator[tuple[float, SchemeSpec]]:
    """Yield ``(bits, spec)`` at every width to try."""
    ctx = ShapeCtx(layer=1, n_layers=4, kv_heads=2, key_dim=dim, value_dim=dim)
    for bits in widths_of(info):
        yield bits, info.resolve(bits, {}, ctx)


def codecs_of(info: SchemeInfo, dims: tuple[int, ...] = DIMS) -> Iterator[tuple[str, float, Codec]]:
    """Yield ``(label, asked bits, codec)`` of both sides; a ``ShapeError`` refuses a dimension."""
    refused = []
    for dim in dims:
        try:
            for bits, spec in specs_of(info, dim):
                for side, codec in (("key", spec.key), ("value", spec.value)):
                    who = f"scheme {info.name!r} {side}s, {bits:g} bits, dim {dim}"
                    yield who, bits, codec_for(codec, dim)
        except ShapeError as error:
            refused.append(f"{dim}: {error}")
    assert len(refused) < len(dims), f"scheme {info.name!r} refuses every dimension: {refused}"


def check_spec_json(info: SchemeInfo) -> None:
    """Specs survive JSON, resolve the same twice, and name registered parts."""
    known = registry()
    for bits, spec in specs_of(info):
        again = SchemeSpec.from_dict(json.loads(to_json(spec)))
        assert again == spec, f"scheme {info.name!r}: {spec} comes back from JSON as {again}"
        assert dict(specs_of(info))[bits] == spec, f"scheme {info.name!r}: two resolutions differ"
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
        assert again == parsed[option.name], (
            f"scheme {info.name!r}: option {option.name} has default {parsed[option.name]!r}, "
            f"which parses as {again!r}"
        )
        for choice in option.choices:
            info.resolve(None, {option.name: choice})
        assert option.help, f"scheme {info.name!r}: option {option.name} has no help"
    try:
        info.parse_options({"no-such-option": "1"})
    except OptionError:
        return
    raise AssertionError(f"scheme {info.name!r} takes an option that it does not declare")


def check_scheme_bytes(info: SchemeInfo) -> None:
    """Planes are as declared on real arrays, and cost little more than the width.

    Scales and padding together: at most 1 bit a value where the head dimension is a multiple of
    64; elsewhere groups may have to be padded by half.
    """
    for who, _, codec in codecs_of(info):
        x = tst.make_vectors(codec.dim, 6, "gaussian", seed=13).reshape(1, 2, 3, codec.dim)
        planes = codec.encode(to_backend(x, "mlx"))
        assert_planes(codec.planes, planes, (1, 2, 3), who)
        padding = 1 if codec.dim % 64 == 0 else 1.5
        limit = padding * codec.spec.bits + 1
        assert codec.bits_per_value <= limit, (
            f"{who}: {codec.bits_per_value:.3g} bits a value stored for {codec.spec.bits:.3g}, "
            f"expected at most {limit:.3g}"
        )


def check_scheme_distortion(info: SchemeInfo, factor: float = 3.0) -> None:
    """Distortion on Gaussian vectors stays within ``factor`` of sqrt(3) pi / 2 * 4^-b."""
    for who, _, codec in codecs_of(info, (64, 128)):
        x = tst.make_vectors(codec.dim, 256, "gaussian", seed=14)
        came = distortion(x, to_numpy(codec.decode(codec.encode(to_backend(x, "mlx")))))
        limit = factor * rate_limit(codec.spec.bits, codec.dim)
        assert came <= limit, f"{who}: distortion {came:.3g}, expected at most {limit:.3g}"


def check_scheme_storage(info: SchemeInfo) -> None:
    """What is decoded after append, trim and copy is what was decoded at once, bit for bit."""
    from tqcore.cache.storage import PlaneStore

    for who, _, codec in codecs_of(info, (64,)):
        x = tst.make_vectors(codec.dim, 2 * 40, "heavy", seed=15).reshape(1, 2, 40, codec.dim)
        planes = codec.encode(to_backend(x, "mlx"))
        store = PlaneStore(codec.planes, step=16)
        store.append([plane[:, :, :25] for plane in planes])
        store.trim(5)
        store = store.copy()
        store.append([plane[:, :, 20:] for plane in planes])
        expected, came = to_numpy(codec.decode(planes)), to_numpy(codec.decode(store.view()))
        assert np.array_equal(expected, came), f"{who}: storage changes what is decoded"
