"""Prompt caches that somebody made to do harm: each kind is refused, with its reason, at once."""

from __future__ import annotations

import json
import re
import struct
import time

import pytest

from tests.fuzz.files import apart, together, whole
from tqcore.cache import load_caches
from tqcore.cache.state import LARGEST_DIM
from tqcore.errors import StateError


def refused(tmp_path, data: bytes) -> str:
    path = tmp_path / "prompt.safetensors"
    path.write_bytes(data)
    began = time.process_time()
    with pytest.raises(StateError) as caught:
        load_caches(path)
    assert time.process_time() - began < 5
    assert len(str(caught.value)) < 1500, "a message is read by people"
    return str(caught.value)


@pytest.mark.parametrize("size", [0, 1, 10**6, 2**31, 2**40, 2**63, 2**64 - 1])
def test_a_header_of_another_size(tmp_path, size):
    assert "not a whole safetensors file" in refused(
        tmp_path, struct.pack("<Q", size) + whole("plain")[8:]
    )


@pytest.mark.parametrize("shape", [[2**62], [2**31, 2**31, 2**31], [-1, 2], [1, 2, 80, 10**18]])
def test_an_array_larger_than_the_file(tmp_path, shape):
    header, record, body = apart(whole("plain"))
    header["0.k.0"]["shape"] = shape
    assert "not a whole safetensors file" in refused(tmp_path, together((header, record, body)))


def change_header(change):
    def edit(header, record):
        change(header)

    return edit


def change_meta(change):
    def edit(header, record):
        change(record["layers"][0]["meta"])

    return edit


def rename(old, new):
    def edit(header, record):
        header[new] = header.pop(old)

    return edit


DAMAGE = {
    "missing plane": (change_header(lambda h: h.pop("0.v.1")), "safetensors"),
    "traversal": (rename("0.k.0", "../../etc/passwd"), "layer 0: the record is incomplete"),
    "absolute": (rename("0.k.0", "/etc/passwd"), "layer 0: the record is incomplete"),
    "empty name": (rename("0.k.0", ""), "layer 0: the record is incomplete"),
    "another dtype": (
        change_header(lambda h: h["0.k.0"].update(dtype="F32")),
        r"layer 0: .*plane 'words' is float32.*declared uint32",
    ),
    "another shape": (
        change_header(lambda h: h["0.k.0"].update(shape=[1, 2, 40, 6])),
        "layer 0: .*plane 'words'",
    ),
    "flat": (
        change_header(lambda h: h["0.k.0"].update(shape=[480])),
        "layer 0: .*plane 'words'",
    ),
    "rows swapped": (
        change_header(lambda h: (
            h["0.k.0"].update(shape=[2, 1, 80, 3]), h["0.k.1"].update(shape=[2, 1, 80]),
        )),
        r"layer 0: .*\[B, H\]",
    ),
    "planes unasked for": (lambda h, r: r["layers"][0]["dtypes"][0].clear(), "layer 0"),
    "huge head_dim": (change_meta(lambda m: m.update(dims=[2**30, 32])), "head dimensions"),
    "head_dim beyond": (
        change_meta(lambda m: m.update(dims=[LARGEST_DIM + 1, 32])), f"1 to {LARGEST_DIM}",
    ),
    "costly rotation": (
        change_meta(lambda m: m.update(
            scheme="turboquant:rotation=orthogonal", dims=[LARGEST_DIM, LARGEST_DIM],
        )),
        "layer 0",
    ),
    "negative head_dim": (change_meta(lambda m: m.update(dims=[-32, 32])), "whole numbers"),
    "no head_dim": (change_meta(lambda m: m.update(dims=[0, 32])), "head dimensions"),
    "half a head": (change_meta(lambda m: m.update(heads=[1, 2.5])), "whole numbers"),
    "many rows": (change_meta(lambda m: m.update(heads=[2**40, 2])), "layer 0"),
    "infinity": (change_meta(lambda m: m.update(layer=[0, float("inf")])), "whole numbers"),
    "a huge number": (change_meta(lambda m: m.update(bits=[10**400, None, None])), "number of bits"),
    "another codec": (change_meta(lambda m: m["codecs"][0].update(seed=7)), "now means"),
    "no codec": (change_meta(lambda m: m.update(codecs=[3, 4])), "no CodecSpec"),
    "another layout": (change_meta(lambda m: m.update(layouts=["u32le/2"] * 2)), "u32le/2"),
    "code": (
        change_meta(lambda m: m.update(scheme="os:system")), "expected option=value, found 'system'",
    ),
    "a module": (
        change_meta(lambda m: m.update(scheme="os.system")), "unknown KV quantization scheme 'os.system'",
    ),
    "layers of nothing": (lambda h, r: r.update(layers={"0": 1}), "expected a list"),
    "metadata of nothing": (lambda h, r: r.update(metadata=[1]), "expected a dict"),
    "digests of nothing": (lambda h, r: r.update(digests=None), "expected a dict"),
    "no layers": (lambda h, r: r.pop("layers"), "not a prompt cache of tqcore"),
    "another format": (lambda h, r: r.update(format="x" * 10**5), "this tqcore reads 1"),
    "long names": (lambda h, r: r.update(layers="x" * 10**5), "expected a list"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage(tmp_path, damage):
    edit, message = DAMAGE[damage]
    header, record, body = apart(whole("plain"))
    edit(header, record)
    said = refused(tmp_path, together((header, record, body)))
    assert re.search(message, said, re.DOTALL), said


def test_json_that_nests_without_end(tmp_path):
    """In the record, and in a layer's description, each a text of its own."""
    deep = "[" * 10**5
    header, record, body = apart(whole("plain"))
    plain = together((header, record, body))
    (size,) = struct.unpack("<Q", plain[:8])
    head = json.loads(plain[8 : 8 + size])
    outer = json.loads(head["__metadata__"]["tqcore"])
    inner = {**outer, "layers": [{**outer["layers"][0], "meta": deep}]}
    for text in (deep, json.dumps(inner)):
        head["__metadata__"]["tqcore"] = text
        data = json.dumps(head).encode()
        assert "Recursion" in refused(tmp_path, struct.pack("<Q", len(data)) + data + body)


def test_what_is_no_file(tmp_path):
    with pytest.raises(StateError, match="cannot be read"):
        load_caches(tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StateError):
        load_caches(tmp_path / "loop")
    with pytest.raises(StateError):
        load_caches(tmp_path / "a\0b")
