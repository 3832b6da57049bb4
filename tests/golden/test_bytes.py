"""Encoded bytes never change: what was stored once must decode for ever.

Each ``*.json`` beside this file holds what one part wrote when its layout was fixed; the
inputs are plain arithmetic, so no random generator is part of the record. A difference is a
broken format: give the new bytes a new layout id and a new file. To record a *new* part,
add it to ``RECORDS`` and run this file as a module; existing files are never overwritten:

    python -m tests.golden.test_bytes
"""

from __future__ import annotations

import json
from hashlib import sha256
from importlib import resources
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from tqcore.codec import codec_for
from tqcore.spec import CodecSpec
from tqplugins import stream, ufloat16
from tqplugins.affine.device import AffineCodebook
from tqplugins.affine.layout import WIDTHS as AFFINE_WIDTHS
from tqplugins.affine.naive import NaiveAffineCodebook
from tqplugins.bitpack.device import BitPacker
from tqplugins.bitpack.layout import WIDTHS
from tqplugins.bitpack.naive import NaiveBitPacker
from tqplugins.hadamard.blocks import plan
from tqplugins.hadamard.draw import draw
from tqplugins.lloyd_max import levels as lloyd_max
from tqplugins.lloyd_max.device import LloydMaxCodebook
from tqplugins.lloyd_max.naive import NaiveLloydMaxCodebook
from tqplugins.pair.layout import WIDTHS as PAIR_WIDTHS
from tqplugins.qjl.device import QjlCodebook
from tqplugins.qjl.naive import NaiveQjlCodebook
from tqplugins.trellis.layout import WIDTHS as TRELLIS_WIDTHS
from tqplugins.uniform import levels as uniform

HERE = Path(__file__).parent
TRAINED = ("pair", "trellis")
RUNS = {**{str(w): ((40, w),) for w in WIDTHS}, "mixed": ((13, 5), (20, 4), (7, 1))}


def arithmetic_codes(runs):
    """Codes that exercise every bit: multiples of a large odd number, cut to the width."""
    widths = np.repeat([w for _, w in runs], [n for n, _ in runs]).astype(np.uint64)
    codes = (np.arange(1, widths.size + 1, dtype=np.uint64) * np.uint64(2654435761)) >> np.uint64(3)
    return (codes & ((np.uint64(1) << widths) - np.uint64(1))).astype(np.uint32)[None]


def ramp(count, dim):
    """Vectors ``[count, dim]`` of exact binary fractions, well spread."""
    steps = np.arange(count * dim, dtype=np.int64) * 7919 % 4093 - 2046
    return (steps / 512).astype(np.float32).reshape(count, dim)


def bitpack():
    return {
        name: BitPacker(runs).pack(mx.array(arithmetic_codes(runs)))[0][0].tolist()
        for name, runs in RUNS.items()
    }


def affine():
    out = {}
    for bits in AFFINE_WIDTHS:
        codes, side = AffineCodebook(64, bits).encode(mx.array(ramp(1, 64)))
        planes = [np.array(codes), *(np.array(s).view(np.uint16) for s in side)]
        out[str(bits)] = [p[0].tolist() for p in planes]
    return out


def rotation():
    out = {
        "words": [hex(w) for w in stream.words(0, 0, 4).tolist() + stream.words(7, 3, 4).tolist()]
    }
    for dim in (16, 24, 20):
        rounds = draw(plan(dim, None), seed=1)
        out[str(dim)] = {
            "blocks": list(plan(dim, None).blocks),
            "signs": [r.signs.astype(int).tolist() for r in rounds],
            "orders": [None if r.order is None else r.order.tolist() for r in rounds],
        }
    return out


def levels():
    out = {}
    for name, module in (("beta-lloyd-max", lloyd_max), ("uniform", uniform)):
        for dim, bits in ((2, 2), (64, 1), (64, 4), (80, 3), (128, 2), (128, 6)):
            half = module.levels(dim, bits)[2 ** (bits - 1) :]
            out[f"{name}/{dim}/{bits}"] = [round(float(x), 9) for x in half]
    return out


def scale():
    values = [0.0, 2.0**-33, 2.0**-32, 2.0**-31, 1e-6, 0.1, 1.0, 1.5, np.pi, 65504.0, 1e9, 1e30]
    return ufloat16.encode(mx, mx.array(values)).tolist()


def codebook():
    """A whole vector at each policy: codes and scale."""
    out = {}
    for policy in ("norm", "mse", "unbiased"):
        codes, (side,) = LloydMaxCodebook(32, 3.5, policy).encode(mx.array(ramp(2, 32)))
        out[policy] = {"codes": codes.tolist(), "scale": side.tolist()}
    return out


def trained_tables():
    """Digests of the tables of points, which are part of the format."""
    files = {name: resources.files(f"tqplugins.{name}") / "points.json" for name in TRAINED}
    return {name: sha256(file.read_bytes()).hexdigest() for name, file in files.items()}


