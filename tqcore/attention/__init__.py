"""Segmented attention: each segment yields (o, m, l), one merge normalizes.

A cache is a row of segments, quantized or dense, any of them empty. The order of
operations on a logit is fixed: scale, soft-cap, mask, then the online softmax; learnt sink
logits enter once, in the merge. ``naive.py`` is the float64 oracle of all of it.
"""
