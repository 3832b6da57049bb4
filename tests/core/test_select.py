"""Kernels: the best that serves, reasons for the rest, and explicit requests that raise."""

from __future__ import annotations

import logging

import pytest

from tqcore import select as selection
from tqcore.errors import KernelError, UnknownNameError
from tqcore.select import (
    KERNEL_VARIABLE,
    EncodeRequest,
    KernelRequest,
    SideSpec,
    _kernel_for,
    encoder_for,
    kernel_for,
    select,
    select_encoder,
)

SIDE = SideSpec(128, 4, "u32le/1", "lut")
REQUEST = KernelRequest("cpu", "float16", SIDE, SIDE)


class Kernel:
    lazy = True

    def __init__(self, name: str, priority: int, *reasons: str) -> None:
        self.name, self.priority, self.reasons = name, priority, reasons

    def refuses(self, request: KernelRequest) -> list[str]:
        return list(self.reasons)


BEST = Kernel("best", 20, "needs metal, this is cpu", "head_dim 128 is not 64")
MIDDLE = Kernel("middle", 10)
LAST = Kernel("last", 0)


def test_auto_takes_the_highest_priority_that_serves():
    choice = select([LAST, BEST, MIDDLE], REQUEST)
    assert choice.kernel is MIDDLE
    assert choice.rejected == (("best", ("needs metal, this is cpu", "head_dim 128 is not 64")),)


def test_equal_priorities_are_taken_by_name_whatever_the_order():
    a, b = Kernel("a", 5), Kernel("b", 5)
    assert select([b, a], REQUEST).kernel is select([a, b], REQUEST).kernel is a


def test_a_named_kernel_is_taken_though_a_better_one_serves():
    choice = select([LAST, MIDDLE], REQUEST, "last")
    assert choice.kernel is LAST
    assert choice.rejected == ()


def test_a_named_kernel_that_refuses_raises_with_every_reason():
    with pytest.raises(KernelError, match="kernel 'best' refuses this") as got:
        select([LAST, BEST], REQUEST, "best")
    assert "needs metal, this is cpu, head_dim 128 is not 64" in str(got.value)


def test_an_unknown_kernel_suggests():
    with pytest.raises(UnknownNameError, match="did you mean 'middle'"):
        select([LAST, MIDDLE], REQUEST, "midle")


@pytest.mark.parametrize("kernels", [[], [BEST]])
def test_when_none_serves_the_reasons_are_listed(kernels):
    with pytest.raises(KernelError, match="no kernel serves this") as got:
        select(kernels, REQUEST)
    assert ("best: needs metal" in str(got.value)) == bool(kernels)
    assert ("no kernel is registered" in str(got.value)) == (not kernels)


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(selection, "kernels", lambda: (LAST, BEST, MIDDLE))
    _kernel_for.cache_clear()
    yield
    _kernel_for.cache_clear()


def test_rejections_are_logged_once(installed, caplog):
    caplog.set_level(logging.INFO, "tqcore.kernels")
    kernel_for(REQUEST)
    kernel_for(REQUEST)
    assert [r.getMessage() for r in caplog.records] == [
        "kernel best passed over for middle: needs metal, this is cpu, head_dim 128 is not 64"
    ]


def test_the_environment_names_a_kernel(installed, monkeypatch):
    monkeypatch.setenv(KERNEL_VARIABLE, "last")
    assert kernel_for(REQUEST).kernel is LAST
    monkeypatch.setenv(KERNEL_VARIABLE, "best")
    with pytest.raises(KernelError, match="'best' refuses"):
        kernel_for(REQUEST)


def test_a_change_of_the_environment_is_seen(installed, monkeypatch):
    assert kernel_for(REQUEST).kernel is MIDDLE
    monkeypatch.setenv(KERNEL_VARIABLE, "last")
    assert kernel_for(REQUEST).kernel is LAST


def test_an_argument_beats_the_environment(installed, monkeypatch):
    monkeypatch.setenv(KERNEL_VARIABLE, "last")
    assert kernel_for(REQUEST, "middle").kernel is MIDDLE


class Good:
    name, priority, lazy = "good", 1, True

    def refuses(self, request):
        return []

    def attend(self, *args, **kwargs):
        raise NotImplementedError


def test_a_kernel_that_cannot_be_built_is_logged_and_left_out(monkeypatch, caplog):
    from tests.core.helpers import component, plugin
    from tqcore.registry import Registry

    known = Registry((), ())
    targets = {
        "good": f"{__name__}:Good",
        "bare": "builtins:object",
        "gone": "no_such_module:Kernel",
    }
    items = [component(name, "score_kernel", target=t) for name, t in targets.items()]
    known.register(plugin(score_kernels=items), "mine")
    monkeypatch.setattr(selection, "registry", lambda: known)
    selection._built.cache_clear()
    try:
        assert [kernel.name for kernel in selection.kernels()] == ["good"]
    finally:
        selection._built.cache_clear()
    assert "score kernel gone is not available" in caplog.text
    assert "'bare' has no name" in caplog.text


class Encoding(Kernel):
    def __init__(self, name: str, priority: int, *reasons: str) -> None:
        super().__init__(name, priority)
        self.encode_reasons = reasons

    def attend(self, *args, **kwargs):
        raise NotImplementedError

    def refuses_encode(self, request: EncodeRequest) -> list[str]:
        return list(self.encode_reasons)

    def encode(self, keys, values, key_codec, value_codec):
        raise NotImplementedError


ENCODER = Encoding("encoder", 5)
PICKY = Encoding("picky", 7, "knows no such rotation")
ENCODE = EncodeRequest("cpu", "float16", object(), object())


def test_the_best_kernel_that_encodes_is_taken_and_the_rest_give_reasons():
    chosen = select_encoder([ENCODER, BEST, PICKY], ENCODE)
    assert chosen.kernel is ENCODER
    assert chosen.rejected == (("picky", ("knows no such rotation",)),)


@pytest.mark.parametrize(("prefer", "kernels"), [("middle", [MIDDLE, ENCODER]), ("picky", [PICKY, ENCODER]), ("auto", [LAST])])  # fmt: skip
def test_the_codecs_encode_where_no_kernel_that_may_be_used_does(prefer, kernels):
    assert select_encoder(kernels, ENCODE, prefer).kernel is None


def test_an_unknown_encoder_suggests():
    with pytest.raises(UnknownNameError, match="did you mean 'encoder'"):
        select_encoder([ENCODER], ENCODE, "encodr")


def test_rejections_of_encoders_are_logged_once(monkeypatch, caplog):
    monkeypatch.setattr(selection, "kernels", lambda: (ENCODER, PICKY))
    caplog.set_level(logging.INFO, "tqcore.kernels")
    request = EncodeRequest("cpu", "float32", object(), object())
    assert encoder_for(request).kernel is encoder_for(request).kernel is ENCODER
    assert [r.getMessage() for r in caplog.records] == [
        "kernel picky passed over for encoder's encoding: knows no such rotation"
    ]
