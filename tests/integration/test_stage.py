"""A pipeline's stage: layers keep the numbers that they have in the whole model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx_lm
import pytest
from attrs import frozen

import tqcore
from tests.integration import models
from tqcore.adapters.report import report
from tqcore.adapters.stage import Stage, stage_of


@frozen
class Group:
    """What a pipeline asks of a group of processes."""

    number: int
    count: int

    def rank(self) -> int:
        return self.number

    def size(self) -> int:
        return self.count


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.write(tmp_path_factory.mktemp("models") / "six", "qwen2", num_hidden_layers=6)


@pytest.mark.parametrize(("rank", "first"), [(0, 4), (1, 2), (2, 0)])
@pytest.mark.parametrize("early", [True, False])
def test_a_stage_has_its_layers_of_the_model(rank: int, first: int, early: bool, six: Path) -> None:
    model: Any = mlx_lm.load(str(six))[0]
    if not early:
        model.model.pipeline(Group(rank, 3))
    wiring = tqcore.enable(model, "turboquant:skip=first1,layers=2-2:k8v8", 4)
    if early:
        model.model.pipeline(Group(rank, 3))
    assert stage_of(model) == Stage(first, 6)
    layers = report(wiring.make(), wiring.reasons)
    assert [layer.layer for layer in layers] == [first, first + 1]
    assert [layer.reason for layer in layers if "skip" in layer.reason] == (
        ["skip=first1"] if first == 0 else []
    )


def test_a_stage_of_dense_layers_alone_keeps_its_numbers(six: Path) -> None:
    model: Any = mlx_lm.load(str(six))[0]
    model.model.pipeline(Group(0, 3))
    wiring = tqcore.enable(model, "turboquant:skip=last2", 4)
    layers = report(wiring.make(), wiring.reasons)
    assert [(layer.layer, layer.reason) for layer in layers] == [
        (4, "skip=last2"),
        (5, "skip=last2"),
    ]


def test_a_stack_that_says_no_count_has_a_layer_for_every_rank_between(six: Path) -> None:
    model: Any = mlx_lm.load(str(six))[0]
    model.model.pipeline(Group(2, 3))
    del model.model.num_hidden_layers, model.model.args
    assert stage_of(model) == Stage(0, 4)  # two of its own, and two ranks after it


def test_a_whole_model_is_no_stage(lm: Any) -> None:
    assert stage_of(lm[0]) == Stage()
