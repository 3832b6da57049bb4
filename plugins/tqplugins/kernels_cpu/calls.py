"""The argument of the compiled functions: one record of addresses, strides and counts.

Addresses and strides are in bytes. One record keeps the compiled functions at one signature
each, whatever the arrays' layouts, so that they are compiled once and cached.
"""

from __future__ import annotations

import numpy as np

BLOCK = 32
"""Tokens that are expanded together."""

LANES = 16
"""Symbols of a trellis that are looked up together in registers."""

TILE = 64
"""Query rows of a head that share an expanded block."""

SHUFFLED_BITS = 4
"""Widths up to this are looked up in registers, where the processor can."""

PAIR_BITS = 5
"""Widths up to this have tables of pairs, 8 KB at most: more would not stay in the L1 cache."""


def _fields(text: str, kind: type = np.int64) -> list[tuple[str, type]]:
    return [(name, kind) for name in text.split()]


SIDE = np.dtype(
    [
        # the compiled function that expands it; floats a vector is expanded to
        *_fields("expand dim padded"),
        # the stream: its address, bytes to the next row, head and token, bytes of a vector
        *_fields("words words_b words_h words_t row_bytes"),
        # the scale a vector, or the scales of its groups (affine)
        *_fields("scales scales_b scales_h scales_t"),
        # the second side plane: the groups' biases (affine), the residual's length (lut+sign)
        *_fields("biases biases_b biases_h biases_t group"),
        # runs of codes, of none where there are fewer: first bit, codes, width, the table of
        # levels in pairs or single or of points, that for look-ups in registers or 0
        *_fields("start0 count0 width0 levels0 shuffled0 start1 count1 width1 levels1 shuffled1"),
        *_fields("start2 count2 width2 levels2 shuffled2"),
        # of a trellis: coordinates a symbol, and how codes are cut out of bytes (``cuts.py``) or 0
        *_fields("states span windows whole"),
    ]
)
"""One side, keys or values. ``padded``: ``dim`` rounded up to whole vector registers."""

ATTEND = np.dtype(
    [
        ("key", SIDE),
        ("value", SIDE),
        # heads are key/value heads; rows are the queries of one of them, head by head
        *_fields("batch heads rows queries tokens tile tiles span spans"),
        # float32: q [batch, heads, rows, Dk]; o, m, l [spans, batch, heads, rows, (Dv)]
        *_fields("q o m l"),
        # the mask array's address and strides, uint8 or float32; 0: none
        *_fields("mask mask_b mask_h mask_q mask_t mask_bytes"),
        # position of the first query less that of the first key; padding int64 [batch] or 0
        *_fields("causal offset padding"),
        *_fields("scale softcap", np.float32),
        # zeros, float32, ``scratch_bytes`` a thread; the next task
        *_fields("scratch scratch_bytes ticket"),
    ],
    align=True,
)
"""One attention call. A task is a span of tokens and a tile of rows of one key/value head."""

TICKET = int(ATTEND.fields["ticket"][1]) if ATTEND.fields else 0
"""Where in the record the next task's number is."""

FLOAT, HALF, BFLOAT = 0, 1, 2
"""Kinds of input."""

NORM, MSE, UNBIASED = 0, 1, 2
"""Scale policies, ``tqplugins.lut.policy``."""

GRID = 1024
"""Cells over a table's range, each with the first level that it can be nearest to."""

GROUP = 8
"""Vectors that a quantizer is given together: it may take one a lane."""

ENCODE = np.dtype(
    [
        *_fields("kind dim batch heads tokens chunk chunks"),
        # the input [batch, heads, tokens, dim], and its largest magnitude
        *_fields("x x_b x_h x_t"),
        # the rotation: rounds of order int64 [dim] or 0, signs float32 [dim], blocks int64
        *_fields("rounds blocks block_sizes signs orders matrix"),
        # the compiled function that finds codes, and the bytes of memory it wants for itself
        *_fields("quantize spare_bytes"),
        # two runs of codes, as in SIDE; of levels, those, the boundaries of their upper half,
        # float32 with infinity last, and the grid's first candidates, uint8
        *_fields("count0 width0 levels0 bounds0 grid0 count1 width1 levels1 bounds1 grid1"),
        # float32 factors on the norm, of which the best is taken
        *_fields("sizes tried"),
        # points [n, span]; of pairs, uint8 [cells, most] that can be nearest; of a trellis, by
        # label: [4, upper, span]
        *_fields("points span candidates most states upper"),
        *_fields("policy"),
        # uint32 [batch, heads, tokens, row_words] and uint16 [batch, heads, tokens]
        *_fields("words row_words scales scratch scratch_bytes ticket"),
        *_fields("largest cells0 cells1 root", np.float32),
    ],
    align=True,
)
"""The encoding of one side; a call is two records, keys and values. A task: some vectors."""

ENCODE_TICKET = int(ENCODE.fields["ticket"][1]) if ENCODE.fields else 0
