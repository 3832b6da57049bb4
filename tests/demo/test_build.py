from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import mlx.core as mx
import pytest

from tqcore.demo import smollm2 as builder
from tqcore.demo.convert import unpermute, usual_name
from tqcore.demo.errors import DemoError
from tqcore.demo.smollm2 import STAMP, ensure_model, is_whole
from tqcore.places import cache_dir


@pytest.fixture
def fake_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Builds that write two small files instead of a model, and are counted."""
    monkeypatch.setenv("TQCORE_CACHE_DIR", str(tmp_path / "cache"))
    built: list[Path] = []

    def convert(gguf, into, dtype, progress) -> None:
        built.append(into)
        (into / "config.json").write_text("{}")
        (into / "model.safetensors").write_bytes(b"w" * 100)

    monkeypatch.setattr(builder, "find_gguf", lambda cache, progress: cache / "a.gguf")
    monkeypatch.setattr(builder, "convert", convert)
    return built


def left_in_cache() -> set[str]:
    return {path.name for path in cache_dir().iterdir()} - {"smollm2.lock"}


def test_it_is_built_once(fake_build):
    assert ensure_model() == ensure_model()
    assert len(fake_build) == 1
    assert left_in_cache() == {"smollm2-135m-instruct-float32"}
    assert ensure_model(dtype="float16") != ensure_model()


def test_an_interrupted_build_leaves_nothing_and_is_made_again(fake_build, monkeypatch):
    whole = builder.convert

    def interrupted(gguf, into, dtype, progress) -> None:
        whole(gguf, into, dtype, progress)
        raise KeyboardInterrupt

    monkeypatch.setattr(builder, "convert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ensure_model()
    assert left_in_cache() == set()
    monkeypatch.setattr(builder, "convert", whole)
    assert is_whole(ensure_model(), "float32")


def test_what_a_killed_build_left_is_removed(fake_build):
    leftover = cache_dir() / ".building-abc"
    leftover.mkdir(parents=True)
    (leftover / "model.safetensors").write_bytes(b"half")
    ensure_model()
    assert left_in_cache() == {"smollm2-135m-instruct-float32"}


@pytest.mark.parametrize("damage", ["format", "no stamp", "bad stamp", "truncated", "missing"])
def test_a_stale_or_damaged_directory_is_rebuilt(fake_build, monkeypatch, damage):
    model = ensure_model()
    if damage == "format":
        monkeypatch.setattr(builder, "FORMAT", builder.FORMAT + 1)
    elif damage == "no stamp":
        (model / STAMP).unlink()
    elif damage == "bad stamp":
        (model / STAMP).write_text("[]")
    elif damage == "truncated":
        (model / "model.safetensors").write_bytes(b"w" * 99)
    else:
        (model / "config.json").unlink()
    assert not is_whole(model, "float32")
    assert ensure_model() == model
    assert is_whole(model, "float32")
    assert len(fake_build) == 2
    assert left_in_cache() == {model.name}


def test_an_unknown_dtype_names_the_known_ones():
    with pytest.raises(DemoError, match=r"int3.*float32, float16"):
        ensure_model(dtype="int3")


def _build_slowly(cache: str, log: str) -> None:
    import os
    import time

    os.environ["TQCORE_CACHE_DIR"] = cache

    def convert(gguf, into, dtype, progress) -> None:
        with open(log, "a") as file:
            file.write("built\n")
        time.sleep(0.3)
        (into / "config.json").write_text("{}")

    builder.find_gguf = lambda cache, progress: cache / "a.gguf"
    builder.convert = convert
    assert is_whole(ensure_model(), "float32")


def test_of_concurrent_processes_one_builds(tmp_path):
    context = multiprocessing.get_context("spawn")
    log = tmp_path / "log"
    args = (str(tmp_path / "cache"), str(log))
    processes = [context.Process(target=_build_slowly, args=args) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert log.read_text() == "built\n"


def test_environment_variables_choose_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TQCORE_CACHE_DIR", raising=False)
    assert cache_dir() == tmp_path / "tqcore"
    monkeypatch.setenv("TQCORE_CACHE_DIR", str(tmp_path / "own"))
    assert cache_dir() == tmp_path / "own"


def test_unpermute_moves_neighbours_half_a_head_apart():
    rows = mx.arange(8)[:, None]
    assert unpermute(rows, 2)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_names():
    assert usual_name("blk.3.attn_k.weight") == "model.layers.3.self_attn.k_proj.weight"
    with pytest.raises(KeyError):
        usual_name("blk.3.surprise.weight")


def test_the_stamp_is_readable(fake_build):
    stamp = json.loads((ensure_model() / STAMP).read_text())
    assert stamp["format"] == builder.FORMAT
    assert "Apache-2.0" in (ensure_model() / "NOTICE").read_text()
