from __future__ import annotations

from types import SimpleNamespace

import pytest

from tqcore.measure.errors import MeasureError
from tqcore.measure.hosts import Loaded, load

pytest.importorskip("mlx_lm")


def test_a_name_of_the_hub_reaches_the_host_and_its_failure_is_explained(monkeypatch):
    asked = []

    def refuse(name: str):
        asked.append(name)
        raise OSError("no network")

    monkeypatch.setattr("mlx_lm.load", refuse)
    with pytest.raises(MeasureError, match=r"owner/name cannot be loaded by mlx-lm: no network"):
        load("owner/name", "lm")
    assert asked == ["owner/name"]


@pytest.mark.parametrize("name", ["nowhere", "/no/such/model", "./a/b/c"])
def test_what_is_neither_a_folder_nor_a_name_is_refused_at_once(monkeypatch, name):
    monkeypatch.setattr("mlx_lm.load", lambda name: pytest.fail("asked the hub"))
    with pytest.raises(MeasureError, match="no model directory"):
        load(name, "lm")


def test_a_folder_without_a_model_is_not_looked_for_on_the_hub(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner" / "name").mkdir(parents=True)
    monkeypatch.setattr("mlx_lm.load", lambda name: pytest.fail("asked the hub"))
    with pytest.raises(MeasureError, match="no model directory"):
        load("owner/name", "lm")


@pytest.mark.parametrize(("encoded", "start"), [([1], (1,)), ([], ()), ([5], ())])
def test_a_start_token_is_one_that_the_tokenizer_sets_itself(encoded, start):
    tokenizer = SimpleNamespace(bos_token_id=1, encode=lambda text: encoded)
    assert Loaded("lm", None, tokenizer).start_tokens == start
    nothing = SimpleNamespace(bos_token_id=None, encode=lambda text: encoded)
    assert Loaded("lm", None, nothing).start_tokens == ()
