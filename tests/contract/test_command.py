"""``tqcore check``: what it takes, what it prints, and its exit codes."""

from __future__ import annotations

import json
import sys

import pytest

from tqcore import cli


def test_a_component_that_is_sound_exits_with_0(capsys):
    assert cli.main(["check", "rotation:identity", "--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["targets"], told["quick"], told["failed"]) == (["rotation:identity"], True, 0)
    assert told["passed"] == sum(row["status"] == "passed" for row in told["checks"])
    assert {row["item"] for row in told["checks"]} == {
        "rotation-identity-mlx",
        "rotation-identity-numpy",
    }


def test_the_report_lists_every_check_and_what_does_not_apply(capsys):
    assert cli.main(["check", "packer:raw", "--quick"]) == 0
    out = capsys.readouterr().out
    assert "packer-raw-mlx" in out
    assert "ok     check_packer_exact: unpack(pack(codes)) is exactly codes" in out
    assert "n/a    check_compiles: mx.compile traces MLX operations alone" in out
    assert "FAILED" not in out
    assert "of processor time" in out


def test_what_two_targets_share_is_checked_once(capsys):
    assert cli.main(["check", "identity", "rotation:identity", "--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    keys = [(row["item"], row["check"]) for row in told["checks"]]
    assert len(keys) == len(set(keys))


def test_a_check_can_be_left_out(capsys):
    skip = ("--skip", "check_compiles", "--skip", "check_thread_safety")
    assert cli.main(["check", "rotation:identity", "--quick", "--json", *skip]) == 0
    ran = {row["check"] for row in json.loads(capsys.readouterr().out)["checks"]}
    assert "check_rotation_isometry" in ran
    assert not ran & {"check_compiles", "check_thread_safety"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("turboqant",), "unknown plugin, scheme or component 'turboqant'; did you mean"),
        (("hadamard", "--skip", "check_scle"), "did you mean 'check_scale'"),
    ],
)
def test_a_misspelt_name_exits_with_2(capsys, arguments, said):
    assert cli.main(["check", *arguments]) == 2
    came = capsys.readouterr()
    assert said in came.err
    assert came.out == ""


def test_no_target_exits_with_2():
    with pytest.raises(SystemExit) as caught:
        cli.main(["check"])
    assert caught.value.code == 2


def test_without_hypothesis_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    assert cli.main(["check", "hadamard"]) == 2
    assert 'pip install "tqcore[testing]"' in capsys.readouterr().err
