"""Prompt caches in a file: packed planes as they are, and a description of every layer.

A safetensors file holds the arrays; its metadata holds JSON of plain strings and numbers. A
file is checked whole (versions, schemes, shapes, digests) before a cache is made of it, and
nothing in it names a class or a module.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

import tqcore
from tqcore.cache.rotating import RotatingQuantizedKVCache
from tqcore.cache.single import QuantizedKVCache
from tqcore.cache.state import UNREADABLE, describe, is_rotating
from tqcore.errors import StateError

FORMAT = 1
"""Version of the file; a change that old readers misread raises it."""

KEY = "tqcore"
"""The metadata entry that holds our JSON."""

Arrays = dict[str, NDArray[Any]]


def save_caches(
    path: str | Path, caches: Sequence[Any], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a prompt cache, one entry a layer; the file appears whole or not at all.

    Args:
        path: of the file, ``.safetensors``.
        caches: quantized caches, and dense ones of a host (``keys``, ``values``, ``offset``).
        metadata: strings of the caller's own, given back by ``load_caches``.

    Raises:
        StateError: a layer holds something other than keys and values.
    """
    arrays: Arrays = {}
    layers = [_store(layer, cache, arrays) for layer, cache in enumerate(caches)]
    record = {
        "format": FORMAT,
        "version": tqcore.__version__,
        "layers": layers,
        "digests": {name: _digest(array) for name, array in arrays.items()},
        "metadata": dict(metadata or {}),
    }
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        save_file(arrays, partial, {KEY: json.dumps(record, sort_keys=True)})
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def load_caches(path: str | Path, host: str = "core") -> tuple[list[Any], dict[str, str]]:
    """Read what ``save_caches`` wrote; every cache decodes bit for bit like the original.

    Args:
        path: of the file.
        host: ``core``, or ``vlm``/``lm`` for caches that host's attention takes.

    Returns:
        The caches, and the caller's own metadata.

    Raises:
        StateError: not such a file, of another format, incomplete or changed, or written by a
            scheme that this installation does not have or reads differently.
    """
    layers, metadata, arrays = _read(Path(path))
    caches = [_restore(layer, item, arrays) for layer, item in enumerate(layers)]
    if host != "core":
        from tqcore.adapters import get_host

        found = get_host(host)
        found.wiring.acquire(found.name)
        return found.converter(None).convert(list(caches)), metadata
    return caches, metadata


def _store(layer: int, cache: Any, arrays: Arrays) -> dict[str, Any]:
    if not isinstance(cache, QuantizedKVCache):
        cache = _dense(layer, cache)
    dtypes = []
    for side, planes in zip("kv", cache.arrays(), strict=True):
        dtypes.append([str(plane.dtype).removeprefix("mlx.core.") for plane in planes])
        for i, plane in enumerate(planes):
            arrays[f"{layer}.{side}.{i}"] = _to_numpy(plane)
    return {"meta": describe(cache), "dtypes": dtypes}


def _dense(layer: int, cache: Any) -> QuantizedKVCache:
    """Take a host's dense cache as one of ours that packs nothing."""
    kinds: dict[str, type[QuantizedKVCache]] = {
        "KVCache": QuantizedKVCache,
        "RotatingKVCache": RotatingQuantizedKVCache,
    }
    kind = kinds.get(type(cache).__name__)
    held = (getattr(cache, "keys", None), getattr(cache, "values", None))
    if kind is None or not all(x is None or isinstance(x, mx.array) for x in held):
        raise StateError(
            f"layer {layer} is a {type(cache).__name__}: only quantized caches and the hosts' "
            "plain and rotating ones are written; save this model's cache with its host's own "
            "function"
        )
    return kind.from_cache(cache, layer=layer, left_dense="dense in the saved cache")


def _restore(layer: int, item: Any, arrays: Arrays) -> QuantizedKVCache:
    try:
        state = tuple(
            [_to_mlx(arrays.pop(f"{layer}.{side}.{i}"), name) for i, name in enumerate(dtypes)]
            for side, dtypes in zip("kv", item["dtypes"], strict=True)
        )
        kind = RotatingQuantizedKVCache if is_rotating(item["meta"]) else QuantizedKVCache
        return kind.from_state(state, item["meta"])
    except StateError as error:
        raise StateError(f"layer {layer}: {error}") from error
    except UNREADABLE as error:
        raise StateError(f"layer {layer}: the record is incomplete ({error!r:.200})") from None


def _read(path: Path) -> tuple[list[Any], dict[str, str], Arrays]:
    """Return the layers' descriptions, the caller's metadata, and every array of a file."""
    try:
        with safe_open(path, framework="np") as file:
            found: dict[str, str] = file.metadata() or {}
            record: dict[str, Any] = json.loads(found[KEY])
            if record["format"] != FORMAT:
                raise StateError(
                    f"{path}: format {record['format']!r:.80}, this tqcore reads {FORMAT}"
                )
            layers: list[Any] = record["layers"]
            metadata: dict[str, str] = record["metadata"]
            digests: dict[str, str] = record["digests"]
            for part, kind in ((layers, list), (metadata, dict), (digests, dict)):
                if not isinstance(part, kind):
                    raise TypeError(f"expected a {kind.__name__}, found {part!r:.80}")
            if set(file.keys()) != set(digests):
                raise StateError(f"{path}: its arrays are not those of its record")
            arrays = {name: file.get_tensor(name) for name in digests}
    except StateError:
        raise
    except FileNotFoundError:
        raise StateError(f"{path}: no such file") from None
    except SafetensorError as error:
        raise StateError(f"{path}: not a whole safetensors file ({error!s:.200})") from None
    except OSError as error:
        raise StateError(f"{path}: cannot be read ({error})") from None
    except UNREADABLE as error:
        raise StateError(f"{path}: not a prompt cache of tqcore ({error!r:.200})") from None
    changed = sorted(name for name, array in arrays.items() if _digest(array) != digests[name])
    if changed:
        raise StateError(f"{path}: the data was changed after it was written ({changed[0]})")
    return layers, metadata, arrays


def _digest(array: NDArray[Any]) -> str:
    head = f"{array.dtype.str}{array.shape}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()


def _to_numpy(array: mx.array) -> NDArray[Any]:
    # numpy has no bfloat16: its bits travel as uint16
    return np.array(array.view(mx.uint16) if array.dtype == mx.bfloat16 else array)


def _to_mlx(array: NDArray[Any], dtype: str) -> mx.array:
    found = mx.array(array)
    return found.view(mx.bfloat16) if dtype == "bfloat16" else found
