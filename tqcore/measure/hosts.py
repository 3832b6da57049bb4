"""Load a model with whichever host is installed, and make that host's own caches."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

from attrs import frozen
from mlx.utils import tree_flatten

from tqcore.measure.errors import MeasureError
from tqcore.measure.forward import Caches, language_model

Host = Literal["vlm", "lm"]
DENSE = "dense"
PEER = "mlx-vlm turboquant"
_HUB = re.compile(r"[\w.-]+/[\w.-]+$")
_PACKAGES: dict[Host, str] = {"vlm": "mlx_vlm", "lm": "mlx_lm"}


@frozen(eq=False)
class Loaded:
    """A model in a host's hands.

    Args:
        host: who loaded it.
        model: maps ids and caches to logits.
        tokenizer: with ``encode``, ``decode`` and ``apply_chat_template``.
        weight_bytes: of all weights, what sees images included.
    """

    host: Host
    model: Any
    tokenizer: Any
    weight_bytes: int = 0

    def encode(self, text: str) -> list[int]:
        """Return the token ids of ``text``, without special tokens of its own."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, tokens: Collection[int]) -> str:
        """Return the text of token ids."""
        return str(self.tokenizer.decode(list(tokens)))

    @property
    def end_tokens(self) -> frozenset[int]:
        """Ids that end an answer."""
        # hosts may have set a list here, or one number
        ids = getattr(self.tokenizer, "eos_token_ids", None) or self.tokenizer.eos_token_id
        return frozenset([ids] if isinstance(ids, int) else ids)

    @property
    def start_tokens(self) -> tuple[int, ...]:
        """The id that every text must start with, where the tokenizer sets one by itself."""
        start = getattr(self.tokenizer, "bos_token_id", None)
        return (start,) if start is not None and start in self.tokenizer.encode("") else ()

    def own_caches(self) -> Caches:
        """Return fresh caches of whatever kinds the model takes."""
        module = importlib.import_module(f"{_PACKAGES[self.host]}.models.cache")
        caches: Caches = module.make_prompt_cache(self.model)
        return caches

    def dense_caches(self) -> Caches:
        """Return fresh dense caches.

        Raises:
            MeasureError: a layer keeps something other than all keys and values.
        """
        caches = self.own_caches()
        other = sorted({type(c).__name__ for c in caches} - {"KVCache"})
        if other:
            raise MeasureError(
                f"this model uses {', '.join(other)}: what is measured are models whose layers "
                "all keep their keys and values; `tqcore generate` runs the others too"
            )
        return caches

    def affine_caches(self, bits: int, group_size: int) -> Caches:
        """Return the host's own caches of affine quantization, mlx-lm's, in every layer."""
        module = importlib.import_module(f"{_PACKAGES[self.host]}.models.cache")
        affine = module.QuantizedKVCache
        return [affine(group_size=group_size, bits=bits) for _ in self.dense_caches()]

    def peer_caches(self, bits: float, quantized: Collection[int]) -> Caches:
        """Return mlx-vlm's TurboQuant caches in the layers ``quantized``, dense ones elsewhere."""
        peer = importlib.import_module("mlx_vlm.turboquant").TurboQuantKVCache
        return [
            peer(bits=bits) if layer in quantized else dense
            for layer, dense in enumerate(self.dense_caches())
        ]


def pick_host(asked: str | None, peers: bool) -> Host:
    """Return the host to use: the one asked for, else mlx-vlm, else mlx-lm.

    Raises:
        MeasureError: it is not installed, or cannot show the peers.
    """
    if peers and asked == "lm":
        raise MeasureError("--peers runs mlx-vlm's own caches, which --host lm cannot: drop one")
    order: tuple[Host, ...] = ("vlm",) if peers or asked == "vlm" else ("vlm", "lm")
    order = ("lm",) if asked == "lm" else order
    for host in order:
        if importlib.util.find_spec(_PACKAGES[host]) is not None:
            return host
    names = " or ".join(_PACKAGES[host].replace("_", "-") for host in order)
    raise MeasureError(f"no host to run a model: pip install {names}")


def load(model: str | Path, host: Host, lazy: bool = False) -> Loaded:
    """Load a model directory, or a model of the Hugging Face hub as ``owner/name``.

    Args:
        model: which.
        host: that loads it.
        lazy: read no weight before it is used.

    Raises:
        MeasureError: no such folder, or the host cannot load it.
    """
    folder = Path(model)
    how = {"lazy": True} if lazy else {}
    if not (folder / "config.json").is_file() and (folder.exists() or not _HUB.match(str(model))):
        raise MeasureError(
            f"model {model}: no model directory (a folder with config.json) is there"
        )
    try:
        found, processor = importlib.import_module(_PACKAGES[host]).load(str(model), **how)[:2]
    except (OSError, ValueError) as error:  # no such model, no network, or unknown to the host
        raise MeasureError(
            f"model {model} cannot be loaded by {_PACKAGES[host].replace('_', '-')}: {error}; "
            "name a folder, or try the other --host"
        ) from error
    # mlx-vlm gives a processor, which holds the tokenizer when the model sees images
    tokenizer = getattr(processor, "tokenizer", processor) if host == "vlm" else processor
    leaves: Any = tree_flatten(found.parameters())
    weights = sum(int(leaf.nbytes) for _, leaf in leaves)
    return Loaded(host, language_model(found), tokenizer, weights)
