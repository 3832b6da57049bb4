"""One model over several processes: every rank holds its part of the cache, and the answers stay.

The ranks are processes of this machine, started by ``mlx.launch`` and joined by MLX's ring over
loopback, as several machines would be.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

import tqcore
from tests.integration import models
from tests.integration.helpers import steps
from tests.integration.ranks import Rank, launch, launcher, run_ranks
from tests.integration.serving import Server

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs/distributed.md"
TOLERANCE = 0.02
"""Log-probabilities: partial sums of a product are added in another order, and a code that then
falls on the other side of a boundary moves them by less than 0.01."""


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny llama of 8 query and 4 key/value heads."""
    path = tmp_path_factory.mktemp("models") / "wide"
    return models.write(path, num_attention_heads=8, num_key_value_heads=4)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of 9 query and 3 key/value heads, as SmolLM2-135M has."""
    path = tmp_path_factory.mktemp("models") / "odd"
    heads = {"num_attention_heads": 9, "num_key_value_heads": 3}
    return models.write(path, hidden_size=288, intermediate_size=384, **heads)


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny qwen2, which pipelines; the loader reads which file has which layer."""
    path = models.write(tmp_path_factory.mktemp("models") / "staged", "qwen2")
    weights = mx.load(str(path / "model.safetensors"))
    index = {"weight_map": dict.fromkeys(weights, "model.safetensors")}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    return path


def _alone(host: str, path: Path, scheme: str, bits: float) -> tuple[Rank, list[Any]]:
    """Run one process, and return what it saw and its caches."""
    import mlx_lm
    import mlx_vlm

    model = (mlx_lm if host == "lm" else mlx_vlm).load(str(path))[0]
    caches = tqcore.enable(model, scheme, bits).make()
    chunk = {"prefill_step_size": 32} if host == "lm" else {}
    seen = steps(host, model, prompt_cache=caches, **chunk)
    logprobs = mx.stack([logprobs.reshape(-1) for _, logprobs in seen])
    return Rank({"logprobs": logprobs}, [token for token, _ in seen], []), caches


def _same_answer(rank: Rank, alone: Rank) -> None:
    assert rank.tokens == alone.tokens
    drift = mx.abs(rank.arrays["logprobs"] - alone.arrays["logprobs"]).max()
    assert float(drift) < TOLERANCE


@pytest.mark.parametrize(
    ("host", "model", "count", "scheme", "bits"),
    [
        ("lm", "wide", 2, "turboquant:skip=none", 3.5),
        ("vlm", "wide", 2, "turboquant:skip=none,sinks=4", 4),
        ("lm", "odd", 3, "uniform:group_size=32", 4),
    ],
)
def test_each_rank_holds_its_heads_and_the_answers_stay(
    host: str,
    model: str,
    count: int,
    scheme: str,
    bits: float,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    path = request.getfixturevalue(model)
    alone, caches = _alone(host, path, scheme, bits)
    ranks = run_ranks(count, path, tmp_path / "out", scheme, str(bits), "--host", host)
    heads = caches[0].keys.shape[1] // count
    for number, rank in enumerate(ranks):
        _same_answer(rank, alone)
        own = slice(heads * number, heads * (number + 1))
        # the first layer has seen nothing that was summed: its bytes are the same ones
        assert mx.array_equal(rank.arrays["keys.0"], caches[0].keys[:, own])
        for (_, kind, nbytes, _), cache in zip(rank.layers, caches, strict=True):
            assert kind == "quantized"
            assert nbytes * count == cache.nbytes


def test_a_pipeline_counts_layers_over_the_whole_model(staged: Path, tmp_path: Path) -> None:
    scheme = "turboquant:layers=0-1:k8v8"  # a rank's own first two are layers 2 and 3 as well
    alone, caches = _alone("lm", staged, scheme, 4)
    ranks = run_ranks(2, staged, tmp_path / "out", scheme, "4", "--pipeline")
    for rank, layers in zip(ranks, ([2, 3], [0, 1]), strict=True):  # rank 0 has the last ones
        _same_answer(rank, alone)
        assert [layer for layer, *_ in rank.layers] == layers
        for layer, kind, nbytes, reason in rank.layers:
            assert (kind, reason) == (("KVCache", "skip=last") if layer == 3 else ("quantized", ""))
            assert nbytes == caches[layer].nbytes
            assert mx.array_equal(rank.arrays[f"keys.{layer}"], caches[layer].keys)


def test_field_case_24_the_flags_of_a_server_reach_every_rank(wide: Path, tmp_path: Path) -> None:
    flags = ("--kv-quant-scheme", "turboquant:skip=none", "--kv-bits", "4")
    with Server("lm-server", wide, tmp_path / "alone.log", *flags) as server:
        alone = server.say("hello there")
    log = tmp_path / "ranks.log"
    with Server("lm-server", wide, log, *flags, launcher=launcher(2)) as server:
        assert server.say("hello there") == alone
        together = server.at_once([["hello there"], ["and you"]])
        assert together[0][0]["message"]["content"] == alone
        notices = server.notices()
    assert len(notices) == 2
    assert all("4 of 4 layers quantized" in notice for notice in notices)


def test_the_page_has_a_program_that_runs(wide: Path, tmp_path: Path) -> None:
    code = re.findall(r"^```python[^\n]*\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[
        0
    ]
    program = tmp_path / "generate.py"
    program.write_text(code)
    printed = launch(2, program, wide, "hello there")
    assert "rank 0 of 2: " in printed
    assert "rank 1 of 2: " in printed
    assert "4.50 / 4.50 bits" in printed


def test_a_program_of_the_host_takes_our_flags_on_every_rank(wide: Path, tmp_path: Path) -> None:
    program = tmp_path / "flags.py"
    program.write_text(
        "import sys, mlx_lm, mlx_lm.utils\n"
        "model, tokenizer = mlx_lm.utils.sharded_load(sys.argv[1])\n"
        "flags = {'kv_bits': 4, 'kv_quant_scheme': 'turboquant'}\n"
        "mlx_lm.generate(model, tokenizer, 'hello', max_tokens=3, **flags)\n"
    )
    printed = launch(2, "-m", "tqcore", "run", program, wide)
    assert printed.count("3 of 4 layers quantized") == 2


def test_a_rank_that_fails_or_hangs_is_reported_with_what_it_printed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys; print('so far', flush=True); sys.exit('no such thing')\n")
    with pytest.raises(RuntimeError, match=r"(?s)so far.*no such thing"):
        launch(1, program)
    program.write_text("import time; print('so far', flush=True); time.sleep(600)\n")
    with pytest.raises(RuntimeError, match=r"(?s)no end after 3 s.*so far"):
        launch(1, program, seconds=3)
