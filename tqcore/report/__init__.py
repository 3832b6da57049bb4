"""``tqcore report``: what every kind of cache costs and what it changes, on a model and a text.

Importing this package imports nothing heavy. Data flows down this list:

- ``options``: what is asked for. ``contenders``: the caches that it means.
- ``corpus``, ``identity``: the text, and what tells this measurement from another.
- ``divergence``, ``attention``, ``passkey``: the three measurements, a cell at a time.
- ``cells``: finished cells as files, which a later run takes up.
- ``bootstrap``, ``summary``, ``result``: cells become rows.
- ``tables``, ``markdown``, ``plots``, ``page``: rows become files that people read.
- ``run``: all of it in order.
"""
