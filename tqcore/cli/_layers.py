"""The table of ``--kv-report``: what became of every layer."""

from __future__ import annotations

from collections.abc import Sequence

from tqcore.cache import LayerReport
from tqcore.cli._output import print_table

COLUMNS = ("layer", "kind", "key bits", "value bits", "tokens", "quantized", "bytes", "note")


def print_layers(layers: Sequence[LayerReport]) -> None:
    """Print one row a layer; the bits are true ones, scales included."""
    rows = [
        (
            str(layer.layer),
            layer.kind,
            f"{layer.key_bits:.2f}",
            f"{layer.value_bits:.2f}",
            str(layer.tokens),
            str(layer.quantized_tokens),
            f"{layer.nbytes:,}",
            layer.reason,
        )
        for layer in layers
    ]
    print_table(COLUMNS, rows, title="KV cache")
