"""``tqcore plan``: which layer and side gets how many bits, under a budget of bytes.

Importing this package imports nothing heavy. Data flows down this list:

- ``sizes``, ``options``: what is asked for.
- ``widths``, ``file``: a plan, as the scheme string that it means and as a TOML file.
- ``shapes``, ``cost``: what a model's layers are, and the bytes that widths take there.
- ``oneside``, ``sensitivity``, ``losses``: what each layer's keys and values lose at each width.
- ``allot``, ``budget``: the widths that lose least within the bytes.
- ``check``: the plan's measured divergence beside that of equal widths.
- ``memory``, ``fit``: what a machine has, and the context that fits.
- ``run``, ``shown``: all of it in order, and as tables.
"""
