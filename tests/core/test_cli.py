"""The command line: what it lists, what it explains, and how it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
import types

import pytest

from tests.core.helpers import Point, component, plugin, points, scheme
from tqcore import cli
from tqcore.cli import plugins as plugins_command
from tqcore.cli import schemes as schemes_command
from tqcore.errors import TqcoreError
from tqcore.registry import Registry
from tqcore.spec import Option


def run_json(capsys, *argv: str):
    assert cli.main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refuse(capsys, *argv: str) -> str:
    assert cli.main(argv) == 2
    came = capsys.readouterr()
    assert came.out == ""
    assert came.err.startswith("tqcore: ")
    assert "Traceback" not in came.err
    assert came.err.count("\n") == 1
    return came.err


def test_the_list_of_commands_is_printed_without_one(capsys):
    assert cli.main([]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in cli.COMMANDS)


def test_the_version(capsys):
    with pytest.raises(SystemExit) as got:
        cli.main(["--version"])
    assert got.value.code == 0
    assert capsys.readouterr().out.startswith("tqcore 0.")


def test_an_unknown_command_suggests(capsys):
    assert "did you mean 'schemes'" in refuse(capsys, "sheme")


HOSTS_OF = {"chat": ("mlx_vlm",), "server": ("mlx_vlm",), "lm-server": ("mlx_lm",)}
"""Commands whose help is the host's own."""


@pytest.mark.parametrize("command", [name for name in cli.COMMANDS if name != "generate"])
def test_each_command_has_help(command, capsys):
    for host in HOSTS_OF.get(command, ()):
        pytest.importorskip(host)
    with pytest.raises(SystemExit) as got:
        cli.main([command, "--help"])
    assert got.value.code == 0
    assert f"tqcore {command}" in capsys.readouterr().out


@pytest.fixture
def wrapped(monkeypatch):
    """A command of a host: takes the rest of the line as it is."""
    module = types.ModuleType("tqcore.cli.hosted")
    seen = []
    module.main = lambda argv: seen.append(argv) or 5
    monkeypatch.setitem(sys.modules, "tqcore.cli.hosted", module)
    monkeypatch.setitem(cli.COMMANDS, "hosted", "of a host")
    return module, seen


def test_a_wrapping_command_gets_the_rest_of_the_line_as_it_is(wrapped):
    _, seen = wrapped
    assert cli.main(["hosted", "--help", "--kv-bits", "3.5", "--", "x"]) == 5
    assert seen == [["--help", "--kv-bits", "3.5", "--", "x"]]


def test_tracebacks_are_shown_when_asked_for(wrapped, monkeypatch, capsys):
    def fail(argv):
        raise TqcoreError("no such thing")

    wrapped[0].main = fail
    assert refuse(capsys, "hosted") == "tqcore: no such thing\n"
    monkeypatch.setenv(cli.TRACEBACK_VARIABLE, "1")
    with pytest.raises(TqcoreError):
        cli.main(["hosted"])


def test_only_our_own_errors_are_shortened(wrapped):
    def fail(argv):
        raise ZeroDivisionError

    wrapped[0].main = fail
    with pytest.raises(ZeroDivisionError):
        cli.main(["hosted"])


KNOWN = points(
    Point(
        "good",
        plugin(
            rotations=[component("spin"), component("spin", backend="numpy")],
            schemes=[
                scheme(
                    "mine",
                    widths=(2, 4),
                    default_bits=4,
                    skip="last",
                    summary="[bold]text",
                    options=(Option("mode", "str", "a", "which", ("a", "b")),),
                )
            ],
        ),
        "good-package",
    ),
    Point("broken", ImportError("no module named 'gone'")),
    Point("quiet", AssertionError("imported")),
)


@pytest.fixture
def known(monkeypatch):
    made = Registry(KNOWN, ("quiet",))
    monkeypatch.setattr(schemes_command, "registry", lambda: made)
    monkeypatch.setattr(plugins_command, "registry", lambda: made)


