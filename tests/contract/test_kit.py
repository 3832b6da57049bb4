"""The kit finds the faults it is there to find, and selects what it is asked for."""

from __future__ import annotations

import mlx.core as mx
import pytest

from tests.core.helpers import Point, component, plugin, points, scheme
from tqcore.errors import OptionError, PluginError, UnknownNameError
from tqcore.registry import Registry, registry
from tqcore.testing import checks
from tqcore.testing.contract import contract
from tqcore.testing.outcome import outcomes
from tqcore.testing.suite import CHECKS
from tqcore.testing.targets import id_of, items_of
from tqcore.testing.verdict import CheckFailed, NotApplicable
from tqplugins.lloyd_max.device import LloydMaxCodebook


def faulty(name: str, kind: str):
    target = f"tests.contract.faulty:{name}"
    return component(name.lower(), kind, target=target, backend="numpy")


@pytest.mark.parametrize(
    ("kind", "name", "check"),
    [
        ("rotation", "Stretches", checks.check_rotation_isometry),
        ("rotation", "Sheared", checks.check_rotation_isometry),
        ("rotation", "Sheared", checks.check_rotation_adjoint),
        ("rotation", "Forgets", checks.check_rotation_inverse),
        ("rotation", "NoInverse", checks.check_protocol),
        ("rotation", "Restless", checks.check_deterministic),
        ("packer", "DropsTopBit", checks.check_packer_exact),
        ("packer", "OtherBytes", checks.check_packer_layout),
        ("packer", "OneByteACode", checks.check_packer_bytes),
        ("packer", "Misdeclared", checks.check_packer_planes),
        ("codebook", "HalfTheCodes", checks.check_rate_distortion),
        ("codebook", "Float16Norm", checks.check_finite_extremes),
        ("codebook", "MixesRows", checks.check_poisoned_row),
        ("codebook", "NeverZero", checks.check_zero_vector),
        ("codebook", "OtherScale", checks.check_decode_kind),
        ("codebook", "IdleTrellis", checks.check_beats_scalar),
        ("codebook", "StartsInZero", checks.check_no_bias),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_fault_is_found_and_the_message_names_the_component(kind, name, check):
    with pytest.raises(CheckFailed, match=name.lower()) as caught:
        check(faulty(name, kind))
    assert caught.value.expected
    assert caught.value.got
    assert caught.value.given


@pytest.mark.parametrize(("kind", "name"), [("packer", "OneByteACode"), ("rotation", "Stretches")])
def test_a_fault_does_not_fail_the_checks_of_other_properties(kind, name):
    check = checks.check_packer_planes if kind == "packer" else checks.check_deterministic
    check(faulty(name, kind))


def test_every_exported_check_runs_somewhere():
    used = {check.__name__ for kind in CHECKS.values() for check in kind}
    assert used == set(checks.__all__)


@pytest.mark.parametrize("name", checks.__all__)
def test_every_check_says_what_it_checks(name):
    assert getattr(checks, name).__doc__


def learns_its_range_from_the_first_chunk(encode):
    def planted(self, u):
        norm = mx.linalg.norm(u, axis=-1, keepdims=True)
        self.largest = getattr(self, "largest", norm.max())
        return encode(self, u * mx.minimum(1, self.largest / mx.maximum(norm, 1e-30)))

    return planted


def test_a_scheme_that_learns_its_range_from_the_first_chunk_is_found(monkeypatch):
    monkeypatch.setenv("TQCORE_KERNEL", "portable")
    info = registry().scheme("turboquant")
    checks.check_scheme_centring(info)
    encode = LloydMaxCodebook.encode
    planted = learns_its_range_from_the_first_chunk(encode)
    monkeypatch.setattr(LloydMaxCodebook, "encode", planted)
    with pytest.raises(AssertionError, match="keys around a far point"):
        checks.check_scheme_centring(info)


def test_means_that_attention_forgets_are_found(monkeypatch):
    monkeypatch.setattr("tqcore.cache.segments.centred", lambda attend, centre: attend)
    with pytest.raises(AssertionError, match="attention over a cache is the formula"):
        checks.check_scheme_centring(registry().scheme("turboquant"))


@pytest.fixture
def known() -> Registry:
    return Registry(
        points(
            Point("mine", plugin(schemes=[scheme("one"), scheme("two")]), "my-package"),
            Point("silent", plugin()),
            Point("broken", ImportError("gone")),
        ),
        (),
    )


@pytest.mark.parametrize("target", ["mine", "my-package"])
def test_a_plugin_is_found_by_entry_point_or_package(known, target):
    assert [item.name for item in items_of(target, known)] == ["one", "two"]


def test_a_scheme_brings_its_parts():
    names = [item.name for item in items_of("turboquant", registry())]
    assert names == ["turboquant", "hadamard", "beta-lloyd-max", "u32le"]


def test_what_is_not_there_is_an_error_not_an_empty_test(known):
    with pytest.raises(UnknownNameError, match="did you mean 'my-package'"):
        contract("my-pakage", known)
    with pytest.raises(PluginError, match="gone"):
        contract("broken", known)
    with pytest.raises(PluginError, match="declares nothing"):
        contract("silent", known)


def test_checks_can_be_left_out_by_name(known):
    mark = contract("mine", known, skip=("check_spec_json",)).mark
    ids = [param.id for param in mark.args[1]]
    assert "scheme-one-check_scheme_bytes" in ids
    assert "scheme-one-check_spec_json" not in ids


def test_a_check_can_be_left_out_for_one_part_alone(known):
    mark = contract("mine", known, skip=("scheme-one-check_spec_json",)).mark
    ids = [param.id for param in mark.args[1]]
    assert "scheme-one-check_spec_json" not in ids
    assert {"scheme-one-check_scheme_bytes", "scheme-two-check_spec_json"} <= set(ids)


@pytest.mark.parametrize("target", ["mine_module", "My_Package", "my.package"])
def test_a_plugin_is_found_by_import_name_and_however_its_package_is_written(known, target):
    assert len(items_of(target, known)) == 2


def test_a_component_is_found_by_name_and_by_kind():
    assert [id_of(item) for item in items_of("hadamard", registry())] == [
        "rotation-hadamard-mlx",
        "rotation-hadamard-numpy",
    ]
    assert "scheme-pair" in [id_of(item) for item in items_of("pair", registry())]
    assert [id_of(item) for item in items_of("codebook:pair", registry())] == [
        "codebook-pair-mlx",
        "codebook-pair-numpy",
    ]
    with pytest.raises(UnknownNameError):
        items_of("packer:pair", registry())


def test_what_raises_is_a_failure_that_names_the_place():
    came = {o.check: o for o in outcomes([faulty("Raises", "rotation")])}
    outcome = came["check_rotation_isometry"]
    assert outcome.status == "failed"
    assert "ZeroDivisionError: " in outcome.got
    assert "faulty.py" in outcome.got


def test_a_check_that_says_nothing_says_why():
    (outcome,) = outcomes(
        [registry().component("rotation", "hadamard", "numpy")],
        skip={check.__name__ for check in CHECKS["rotation"]} - {"check_compiles"},
    )
    assert outcome.status == "not applicable"
    assert outcome.reason == "mx.compile traces MLX operations alone"
    with pytest.raises(NotApplicable):
        checks.check_compiles(registry().component("rotation", "hadamard", "numpy"))


def test_quick_tries_fewer_widths():
    component = registry().component("codebook", "beta-lloyd-max", "numpy")
    skip = {check.__name__ for check in CHECKS["codebook"]} - {"check_no_bias"}
    (full,), (quick,) = (list(outcomes([component], quick, skip)) for quick in (False, True))
    assert quick.status == full.status == "passed"
    assert quick.seconds < full.seconds / 2


def test_what_needs_params_names_an_example_of_its_own():
    learnt = faulty("Learnt", "rotation")
    checks.check_rotation_isometry(learnt)
    checks.check_deterministic(learnt)


def test_a_table_that_another_thread_cannot_evaluate_is_found():
    with pytest.raises(CheckFailed, match="fails in another thread") as caught:
        checks.check_thread_safety(component("lazy", target="tests.contract.faulty:LazyTable"))
    assert "mx.eval" in caught.value.expected
    assert "Stream" in caught.value.got


def test_what_cannot_be_compiled_is_found():
    with pytest.raises(CheckFailed, match="cannot be compiled") as caught:
        checks.check_compiles(component("eager", target="tests.contract.faulty:Evaluates"))
    assert "make_vectors(64, 5" in caught.value.given


def test_decoding_that_knows_more_than_the_planes_is_found():
    with pytest.raises(CheckFailed, match="less distortion than the bits"):
        checks.check_rate_distortion(faulty("Remembers", "codebook"))


def test_what_refuses_everything_fails_once():
    came = list(outcomes([faulty("Refuses", "codebook")]))
    assert [o.check for o in came if o.status == "failed"] == ["check_protocol"]
    assert "(64, 4): never" in next(o.got for o in came if o.status == "failed")
    assert "see check_protocol" in next(o.reason for o in came if o.check == "check_zero_vector")


def test_a_width_that_only_a_scheme_declares_is_tried(monkeypatch):
    declared = Registry(points(Point("odd", plugin(schemes=[scheme("odd", widths=(1.6,))]))), ())
    monkeypatch.setattr("tqcore.testing.checks._subject.registry", lambda: declared)
    checks.check_protocol(faulty("OnlyOdd", "codebook"))
    checks.check_zero_vector(faulty("OnlyOdd", "codebook"))


def test_a_scheme_with_options_brings_the_parts_that_they_select():
    items = items_of("turboquant:search=8,rotation=identity", registry())
    assert [item.name for item in items] == [
        "turboquant",
        "identity",
        "beta-lloyd-max-search",
        "u32le",
    ]
    assert dict(items[0].resolve(4).key.params)["search"] == 8
    with pytest.raises(OptionError, match="skip is the cache's"):
        items_of("turboquant:skip=none", registry())
    with pytest.raises(OptionError, match="did you mean 'search'"):
        items_of("turboquant:serch=8", registry())
