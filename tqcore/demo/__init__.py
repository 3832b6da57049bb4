"""A demonstration on a real model and a real text, at hand on any machine.

``tqcore demo`` runs SmolLM2-135M-Instruct with dense and quantized caches and shows what
each costs and what it changes. Importing this package imports nothing heavy; the parts:

- ``smollm2``: the model as a directory, built once and cached (from ``gguf``, ``convert``).
- ``prompt``, ``plan``, ``runs``, ``table``: the demo itself, over what ``tqcore.measure`` measures.
"""
