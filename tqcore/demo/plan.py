"""Which runs a demo makes, and with which caches."""

from __future__ import annotations

from pathlib import Path

from attrs import field, frozen
from attrs import validators as v

from tqcore.measure.forward import Caches
from tqcore.measure.hosts import DENSE, PEER, Loaded
from tqcore.schemestring import choose
from tqcore.spec import ShapeCtx
from tqcore.widths import Widths


@frozen
class Options:
    """What to run.

    Args:
        scheme: scheme string.
        bits: a run for each of these widths.
        peers: also run mlx-vlm's TurboQuant at these widths.
        context: tokens of the prompt; a multiple of 256 leaves no cache any slack.
        max_tokens: tokens of the answer at most.
        model: a model directory; None takes the demo model.
        text: a text file to ask about; None takes CPython's manual.
        question: what to ask; None asks something that suits the text.
        host: ``vlm``, ``lm``, or None for the first that is installed.
    """

    scheme: str = "turboquant"
    bits: tuple[float, ...] = (4.0, 3.5, 3.0, 2.0)
    peers: bool = False
    context: int = field(default=512, validator=v.ge(1))
    max_tokens: int = field(default=32, validator=v.ge(1))
    model: Path | None = None
    text: Path | None = None
    question: str | None = None
    host: str | None = None

    def check(self) -> None:
        """Check scheme and widths, before anything is downloaded or loaded.

        Raises:
            UnknownNameError, OptionError, WidthError: as ``tqcore.schemestring.choose``.
        """
        for bits in self.bits:
            choose(self.scheme, bits)


@frozen(eq=False)
class Run:
    """One run: a name, the widths it stands for, and its caches."""

    name: str
    scheme: str | None
    key_bits: float | None
    value_bits: float | None
    caches: Caches


def plan(options: Options, loaded: Loaded) -> list[Run]:
    """Return the runs, the dense reference first; caches are fresh."""
    from tqcore.cache import make_caches

    runs = [Run(DENSE, None, None, None, loaded.dense_caches())]
    n_layers = len(runs[0].caches)
    for bits in options.bits:
        choice = choose(options.scheme, bits)
        spec = choice.resolve(ShapeCtx(n_layers=n_layers))
        caches = make_caches(choice, n_layers, host=loaded.host)
        name = f"{options.scheme} {bits:g}"
        runs.append(Run(name, options.scheme, spec.key.bits, spec.value.bits, caches))
        if options.peers:
            peer = loaded.peer_caches(bits, quantized_layers(caches))
            runs.append(Run(f"{PEER} {bits:g}", PEER, *Widths(bits).sides(), peer))
    return runs


def quantized_layers(caches: Caches) -> list[int]:
    """Return the layers that tqcore's ``caches`` will quantize; they may still be empty.

    The peers quantize the same ones, whatever the scheme leaves dense.
    """
    # A host's own cache, in a layer that was left to it, knows no such attribute.
    return [i for i, cache in enumerate(caches) if getattr(cache, "left_dense", "host") is None]
