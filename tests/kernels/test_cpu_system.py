"""The compiled CPU kernel among threads, in memory, without numba, and between processes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import mlx.core as mx
import numpy as np
import pytest
from attrs import evolve

from tests.kernels.helpers import SIDE, codec
from tqcore import QuantizedKVCache
from tqcore.attention.mask import SegmentMask
from tqcore.cli import main
from tqcore.protocols import EncodedSegment
from tqcore.select import KERNEL_VARIABLE, KernelRequest
from tqplugins.kernels_cpu import device, encoder, pool, views
from tqplugins.kernels_cpu.device import CompiledKernel

numba = pytest.importorskip("numba")
kept = pytest.importorskip("tqplugins.kernels_cpu.kept")
CPU = CompiledKernel()


def draw(*shape: int, seed: int = 1) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed))


def run(code: str, **env: str) -> str:
    given = {**os.environ, **env}
    done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_reason_is_given():
    key = evolve(SIDE, layout="raw/1")
    value = evolve(SIDE, bits=16, decode_kind="nf4")
    assert CPU.refuses(KernelRequest("metal", "float16", key, value)) == [
        "runs on cpu, this is metal",
        "keys have layout raw/1, it reads u32le/1",
        "values decode by nf4, it decodes by lut, affine, lut+sign, pair, trellis",
        "values have 16 bits, it reads 1 to 8",
    ]
    assert CPU.refuses(KernelRequest("cpu", "float16", SIDE, SIDE)) == []


def test_numba_is_imported_when_first_needed_and_not_before():
    run(
        "import sys; from tqplugins.kernels_cpu.device import CompiledKernel as K; k = K();"
        "from tests.kernels.helpers import SIDE; from tqcore.select import KernelRequest as R;"
        "k.refuses(R('metal', 'float16', SIDE, SIDE)); assert 'numba' not in sys.modules;"
        "k.refuses(R('cpu', 'float16', SIDE, SIDE)); assert 'numba' in sys.modules"
    )


def test_kinds_are_compiled_when_first_met():
    told = run(
        "from tqplugins.kernels_cpu import build, device; from attrs import evolve;"
        "from tests.kernels.helpers import SIDE; from tqcore.select import KernelRequest as R;"
        "k, pair = device.CompiledKernel(), evolve(SIDE, decode_kind='pair');"
        "print(k.refuses(R('cpu', 'float16', SIDE, SIDE)), build.expander.cache_info().currsize,"
        "k.refuses(R('cpu', 'float16', pair, SIDE)), build.expander.cache_info().currsize)"
    )
    assert told.split() == ["[]", "1", "[]", "2"]


def test_without_numba_it_says_what_to_install_and_the_portable_kernel_serves():
    told = run(
        "import sys; sys.modules['numba'] = None; from tqcore.cli import main;"
        "sys.exit(main(['explain', 'turboquant', '--device', 'cpu']))",
        COLUMNS="200",
    )
    assert "needs numba: pip install 'tqcore[fast]'" in told
    assert "portable" in told


def test_explain_names_it(capsys):
    assert main(["explain", "turboquant", "--device", "cpu"]) == 0
    assert "cpu-compiled" in capsys.readouterr().out


def test_many_python_threads_get_what_one_gets(monkeypatch):
    monkeypatch.setattr(device, "SHARED_FROM", 0)
    monkeypatch.setattr(encoder, "SHARED_FROM", 0)
    monkeypatch.setattr(device, "threads", lambda: 3)
    monkeypatch.setattr(encoder, "threads", lambda: 3)
    key, value = codec(4), codec(3.5, seed=1)
    q = mx.contiguous(draw(1, 4, 1, 64, seed=3))
    inputs = [draw(1, 2, 600 + 32 * i, 64, seed=i) for i in range(8)]
    mx.eval(q, inputs)

    def work(x: mx.array) -> list[np.ndarray]:
        with mx.stream(mx.new_thread_local_stream(mx.cpu)) if hasattr(mx, "new_thread_local_stream") else mx.stream(mx.cpu):  # fmt: skip
            planes = CPU.encode(x, x, key, value)
            part = CPU.attend(q, EncodedSegment(*planes, key, value), SegmentMask(), scale=0.125)
            return [np.array(y) for y in (planes[0][0], planes[1][1], *part)]

    expected = [work(x) for x in inputs]
    with ThreadPoolExecutor(6) as workers:
        came = list(workers.map(work, inputs * 8))
    for got, wanted in zip(came, expected * 8, strict=True):
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_an_error_in_a_helper_is_raised():
    def work(worker: int) -> None:
        if worker:
            raise ValueError("helper")
        # the helper must have begun, or it is called off
        pool._pool().submit(int).result()

    with pytest.raises(ValueError, match="helper"):
        pool.share(work, 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_has_threads_of_its_own():
    run(
        "import os\nfrom tqplugins.kernels_cpu import pool\n"
        "pool.share(lambda worker: None, 2); child = os.fork()\n"
        "pool._pool().submit(int).result(20)\n"
        "child and os.waitpid(child, 0)[1] and exit(1)"
    )


def test_field_case_43_a_cache_is_read_where_it_lies():
    key = codec(4, 128)
    room = draw(1, 8, 4096, 128)
    planes = [mx.contiguous(plane) for plane in key.encode(room)]
    q = draw(1, 32, 1, 128)
    mx.eval(planes, q)
    del room
    for plane in planes:
        cut = plane[:, :, 100:4000]
        where = views.place(views.view(cut)) - views.place(views.view(plane))
        assert where == 100 * plane.nbytes // (8 * 4096)
        assert views.view(cut).strides == views.view(plane).strides
    size = sum(plane.nbytes for plane in planes)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    cut = [plane[:, :, 100:4000] for plane in planes]
    part = CPU.attend(q, EncodedSegment(cut, cut, key, key), SegmentMask(), scale=0.1)
    assert mx.get_peak_memory() - before < size / 10
    assert part.o.shape == (1, 32, 1, 128)


def test_a_cache_still_grows_in_place_after_attention():
    cache = QuantizedKVCache("turboquant:skip=none", 4)
    x = draw(1, 8, 4000, 128)
    cache.update_and_fetch(x, x)
    q, one = draw(1, 8, 1, 128), draw(1, 8, 1, 128, seed=2)
    for _ in range(3):
        cache.update_and_fetch(one, one)
        mx.eval(cache.attend(q, scale=0.1))
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    cache.update_and_fetch(one, one)
    mx.eval(cache.attend(q, scale=0.1))
    assert mx.get_peak_memory() - before < cache.nbytes / 10


def test_it_serves_a_cache_as_the_portable_kernel_does(monkeypatch):
    outs = []
    for name in ("cpu-compiled", "portable"):
        monkeypatch.setenv(KERNEL_VARIABLE, name)
        cache = QuantizedKVCache("turboquant:skip=none,sinks=4,window=16", 3.5)
        for n, seed in ((300, 1), (1, 2), (5, 3)):
            x = draw(1, 2, n, 96, seed=seed).astype(mx.bfloat16)
            views_of = cache.update_and_fetch(x, x)
            q = draw(1, 6, n, 96, seed=seed + 10).astype(mx.bfloat16)
            out = cache.attend(q, *views_of, scale=0.1, mask="causal")
        assert out.dtype == mx.bfloat16
        outs.append(np.array(out.astype(mx.float32)))
    np.testing.assert_allclose(outs[0], outs[1], atol=0.02)


def twice(x: int) -> int:
    return 2 * x


def test_compiled_code_is_kept_for_the_same_sources(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "user_cache_path", lambda name: tmp_path / name)
    for digest, hits in (("a", 0), ("a", 1), ("b", 0)):
        function = numba.njit(twice)
        kept.keep(function, digest)
        function.compile("int64(int64)")
        assert sum(function.stats.cache_hits.values()) == hits
        assert function(4) == 8


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "tqcore.kernels")
    (tmp_path / "tqcore").write_text("a file")
    monkeypatch.setattr(kept, "user_cache_path", lambda name: tmp_path / name)
    function = numba.njit(twice)
    kept.keep(function, "a")
    function.compile("int64(int64)")
    assert function(4) == 8
    assert "compiled code is not kept" in caplog.text