def test_schemes_as_json(known, capsys):
    (shown,) = run_json(capsys, "schemes")
    common = shown["options"][2:]
    names = ["layers", "fits", "sinks", "window", "centre", "rotating", "arrays"]
    assert [o["name"] for o in common] == names
    shown["options"] = shown["options"][:2]
    assert [shown] == [
        {
            "name": "mine",
            "package": "good-package 1.0",
            "default_bits": 4,
            "bits_range": [1.0, 8.0],
            "widths": [2, 4],
            "options": [
                {
                    "name": "mode",
                    "type": "str",
                    "default": "a",
                    "help": "which",
                    "choices": ["a", "b"],
                },
                {
                    "name": "skip",
                    "type": "str",
                    "default": "last",
                    "help": "layers left dense: none, last, first2,last1, ...",
                    "choices": [],
                },
            ],
            "summary": "[bold]text",
        }
    ]


def test_schemes_as_a_table(known, capsys):
    assert cli.main(["schemes"]) == 0
    out = capsys.readouterr().out
    for text in ("mine", "good-package 1.0", "2, 4", "mode=a (a|b)", "skip=last", "[bold]text"):
        assert text in out
    assert "plugin broken failed to load: ImportError: no module named 'gone'" in out


def test_plugins_as_json(known, capsys):
    good, broken, quiet = run_json(capsys, "plugins")
    assert good == {
        "entry_point": "good",
        "package": "good-package",
        "version": "1.0",
        "module": "good_module",
        "status": "loaded",
        "error": None,
        "deprecated": [],
        "provides": {"rotations": ["spin", "spin (numpy)"], "schemes": ["mine"]},
    }
    assert broken["status"] == "failed"
    assert broken["error"] == "ImportError: no module named 'gone'"
    assert (quiet["status"], quiet["provides"]) == ("disabled", {})


def test_plugins_as_a_table(known, capsys):
    assert cli.main(["plugins"]) == 0
    out = capsys.readouterr().out
    for text in (
        "rotations: spin, spin (numpy)",
        "schemes: mine",
        "FAILED: ImportError",
        "disabled",
    ):
        assert text in out


def test_the_installed_schemes_are_listed(capsys):
    listed = {each["name"]: each for each in run_json(capsys, "schemes")}
    assert {"turboquant", "uniform"} <= set(listed)
    assert listed["turboquant"]["default_bits"] == 3.5
    assert listed["turboquant"]["package"].startswith("tqcore ")


def test_explain_counts_every_byte(capsys):
    told = run_json(capsys, "explain", "turboquant", "--device", "cpu")
    assert (told["key"]["code_bits"], told["value"]["code_bits"]) == (3, 4)
    assert told["key"]["nbytes"] == 128 * 3 // 8 + 2
    assert told["value"]["bits_per_value"] == 4.125
    for side in ("key", "value"):
        assert sum(plane["nbytes"] for plane in told[side]["planes"]) == told[side]["nbytes"]
    cache = told["cache"]
    assert cache["dense_layers"] == [31]
    assert cache["fp16_bytes_per_token"] == 32 * 8 * 256 * 2
    assert cache["bytes_per_token"] == 31 * 8 * (50 + 66) + 8 * 256 * 2
    assert cache["ratio_over_quantized_layers"] == pytest.approx(512 / 116)
    assert cache["bits_per_value"] == 3.625


def test_explain_counts_what_is_stored_once_a_sequence(capsys):
    scheme = "turboquant:skip=none,sinks=4,centre=balanced"
    told = run_json(capsys, "explain", scheme, "--device", "cpu")
    assert (told["key"]["centre"], told["value"]["centre"]) == ("balanced", "mean")
    assert (told["key"]["learnt_nbytes"], told["value"]["learnt_nbytes"]) == (2 * 256, 256)
    layers_and_heads = 32 * 8
    assert told["cache"]["bytes_per_sequence"] == layers_and_heads * (4 * 512 + 3 * 256)
    assert cli.main(["explain", scheme, "--device", "cpu"]) == 0
    assert "balanced, 512 bytes once a head" in capsys.readouterr().out


