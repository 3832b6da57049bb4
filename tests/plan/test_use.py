"""``@FILE`` wherever a scheme is named, and plans for another model refused."""

from __future__ import annotations

import json

import mlx.core as mx
import pytest

import tqcore
from tqcore.adapters import disable, enable, make_caches
from tqcore.adapters.flags import Flags
from tqcore.cache import QuantizedKVCache, load_caches, save_caches
from tqcore.cli import main
from tqcore.errors import OptionError, PlanError, ShapeError
from tqcore.measure.forward import logits
from tqcore.report.options import Options, asked, split_schemes
from tqcore.schemestring import brief, choose

TEXT = "turboquant:fits=4x2x64x64,layers=0:k4v3,1:k3v3,2:k3v2,3:k2v2,sinks=2,skip=none"


def fill(caches, heads=2, n=20):
    for layer, cache in enumerate(caches):
        x = mx.random.normal((1, heads, n, 64), key=mx.random.key(layer))
        cache.update_and_fetch(x, x)
    return caches


def bits(caches):
    return [(c.tokens.codecs[0].spec.bits, c.tokens.codecs[1].spec.bits) for c in caches]


def test_a_plan_is_its_scheme_string(plan_file):
    choice = choose(f"@{plan_file}")
    assert choice == choose(TEXT)
    assert choice.text == TEXT
    assert choice.sides == (3, 2.5)
    plan_file.unlink()
    assert choose(choice.text) == choice  # the file is needed no more


def test_every_layer_stores_its_widths(plan_file):
    caches = fill(tqcore.make_caches(f"@{plan_file}", 4))
    assert bits(caches) == [(4, 3), (3, 3), (3, 2), (2, 2)]
    one = fill([QuantizedKVCache(f"@{plan_file}", layer=2, n_layers=4)])
    assert bits(one) == [(3, 2)]


def test_a_prompt_cache_outlives_the_plans_file(plan_file, tmp_path):
    caches = fill(tqcore.make_caches(f"@{plan_file}", 4))
    save_caches(tmp_path / "prompt.safetensors", caches)
    plan_file.unlink()
    loaded, _ = load_caches(tmp_path / "prompt.safetensors")
    for one, other in zip(caches, loaded, strict=True):
        assert json.loads(other.meta_state)["scheme"] == TEXT
        assert all(map(mx.array_equal, one.dequantize(), other.dequantize()))


def test_a_model_runs_on_it(plan_file, loaded):
    wiring = enable(loaded.model, f"@{plan_file}")
    try:
        caches = wiring.make()
        logits(loaded.model, list(range(4, 30)), caches)
        assert bits(caches) == [(4, 3), (3, 3), (3, 2), (2, 2)]
    finally:
        disable(loaded.model)


def test_hosts_functions_take_it(plan_file, loaded):
    import mlx_lm

    from tqcore.adapters.mlx_lm import install, uninstall

    install()
    try:
        arguments = (loaded.model, loaded.tokenizer, list(range(4, 24)))

        def second(**flags):
            return list(mlx_lm.stream_generate(*arguments, max_tokens=2, **flags))[1].logprobs

        planned = second(kv_quant_scheme=f"@{plan_file}")
        assert mx.array_equal(planned, second(kv_quant_scheme=TEXT))
        assert not mx.allclose(planned, second(), atol=1e-4)
        with pytest.raises(OptionError, match="leave bits and other schemes out"):
            mlx_lm.generate(*arguments, kv_quant_scheme=f"@{plan_file}", kv_bits=4)
    finally:
        uninstall()


def test_the_servers_settings_store_what_the_plan_says(plan_file):
    runtime = pytest.importorskip("mlx_vlm.server.runtime_config")
    from tqcore.adapters.mlx_vlm import settings

    flags = settings.Flags(kv_quant_scheme=f"@{plan_file}")
    patches = settings.server_patches(flags, flags.choose())
    patches.acquire("test")
    try:
        config = runtime.RuntimeConfig.from_env()
        assert config.kv_quant_scheme == TEXT
        assert config.kv_bits  # null would be a dense cache to the server
        applied, rejected = config.apply_changes({"kv_quant_scheme": "turboquant", "kv_bits": 4})
        assert (applied["kv_quant_scheme"], rejected) == ("turboquant", [])
        applied, rejected = config.apply_changes({"kv_quant_scheme": f"@{plan_file}"})
        assert (applied["kv_quant_scheme"], rejected) == (TEXT, [])
        _, rejected = config.apply_changes({"kv_quant_scheme": "@/no/such.toml"})
        assert "cannot be read" in rejected[0]["reason"]
        assert config.kv_quant_scheme == TEXT
        named = {name: getattr(config, name) for name in settings.NAMES}
        assert Flags.take(named).choose().text == TEXT
    finally:
        patches.release("test")


