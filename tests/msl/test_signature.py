"""The text is MLX's own, byte for byte; MLX prints it on any machine."""

import os
import random
import sys
import tempfile

import mlx.core as mx
import pytest

from tqcore.testing.msl.signature import ATTRIBUTES, TYPES, Definition, signature

KEEPS_MINUS = tuple(map(int, mx.__version__.split(".")[:3])) < (0, 32, 4)
"""This MLX leaves the minus sign of a template argument in the function's name, where the emulator
writes what newer ones do: with the sign it is no identifier, and no kernel that compiles has it."""

SHAPES = [(), (1,), (3,), (7,), (8,), (2, 3), (4, 5), (2, 2, 2)]


def printed(call):
    """Return what ``call`` writes to the process's standard output."""
    sys.stdout.flush()
    kept = os.dup(1)
    with tempfile.TemporaryFile("w+") as file:
        os.dup2(file.fileno(), 1)
        try:
            call()
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return file.read()


def drawn(rng):
    inputs = [(rng.choice(list(TYPES)), rng.choice(SHAPES)) for _ in range(rng.randint(1, 4))]
    names = tuple(f"in{i}" for i in range(len(inputs)))
    outputs = tuple(f"out{i}" for i in range(rng.randint(1, 3)))
    words = [*ATTRIBUTES, *(name + s for name in names for s in ("_shape", "_strides", "_ndim"))]
    definition = Definition(
        name=f"k{rng.randint(0, 99)}",
        input_names=names,
        output_names=outputs,
        source="\n".join(rng.sample(words, rng.randint(0, 6))),
        header=rng.choice(["", "// header\n", "// no newline", "#define A 1\nint b;\n"]),
        atomic_outputs=rng.random() < 0.3,
    )
    values = [True, False, 3, -2, "float16", "bfloat16", "uint32", "bool"]
    template = [(f"T{i}", rng.choice(values)) for i in range(rng.randint(0, 3))]
    return definition, inputs, [rng.choice(list(TYPES)) for _ in outputs], template


def mlx_dtype(name):
    return getattr(mx, "bool_" if name == "bool" else name)


def as_this_mlx(text, kernel, template):
    """Return the emulator's text with the function's name as the installed MLX writes it."""
    words = [str(int(v)) if isinstance(v, int) else TYPES[v] for _, v in template]
    name = f"custom_kernel_{kernel}__" + "_".join(words)
    return text.replace(name.replace("-", "_"), name) if KEEPS_MINUS else text


@pytest.mark.parametrize("seed", range(60))
def test_the_text_is_what_mlx_prints(seed, tmp_path):
    definition, inputs, dtypes, template = drawn(random.Random(seed))
    kernel = mx.fast.metal_kernel(
        name=definition.name,
        input_names=definition.input_names,
        output_names=definition.output_names,
        source=definition.source,
        header=definition.header,
        atomic_outputs=definition.atomic_outputs,
    )

    def call(*arrays):
        return kernel(
            inputs=list(arrays),
            template=[(k, mlx_dtype(v) if isinstance(v, str) else v) for k, v in template] or None,
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
            output_shapes=[(2,)] * len(dtypes),
            output_dtypes=[mlx_dtype(name) for name in dtypes],
            verbose=True,
        )

    arrays = [mx.zeros(shape, mlx_dtype(name)) for name, shape in inputs]
    text = printed(lambda: mx.export_function(str(tmp_path / "kernel.mlxfn"), call, *arrays))
    ours = signature(definition, inputs, dtypes, template)
    expected = as_this_mlx(ours.text, definition.name, template)
    assert text == f"Generated source code for `{definition.name}`:\n```\n{expected}\n```\n"
    lines = ours.text.split("\n")
    assert lines[ours.source_line - 1] == definition.source.split("\n")[0]
    assert lines[: ours.header_lines] == definition.header.split("\n")[: ours.header_lines]