def test_explain_spreads_a_fraction_over_layers(capsys):
    options = ("--bits", "4.2", "--layers", "30", "--device", "cpu")
    told = run_json(capsys, "explain", "turboquant:skip=none", *options)
    scale_bits = 16 / 128
    # words hold whole 32-bit units, so that a fraction may cost a word's rest
    assert 4.2 <= told["cache"]["bits_per_value"] - scale_bits <= 4.2 + 32 / 128
    assert told["key"]["code_bits"] == pytest.approx(4.2, abs=1 / 128)


def test_explain_takes_other_shapes(capsys, monkeypatch):
    monkeypatch.setenv("TQCORE_KERNEL", "portable")
    shapes = ("--head-dim", "192", "--value-dim", "128", "--kv-heads", "4", "--q-heads", "24")
    call = ("--layers", "2", "--q-len", "7", "--mask", "causal", "--dtype", "bfloat16")
    widths = ("--key-bits", "8", "--value-bits", "2")
    told = run_json(capsys, "explain", "turboquant", *shapes, *call, *widths, "--device", "cpu")
    assert (told["key"]["dim"], told["value"]["dim"]) == (192, 128)
    assert (told["key"]["code_bits"], told["value"]["code_bits"]) == (8, 2)
    assert told["cache"]["dense_layers"] == []
    assert told["kernel"]["name"] == "portable"
    assert told["kernel"]["dtype"] == "bfloat16"


def test_explain_shows_the_scheme_of_each_side(capsys):
    told = run_json(capsys, "explain", "turboquant+uniform:group_size=32", "--bits", "4")
    assert told["scheme"] == "turboquant+uniform:group_size=32"
    assert (told["key"]["codebook"], told["value"]["codebook"]) == ("beta-lloyd-max", "mlx-affine")
    assert (told["key"]["bits_per_value"], told["value"]["bits_per_value"]) == (4.125, 5)


def test_explain_shows_the_same_as_tables(capsys, monkeypatch):
    monkeypatch.setenv("TQCORE_KERNEL", "portable")
    assert cli.main(["explain", "turboquant:seed=7", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    for text in ("turboquant:seed=7", "hadamard 128 -> 128", "u32le/1", "3.125", "portable", "31"):
        assert text in out


def test_explain_gives_the_reasons_of_every_kernel_that_refuses(capsys, monkeypatch):
    from tests.core.test_select import BEST
    from tqcore import select as selection

    monkeypatch.setattr(selection, "kernels", lambda: (BEST,))
    selection._kernel_for.cache_clear()
    try:
        told = run_json(capsys, "explain", "turboquant", "--device", "cpu")
    finally:
        selection._kernel_for.cache_clear()
    assert told["kernel"]["name"] is None
    assert "best: needs metal, this is cpu, head_dim 128 is not 64" in told["kernel"]["error"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["turbquant"], "did you mean 'turboquant'"),
        (["turboquant:sed=1"], "did you mean 'seed'"),
        (["turboquant:seed=x"], "expected int"),
        (["turboquant:scale=best"], "expected one of auto, norm, mse, unbiased"),
        (["turboquant", "--bits", "9"], "widths are 1 to 8"),
        (["uniform", "--bits", "4.2"], "stores 2, 3, 4, 5, 6, 8 bits"),
        (["turboquant", "--layer", "32"], "0 to 31"),
        (["turboquant", "--q-heads", "30"], "30 query heads do not divide among 8"),
        (["turboquant:skip=middle"], "skip=middle"),
        (["turboquant:rotation=hadamrd"], "did you mean 'hadamard'"),
    ],
)
def test_explain_refuses_with_what_exists(capsys, argv, message):
    assert message in refuse(capsys, "explain", *argv)


@pytest.mark.parametrize("argv", [["--head-dim", "0"], ["--kv-heads", "-1"], ["--device", "tpu"]])
def test_explain_refuses_shapes_that_cannot_be(argv):
    with pytest.raises(SystemExit) as got:
        cli.main(["explain", "turboquant", *argv])
    assert got.value.code == 2


@pytest.mark.parametrize("command", ["schemes", "plugins"])
def test_a_closed_stdout_is_no_crash(command):
    # what `tqcore schemes >&-` does
    line = f"{sys.executable} -m tqcore {command} >&-"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
