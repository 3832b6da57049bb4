"""``tqcore bench``: speed and memory on the machine at hand, always as ratios.

Contenders take turns in one process, so that a busy moment falls on all of them. Data flows
``options -> cases, contenders -> rows -> report``.
"""
