"""Load the model of ``bench generate``: the demo's, a folder, or a name on the hub."""

from __future__ import annotations

import importlib
from pathlib import Path

from rich.progress import Progress

from tqcore.demo.errors import DemoError
from tqcore.demo.smollm2 import ensure_model
from tqcore.measure.forward import language_model
from tqcore.measure.hosts import Host, Loaded, load


def load_model(name: str | None, host: Host, progress: Progress) -> Loaded:
    """Return the model in ``host``'s hands.

    Raises:
        DemoError: neither a folder has it nor can the host load it.
    """
    if name is None:
        return load(ensure_model(progress), host)
    if Path(name).is_dir() or name.count("/") != 1:
        return load(Path(name), host)
    try:
        model, processor = importlib.import_module(f"mlx_{host}").load(name)[:2]
    except Exception as error:  # the hub's client and the host raise what they like
        why = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise DemoError(
            f"model {name!r}: no folder of this name, and mlx-{host} could not load it ({why})"
        ) from error
    tokenizer = getattr(processor, "tokenizer", processor) if host == "vlm" else processor
    return Loaded(host, language_model(model), tokenizer)
