"""Texts that are nearly something: pieces that the grammars know, in any order, and noise."""

from __future__ import annotations

from hypothesis import strategies as st

PIECES = (
    "turboquant", "uniform", "trellis", "pair", "turboquant-prod", "nope", "", " ", ":", ",", "=",
    "+", "-", ".", ";", "seed", "rotation", "skip", "layers", "sinks", "window", "search", "rounds",
    "group_size", "arrays", "rotating", "scale", "states", "hadamard", "none", "first2", "last1",
    "0-3:k8v4", "k4v4", "9:k99v1", "packed", "dense", "0", "1", "-1", "7", "3.5", "1e400", "nan",
    "inf", "0x10", "\u0661", "1_000", "99999999999999999999", "true", "\x00", "\n", "é", "🦊", "%s", "{}",
    "../..", "os:system",
)  # fmt: skip

texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.text(max_size=40),
)

numbers = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-2, 9),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.5, 1, 2.5, 3.5, 4.2, 8, 8.0001, 10**400]),
    texts,
)

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from([10**400, -1, 0, 2**31, 2**63]), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)  # fmt: skip
