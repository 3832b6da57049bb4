"""Measuring a model with any list of caches; what ``tqcore demo`` and ``tqcore report`` share.

Importing this package imports nothing heavy; the parts:

- ``hosts``: a model in mlx-vlm's or mlx-lm's hands, and that host's own caches.
- ``forward``, ``greedy``: running it over token ids.
- ``quality``, ``memory``: what a cache changes, and what it takes.
- ``text``: long prose that ships with CPython.
- ``numpy_matmul``, ``progress``: making it fast where it can be, and showing how far it is.
"""