@pytest.mark.parametrize(
    "flags",
    [
        {"kv_bits": 3.0},
        {"kv_key_bits": 3.0},
        {"kv_value_scheme": "uniform"},
    ],
)
def test_a_plan_stands_alone(plan_file, flags):
    with pytest.raises(OptionError, match="a plan sets every width"):
        Flags(kv_quant_scheme=f"@{plan_file}", **flags).choose()
    with pytest.raises(OptionError, match="give it as the one scheme"):
        Flags(kv_key_scheme=f"@{plan_file}").choose()
    with pytest.raises(OptionError, match="a plan sets every width"):
        choose(f"@{plan_file}", 3)
    assert Flags(kv_quant_scheme=f" @{plan_file}").choose() == choose(TEXT)


@pytest.mark.parametrize("host", ["core", "lm"])
def test_another_number_of_layers_is_refused(plan_file, host):
    with pytest.raises(ShapeError, match=r"a model of 4 layers, .*; this is one of 5 layers"):
        fill(tqcore.make_caches(f"@{plan_file}", 5, host=host))
    with pytest.raises(ShapeError, match="one of 1 layers"):
        fill([QuantizedKVCache(f"@{plan_file}")])
    with pytest.raises(ShapeError, match="one of 3 layers"):
        make_caches(choose(f"@{plan_file}"), 3, "lm")


def test_other_heads_are_refused_when_they_are_seen(plan_file):
    with pytest.raises(ShapeError, match=r"2 KV heads of 64 .*; this is 4 KV heads of 64"):
        fill(tqcore.make_caches(f"@{plan_file}", 4), heads=4)
    choice = choose(TEXT.replace("4x2x64x64", "4x*x64x64"))
    assert fill([QuantizedKVCache(choice, n_layers=4)], heads=4)[0].is_quantized


def test_a_model_that_it_does_not_fit_is_refused_when_it_is_enabled(plan_file, tmp_path):
    from tests.integration.models import write
    from tqcore.measure.hosts import load

    other = load(write(tmp_path / "other", head_dim=64, num_hidden_layers=3), "lm")
    with pytest.raises(ShapeError, match="this is one of 3 layers"):
        enable(other.model, f"@{plan_file}")
    assert "make_cache" not in vars(other.model)


@pytest.fixture(scope="module")
def draft_dir(tmp_path_factory):
    """A tiny model of other layers and of the same tokens."""
    from tests.integration.models import write

    return write(tmp_path_factory.mktemp("draft"), head_dim=64, num_hidden_layers=3)


def test_a_draft_of_other_layers_stays_dense(plan_file, loaded, draft_dir):
    import mlx_lm

    from tqcore.adapters.mlx_lm import install, uninstall
    from tqcore.measure.hosts import load

    draft = load(draft_dir, "lm").model
    arguments = (loaded.model, loaded.tokenizer, list(range(4, 24)))
    install()
    try:
        flags = {"max_tokens": 6, "kv_quant_scheme": f"@{plan_file}"}
        plain = [r.token for r in mlx_lm.stream_generate(*arguments, **flags)]
        drafted = [r.token for r in mlx_lm.stream_generate(*arguments, draft_model=draft, **flags)]
        assert drafted == plain
    finally:
        uninstall()


def test_the_command_says_that_a_draft_stays_dense(plan_file, model_dir, draft_dir, capsys):
    line = ["--host", "lm", "--model", str(model_dir), "--draft-model", str(draft_dir)]
    asked_for = ["--prompt", "hello", "--max-tokens", "4", "--kv-quant-scheme", f"@{plan_file}"]
    assert main(["generate", *line, *asked_for]) == 0
    said = capsys.readouterr().err
    assert "the draft's cache stays dense: these widths are planned for a model of 4" in said
    assert "4 of 4 layers quantized" in said


