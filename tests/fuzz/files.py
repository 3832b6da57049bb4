"""Prompt caches to damage, and the ways to damage them."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import struct
import tempfile
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from hypothesis import strategies as st

from tests.fuzz.texts import json_values
from tqcore.cache import QuantizedKVCache, RotatingQuantizedKVCache, save_caches

Parts = tuple[dict[str, Any], dict[str, Any], bytes]
"""A file taken apart: the header of its arrays, tqcore's record, and the arrays' bytes."""


def _caches(kind: str) -> list[Any]:
    made = {
        "plain": lambda: [QuantizedKVCache("turboquant", 3.5, layer=i, n_layers=2) for i in (0, 1)],
        "policy": lambda: [QuantizedKVCache("turboquant:sinks=2,window=4", 4)],
        "apart": lambda: [QuantizedKVCache("trellis+uniform:group_size=32", 4)],
        "rotating": lambda: [RotatingQuantizedKVCache(64, 4, "turboquant", 2)],
    }[kind]()
    x = mx.random.normal((1, 2, 80, 32), key=mx.random.key(0)).astype(mx.float16)
    for cache in made:
        cache.update_and_fetch(x, x)
    return [*made, QuantizedKVCache("turboquant", 8)]


@functools.cache
def whole(kind: str) -> bytes:
    """A good file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "good.safetensors")
        save_caches(path, _caches(kind), {"prompt": "hello"})
        return path.read_bytes()


KINDS = ("plain", "policy", "apart", "rotating")


def apart(data: bytes) -> Parts:
    """Take a good file apart."""
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    record = json.loads(header.pop("__metadata__")["tqcore"])
    for layer in record["layers"]:
        layer["meta"] = json.loads(layer["meta"])
    return header, record, data[8 + size :]


def together(parts: Parts, digests: bool = True) -> bytes:
    """Make a file of its parts, with the digests of what it holds now."""
    header, record, body = copy.deepcopy(parts[0]), copy.deepcopy(parts[1]), parts[2]
    if isinstance(record, dict):
        if digests and isinstance(record.get("digests"), dict):
            record["digests"] = {name: _digest(entry, body) for name, entry in header.items()}
        for layer in record["layers"] if isinstance(record.get("layers"), list) else ():
            if isinstance(layer, dict) and "meta" in layer:
                layer["meta"] = json.dumps(layer["meta"])
    metadata = {"__metadata__": {"tqcore": json.dumps(record)}}
    text = json.dumps({**metadata, **header}).encode()
    return struct.pack("<Q", len(text)) + text + body


TYPES = {"U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "F16": np.float16, "F32": np.float32}


def _digest(entry: Any, body: bytes) -> str:
    try:
        first, last = entry["data_offsets"]
        array = np.frombuffer(body[first:last], TYPES[entry["dtype"]]).reshape(entry["shape"])
    except (KeyError, TypeError, ValueError):
        return "0"
    head = f"{array.dtype.str}{array.shape}".encode()
    return hashlib.sha256(head + array.tobytes()).hexdigest()


# Bytes


def _cut(data: bytes, at: int, size: int, noise: bytes) -> bytes:
    return data[: at % (len(data) + 1)]


def _flip(data: bytes, at: int, size: int, noise: bytes) -> bytes:
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 1 << size % 8]) + data[at + 1 :]


def _insert(data: bytes, at: int, size: int, noise: bytes) -> bytes:
    at %= len(data)
    return data[:at] + noise + data[at:]


def _overwrite(data: bytes, at: int, size: int, noise: bytes) -> bytes:
    at %= len(data)
    return data[:at] + noise + data[at + len(noise) :]


def _delete(data: bytes, at: int, size: int, noise: bytes) -> bytes:
    at %= len(data)
    return data[:at] + data[at + size % 64 :]


def _header_size(data: bytes, at: int, size: int, noise: bytes) -> bytes:
    return struct.pack("<Q", size) + data[8:]


def _only_noise(data: bytes, at: int, size: int, noise: bytes) -> bytes:
    return noise


@st.composite
def damaged_bytes(draw: st.DrawFn) -> bytes:
    """A good file after one to three blows."""
    data = whole(draw(st.sampled_from(KINDS)))
    blows = (_cut, _flip, _insert, _overwrite, _delete, _header_size, _only_noise)
    for blow in draw(st.lists(st.sampled_from(blows), min_size=1, max_size=3)):
        where = st.one_of(st.integers(0, 400), st.integers(0, 2**20))
        size = st.one_of(st.integers(0, 2**16), st.integers(0, 2**64 - 1))
        data = blow(data or b"\0", draw(where), draw(size), draw(st.binary(max_size=24)))
    return data


# Structure


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in nested dicts and lists, the top one left out."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    found = []
    for key, inner in items:
        found += [(*path, key), *_places(inner, (*path, key))]
    return found


NASTY = st.one_of(
    json_values,
    st.sampled_from([
        0, -1, 1, 2, 33, 2**16, 2**31, 2**63, 1e308, float("inf"), float("nan"), True, None, "",
        "uint32", "bfloat16", "float16", "turboquant:rotation=orthogonal", "uniform", "../../etc/passwd",
        "0.k.0", [], {}, [[]], [1, 2], [1, 1, 1], "none", "x" * 300,
    ]),
)  # fmt: skip


@st.composite
def damaged_parts(draw: st.DrawFn) -> bytes:
    """A file that is whole by its digests, whose header or record says something else."""
    header, record, body = apart(whole(draw(st.sampled_from(KINDS))))
    whole_of = {"header": header, "record": record}
    for _ in range(draw(st.integers(1, 3))):
        root = draw(st.sampled_from(["record", "record", "record", "header"]))
        places = [(root, *place) for place in _places(whole_of[root])]
        if not places:
            break
        *path, key = draw(st.sampled_from(places))
        holder = functools.reduce(lambda inner, step: inner[step], path, whole_of)
        change = draw(st.sampled_from(["set", "set", "drop", "move", "swap"]))
        if change == "drop" and isinstance(holder, dict):
            del holder[key]
        elif change == "move" and isinstance(holder, dict):
            holder[draw(st.sampled_from(["../up", "0.k.9", "9.k.0", "/abs", "", "a" * 200]))] = (
                holder.pop(key)
            )
        elif change == "swap":
            other = draw(st.sampled_from(places))
            holder[key] = copy.deepcopy(
                functools.reduce(lambda inner, step: inner[step], other, whole_of)
            )
        else:
            holder[key] = copy.deepcopy(draw(NASTY))
    if draw(st.integers(0, 30)) == 0:
        whole_of["record"] = draw(NASTY)
    return together(
        (whole_of["header"], whole_of["record"], body),
        digests=draw(st.sampled_from([True, True, True, False])),
    )
