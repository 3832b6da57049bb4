"""The caches that `bench generate` compares: dense, schemes, and the host's own quantized ones."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from attrs import frozen

from tqcore.bench.contender import LeftOut
from tqcore.bench.options import GenerateOptions
from tqcore.bench.peers import AFFINE, AFFINE_BITS, TURBOQUANT, group_size
from tqcore.cache import make_caches
from tqcore.demo.plan import quantized_layers
from tqcore.errors import OptionError
from tqcore.measure.forward import Caches, logits
from tqcore.measure.hosts import Loaded


@frozen
class Mode:
    """A way to cache: its name, and what makes fresh caches."""

    name: str
    make: Callable[[], Caches]


def modes(options: GenerateOptions, loaded: Loaded) -> tuple[list[Mode], list[LeftOut]]:
    """Return the dense cache first, then every scheme with its peers, and who is left out."""
    dense = loaded.dense_caches()
    vocabulary = logits(loaded.model, [0], dense).shape[-1]
    assert vocabulary > 1
    keys = dense[0].keys
    found = [Mode(f"dense {str(keys.dtype).removeprefix('mlx.core.')}", loaded.dense_caches)]
    left_out: list[LeftOut] = []
    for each in options.schemes:

        def own(choice: object = each.choice) -> Caches:
            return make_caches(choice, len(dense), host=loaded.host)  # type: ignore[arg-type]

        found.append(Mode(each.text, own))
        if options.peers and each.bits is not None:
            peers, missing = _peers(loaded, each.bits, quantized_layers(own()), keys.shape[-1])
            known = {mode.name for mode in found}
            found += [peer for peer in peers if peer.name not in known]
            left_out += missing
    return found, list(dict.fromkeys(left_out))


def _peers(
    loaded: Loaded, bits: float, layers: list[int], dim: int
) -> tuple[list[Mode], list[LeftOut]]:
    """Return the host's caches that quantize the same ``layers``."""
    found: list[Mode] = []
    left_out: list[LeftOut] = []
    name = f"{AFFINE}@{bits:g}"
    try:
        group = group_size(dim)
    except OptionError as error:
        left_out.append(LeftOut(name, str(error)))
    else:
        if bits in AFFINE_BITS:
            found.append(Mode(name, lambda: _affine(loaded, int(bits), group, layers)))
        else:
            left_out.append(LeftOut(name, f"it stores {', '.join(map(str, AFFINE_BITS))} bits"))
    if loaded.host == "vlm":
        found.append(Mode(f"{TURBOQUANT}@{bits:g}", lambda: loaded.peer_caches(bits, layers)))
    else:
        left_out.append(LeftOut(TURBOQUANT, "mlx-lm runs the model: it is mlx-vlm's cache"))
    return found, left_out


def _affine(loaded: Loaded, bits: int, group: int, layers: list[int]) -> Caches:
    kind = importlib.import_module(f"mlx_{loaded.host}.models.cache").QuantizedKVCache
    return [
        kind(group_size=group, bits=bits) if layer in layers else dense
        for layer, dense in enumerate(loaded.dense_caches())
    ]