@pytest.mark.slow
def test_ranks_that_share_the_heads_are_that_model(tmp_path):
    from tests.integration import models
    from tests.integration.ranks import run_ranks

    wide = models.write(tmp_path / "wide", num_attention_heads=8, num_key_value_heads=4)
    planned = "turboquant:fits=4x4x32x32,layers=0-1:k4v4,2-3:k3v3,skip=none"
    for rank in run_ranks(2, wide, tmp_path / "out", planned, "4"):
        assert [layer[1] for layer in rank.layers] == ["quantized"] * 4
        sizes = [layer[2] for layer in rank.layers]
        assert sizes[0] == sizes[1] > sizes[2] == sizes[3]
    with pytest.raises(RuntimeError, match="planned for a model of 4 layers, 6 KV heads"):
        run_ranks(2, wide, tmp_path / "other", planned.replace("4x4x", "4x6x"), "4")


@pytest.mark.parametrize(
    "text", ["4x2x64", "4x2x64x64x1", "0x2x64x64", "*x2x64x64", "4x-2x64x64", ""]
)
def test_fits_is_checked(text):
    with pytest.raises(OptionError, match="expected any, or"):
        choose(f"turboquant:fits={text}")


def test_a_file_that_is_none_is_refused_before_a_model_is_loaded(tmp_path, capsys):
    (tmp_path / "bad.toml").write_text("format = 1\nwidths = 3")
    for command in (
        ["generate", "--model", "no/model", "--prompt", "x", "--kv-quant-scheme"],
        ["server", "--kv-quant-scheme"],
        ["lm-server", "--kv-quant-scheme"],
        ["explain"],
        ["report", "no/model", "--schemes"],
        ["bench", "attention", "--schemes"],
    ):
        assert main([*command, f"@{tmp_path / 'bad.toml'}"]) == 2
        assert "bad.toml': the file lacks the key 'scheme'" in capsys.readouterr().err
    with pytest.raises(PlanError, match="cannot be read"):
        choose("@/no/such/file.toml")


def test_explain_takes_the_shapes_of_the_plans_model(plan_file, capsys):
    assert main(["explain", f"@{plan_file}", "--device", "cpu", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["scheme"] == TEXT
    assert shown["cache"]["layers"] == 4
    assert shown["cache"]["bytes_per_token"] == 2 * sum(b * 8 + 2 for b in (4, 3, 3, 3, 3, 2, 2, 2))
    assert main(["explain", f"@{plan_file}", "--device", "cpu", "--layer", "3"]) == 0
    out = capsys.readouterr().out
    assert "layers=..." in out
    assert "2.25" in out  # true bits of the last layer
    assert main(["explain", f"@{plan_file}", "--layers", "5"]) == 2
    assert "this is one of 5 layers" in capsys.readouterr().err


def test_a_report_runs_a_plan_once_among_widths(plan_file):
    schemes = split_schemes(f"turboquant:sinks=2,@{plan_file},uniform")
    assert schemes == ("turboquant:sinks=2", f"@{plan_file}", "uniform")
    found, notes = asked(Options(schemes=schemes, bits=(4, 2)))
    assert [(each.scheme, each.bits) for each in found] == [
        ("turboquant:sinks=2", 4), ("turboquant:sinks=2", 2), (f"@{plan_file}", 2.75),
        ("uniform", 4), ("uniform", 2),
    ]  # fmt: skip
    assert found[2].choice.text == TEXT
    assert notes == []


def test_a_benchmark_times_the_first_layer_of_a_plan(plan_file, capsys):
    command = ["bench", "attention", "--schemes", f"@{plan_file}", "--tokens", "64", "--json"]
    shapes = ["--kv-heads", "2", "--head-dim", "64", "--repeats", "1"]
    assert main([*command, *shapes]) == 0
    assert f"@{plan_file}" in capsys.readouterr().out
    assert main([*command, "--kv-heads", "3", "--head-dim", "64", "--repeats", "1"]) == 2
    assert "2 KV heads of 64" in capsys.readouterr().err


def test_people_see_a_short_string():
    assert brief(TEXT) == "turboquant:fits=4x2x64x64,layers=...,sinks=2,skip=none"
    assert brief("turboquant:layers=0-3:k8v4") == "turboquant:layers=0-3:k8v4"
    assert brief(TEXT + "+uniform") == brief(TEXT) + "+uniform"