def planes_of(name, widths, **params):
    """Packed words and scale of two vectors, and what they decode to, at each width."""
    out = {}
    for bits in widths:
        codec = codec_for(CodecSpec("identity", name, "u32le", bits, params=params), 32)
        words, scale = codec.encode(mx.array(ramp(2, 32)))
        decoded = np.array(codec.decode((words, scale))).astype(np.float64).round(4)
        out[f"{bits:g}"] = [words.tolist(), scale.tolist(), decoded.tolist()]
    return out


def sketched():
    """Two whole vectors with each sketch: words, scale and residual."""
    out = {}
    for sketch in ("hadamard", "gaussian"):
        book = QjlCodebook(32, 3.5, "unbiased", {"sketch": sketch})
        codes, side = book.encode(mx.array(ramp(2, 32)))
        out[sketch] = [plane.tolist() for plane in (*BitPacker(book.runs).pack(codes), *side)]
    return out


RECORDS = {
    "u32le-1": bitpack,
    "mlx-affine-1": affine,
    "hadamard": rotation,
    "levels": levels,
    "ufloat16": scale,
    "beta-lloyd-max": codebook,
    "beta-lloyd-max-search": lambda: planes_of("beta-lloyd-max-search", (2, 3.5), search=8),
    "pair": lambda: planes_of("pair", PAIR_WIDTHS),
    "trellis-4": lambda: planes_of("trellis", TRELLIS_WIDTHS, states=4),
    "trellis-8": lambda: planes_of("trellis", TRELLIS_WIDTHS, states=8),
    "trained-points": trained_tables,
    "beta-lloyd-max-qjl": sketched,
}


def decoded_records():
    """Every record of ``planes_of``: name, codebook, params."""
    yield "beta-lloyd-max-search", "beta-lloyd-max-search", {"search": 8}
    yield "pair", "pair", {}
    yield "trellis-4", "trellis", {"states": 4}
    yield "trellis-8", "trellis", {"states": 8}


def stored(name):
    return json.loads((HERE / f"{name}.json").read_text())


@pytest.mark.parametrize("name", [n for n in RECORDS if n != "levels"])
def test_bytes_are_the_recorded_ones(name):
    assert RECORDS[name]() == stored(name)


def test_levels_are_the_recorded_ones():
    found, recorded = levels(), stored("levels")
    assert found.keys() == recorded.keys()
    for key, expected in recorded.items():
        np.testing.assert_allclose(found[key], expected, rtol=1e-6)


def test_oracles_write_the_recorded_bytes():
    for name, words in stored("u32le-1").items():
        (packed,) = NaiveBitPacker(RUNS[name]).pack(arithmetic_codes(RUNS[name]))
        assert packed[0].tolist() == words
    for bits, (words, _, _) in stored("mlx-affine-1").items():
        codes, _ = NaiveAffineCodebook(64, int(bits)).encode(ramp(1, 64))
        assert codes[0].tolist() == words
    for policy, record in stored("beta-lloyd-max").items():
        codes, (side,) = NaiveLloydMaxCodebook(32, 3.5, policy).encode(ramp(2, 32))
        assert {"codes": codes.tolist(), "scale": side.tolist()} == record
    for sketch, planes in stored("beta-lloyd-max-qjl").items():
        book = NaiveQjlCodebook(32, 3.5, "unbiased", {"sketch": sketch})
        codes, sides = book.encode(ramp(2, 32))
        (words,) = NaiveBitPacker(book.runs).pack(codes)
        assert [plane.tolist() for plane in (words, *sides)] == planes


def test_recorded_bytes_decode():
    for name, words in stored("u32le-1").items():
        codes = BitPacker(RUNS[name]).unpack((mx.array([words], dtype=mx.uint32),))
        assert codes.tolist() == arithmetic_codes(RUNS[name]).tolist()
    for bits, planes in stored("mlx-affine-1").items():
        words, *side = (np.array([p]) for p in planes)
        halves = [mx.array(s.astype(np.uint16)).view(mx.float16) for s in side]
        y = AffineCodebook(64, int(bits)).decode(mx.array(words.astype(np.uint32)), halves)
        step = 8 / (2 ** int(bits) - 1)
        assert np.abs(np.array(y) - ramp(1, 64)).max() < step


@pytest.mark.parametrize("backend", ["mlx", "numpy"])
@pytest.mark.parametrize(("record", "name", "params"), list(decoded_records()))
def test_recorded_planes_decode_to_the_recorded_vectors(record, name, params, backend):
    array = mx.array if backend == "mlx" else np.array
    for bits, (words, scale, expected) in stored(record).items():
        spec = CodecSpec("identity", name, "u32le", float(bits), params=params)
        planes = array(np.array(words, np.uint32)), array(np.array(scale, np.uint16))
        came = np.array(codec_for(spec, 32, backend).decode(planes))
        np.testing.assert_allclose(came, expected, atol=1e-4)


if __name__ == "__main__":
    for record, make in RECORDS.items():
        path = HERE / f"{record}.json"
        if not path.exists():
            path.write_text(json.dumps(make(), sort_keys=True) + "\n")
