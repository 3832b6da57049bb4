"""What a benchmark runs, checked before anything is imported or loaded."""

from __future__ import annotations

from pathlib import Path

from attrs import field, frozen
from attrs import validators as v

from tqcore.choice import SchemeChoice
from tqcore.errors import OptionError
from tqcore.schemestring import choose, is_plan

DTYPES = ("float32", "bfloat16", "float16")
SCHEMES = ("turboquant@4", "turboquant@3.5")


@frozen
class Asked:
    """A scheme at a width: ``turboquant@4``, ``turboquant@8/4`` (keys/values), ``uniform``.

    Args:
        text: as the user wrote it.
        choice: checked.
        bits: the one width that was asked for; None with a width a side, or the default.
    """

    text: str
    choice: SchemeChoice
    bits: float | None


def asked(text: str) -> Asked:
    """Parse ``SCHEME``, ``SCHEME@BITS``, ``SCHEME@KEYS/VALUES``, or a plan, ``@FILE``.

    Raises:
        UnknownNameError, OptionError, WidthError: the scheme or a width does not exist.
    """
    if is_plan(text):
        return Asked(text, choose(text), None)
    scheme, at, widths = text.partition("@")
    try:
        bits = [float(part) for part in widths.split("/")] if at else []
    except ValueError:
        bits = [0.0] * 3
    if len(bits) > 2:
        raise OptionError(
            f"{text!r}: expected SCHEME@BITS or SCHEME@KEYS/VALUES, such as turboquant@3.5"
        )
    if len(bits) == 2:
        return Asked(text, choose(scheme, key_bits=bits[0], value_bits=bits[1]), None)
    one = bits[0] if bits else None
    choice = choose(scheme, one)
    return Asked(text, choice, one if one is not None else choice.info.default_bits)


@frozen
class KernelOptions:
    """What `attention` and `encode` run: every combination of the tuples.

    Args:
        schemes: what is compared.
        tokens, batch, gqa, head_dim: sizes; ``gqa`` is query heads a key/value head.
        kv_heads: key/value heads.
        dtypes: of dense attention; the first is that of every input. Empty: the device's usual.
        layers: layers of a step, on distinct buffers; None: 32 on a GPU, 1 on a CPU.
        repeats: turns that count; one more warms up.
        peers: whether mlx-lm's and mlx-vlm's quantization take part.
    """

    schemes: tuple[Asked, ...]
    tokens: tuple[int, ...]
    batch: tuple[int, ...] = (1,)
    gqa: tuple[int, ...] = (4,)
    head_dim: tuple[int, ...] = (128,)
    kv_heads: int = 8
    dtypes: tuple[str, ...] = ()
    layers: int | None = None
    repeats: int = field(default=5, validator=v.ge(1))
    peers: bool = True


@frozen
class GenerateOptions:
    """What `generate` runs.

    Args:
        schemes: what is compared with the dense cache.
        model: a folder or a name on the hub; None takes the demo's model.
        contexts: tokens of the prompts; empty: the device's usual.
        steps: tokens decoded a turn.
        repeats: turns that count; one more warms up.
        chunk: tokens of a prompt read at once; None: 2048 on a GPU, 256 on a CPU.
        peers: whether the host's own quantized caches take part.
        host: ``vlm``, ``lm`` or None for the first that is installed.
    """

    schemes: tuple[Asked, ...]
    model: str | None = None
    contexts: tuple[int, ...] = ()
    steps: int = field(default=4, validator=v.ge(1))
    repeats: int = field(default=5, validator=v.ge(1))
    chunk: int | None = None
    peers: bool = False
    host: str | None = None


def output_folder(path: Path) -> Path:
    """Make the folder now, so that nothing measured is lost for want of it.

    Raises:
        OptionError: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(
            f"--out {path}: no folder can be made there ({error.strerror})"
        ) from error
    return path
