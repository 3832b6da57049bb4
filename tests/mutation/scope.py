"""What is mutated: the codec core, each module with the tests that must notice."""

from __future__ import annotations

SCOPE = {
    "tqcore/widths.py": "tests/core/test_widths.py tests/core/test_schemestring.py",
    "tqcore/layers.py": "tests/core/test_layers.py tests/core/test_schemestring.py",
    "tqcore/schemestring.py": "tests/core/test_schemestring.py",
    "tqcore/codec.py": "tests/properties/test_codec.py tests/cache/test_mistakes.py",
    "plugins/tqplugins/ufloat16.py": "tests/properties/test_scale.py",
    "plugins/tqplugins/bitpack/layout.py": "tests/properties/test_packer.py",
    "plugins/tqplugins/bitpack/run.py": "tests/properties/test_packer.py tests/properties/test_bit_runs.py",
    "plugins/tqplugins/bitpack/device.py": "tests/properties/test_packer.py",
    "plugins/tqplugins/lloyd_max/density.py": "tests/properties/test_density.py tests/properties/test_codebook.py",
    "plugins/tqplugins/lloyd_max/levels.py": "tests/properties/test_levels.py tests/properties/test_codebook.py",
    "plugins/tqplugins/lut/unit.py": "tests/properties/test_unit.py tests/properties/test_scale.py tests/properties/test_codebook.py",
    "plugins/tqplugins/lut/policy.py": "tests/properties/test_scale.py",
}

LEFT_OUT = (
    # one other operator is enough to see whether a test looks at the result
    "core/ReplaceBinaryOperator_.*_(Mod|Pow|FloorDiv|BitXor|BitAnd|LShift|RShift|Div)",
    "core/ReplaceBinaryOperator_BitOr_.*",  # annotations, which nobody evaluates
    "core/ReplaceUnaryOperator_.*",
    "core/ReplaceComparisonOperator_.*_(Is|IsNot)",
    "core/RemoveDecorator",  # functools.cache: slower, not wrong
)
"""Mutations that are not made, by cosmic-ray's names."""
