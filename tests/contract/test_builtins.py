"""The built-ins pass the kit that is shipped to strangers, by its public door."""

from __future__ import annotations

import pytest

from tqcore.registry import registry
from tqcore.testing import checks
from tqcore.testing.checks.oracle import oracle_of
from tqcore.testing.contract import contract


@contract("builtin")
def test_builtin(check):
    check()


@pytest.mark.parametrize("backend", ["mlx", "numpy"])
def test_encoding_a_sketched_vector_again_adds_its_distortion_once_more(backend):
    component = registry().component("codebook", "beta-lloyd-max-qjl", backend)
    checks.check_codebook_idempotence(component)
    with pytest.raises(AssertionError, match="encoding again"):
        checks.check_codebook_idempotence(component, limit=0.5)


@contract("metal")
def test_metal(check):
    check()


@pytest.mark.parametrize(
    "component",
    [
        each
        for each, package in registry().components()
        if package.startswith("tqcore ") and each.backend == "mlx" and each.kind != "score_kernel"
    ],
    ids=lambda each: f"{each.kind}-{each.name}",
)
def test_every_builtin_part_has_an_oracle_beside_it(component):
    assert oracle_of(component) is not None


@pytest.mark.parametrize("backend", ["mlx", "numpy"])
def test_lloyd_max_reaches_the_papers_bound_and_does_not_drift(backend):
    component = registry().component("codebook", "beta-lloyd-max", backend)
    checks.check_rate_distortion(component, factor=1.0)
    checks.check_codebook_idempotence(component, limit=0.01)


def test_turboquant_reaches_the_papers_bound_end_to_end():
    checks.check_scheme_distortion(registry().scheme("turboquant"), factor=1.0)
