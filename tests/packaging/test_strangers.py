"""A stranger's plugin is a first-class citizen, and a broken one harms nobody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SAMPLE = Path(__file__).parent / "sample_plugin"
PROMPT = ("--prompt", "Name a fruit.", "--max-tokens", "6", "--temperature", "0")


def test_its_scheme_is_listed_with_its_package(with_plugins):
    listed = json.loads(with_plugins.run("tqcore", "schemes", "--json"))
    (sample,) = (each for each in listed if each["name"] == "sample-nf")
    assert sample["package"] == "tqcore-sample-nf 0.3"
    assert sample["widths"] == [4]


def test_the_broken_one_is_shown_with_its_reason_and_stops_nothing(with_plugins):
    listed = json.loads(with_plugins.run("tqcore", "plugins", "--json"))
    states = {each["entry_point"]: each["status"] for each in listed}
    assert states == {
        "broken": "failed",
        "builtin": "loaded",
        "metal": "loaded",
        "sample-nf-plugin": "loaded",
    }
    (broken,) = (each for each in listed if each["entry_point"] == "broken")
    assert broken["package"] == "tqcore-broken"
    assert "a_package_that_nobody_has" in broken["error"]
    assert "FAILED" in with_plugins.run("tqcore", "plugins")


def test_a_typo_names_the_plugin_that_failed(with_plugins):
    code, said = with_plugins.fail("tqcore", "explain", "sample-nff")
    assert code == 2
    assert "did you mean 'sample-nf'" in said
    assert "plugins that failed to load: broken" in said


def test_it_can_be_switched_off(with_plugins):
    for name in ("sample-nf-plugin", "tqcore-sample-nf"):
        listed = with_plugins.run("tqcore", "schemes", "--json", TQCORE_DISABLE_PLUGINS=name)
        assert "sample-nf" not in {each["name"] for each in json.loads(listed)}


def test_explain_shows_its_parts_and_the_kernel(with_plugins):
    told = json.loads(
        with_plugins.run("tqcore", "explain", "sample-nf", "--device", "cpu", "--json")
    )
    assert told["key"]["rotation"] == "hadamard"
    assert told["key"]["codebook"] == "nf4"
    assert told["key"]["nbytes"] == 66
    assert told["kernel"]["name"] == "portable"


def test_it_passes_the_contract_kit(with_plugins):
    test = str(SAMPLE / "contract_of_sample.py")
    options = ("-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", str(with_plugins.cwd))
    out = with_plugins.run("python", "-m", "pytest", *options, test)
    assert "passed" in out


@pytest.mark.parametrize("host", ["vlm", "lm"])
def test_a_real_model_generates_with_it(with_plugins, smollm2_dir, host):
    model = ("--host", host, "--model", str(smollm2_dir), *HOST_FLAGS[host])
    scheme = ("--kv-quant-scheme", "sample-nf", "--kv-report")
    out = with_plugins.run("tqcore", "generate", *model, *PROMPT[:4], *scheme)
    # 4 bits a code and a float16 for each 64 of them
    assert "4.25" in out
    assert "quantized" in out


HOST_FLAGS = {"vlm": ("--temperature", "0"), "lm": ("--temp", "0")}


def test_a_misspelt_scheme_costs_no_model_load(with_plugins):
    code, said = with_plugins.fail(
        "tqcore", "generate", "--model", "/no/such/model", "--kv-quant-scheme", "sampel-nf"
    )
    assert code == 2
    assert "did you mean 'sample-nf'" in said
    assert "/no/such/model" not in said
