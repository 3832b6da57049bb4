"""What ``tqcore explain`` says: gathered as plain data first, printed second."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from tqcore.choice import SchemeChoice
from tqcore.cli._output import print_table
from tqcore.codec import Codec, codec_for, side_spec
from tqcore.errors import KernelError, OptionError
from tqcore.schemestring import brief
from tqcore.select import EncodeRequest, KernelRequest, encoder_for, kernel_for
from tqcore.spec import CodecSpec, SchemeSpec, ShapeCtx

FP16_BYTES = 2
LEARNT_BYTES = 2
"""Of a value that is learnt, ``tqcore.cache.centre.DTYPE``, which needs mlx."""


def describe(choice: SchemeChoice, args: argparse.Namespace) -> dict[str, Any]:
    """Return everything about ``choice`` at the shapes in ``args``, JSON-ready.

    Raises:
        OptionError: a layer that is not among the layers, or heads that do not divide.
    """
    if not 0 <= args.layer < args.layers:
        raise OptionError(
            f"layer {args.layer}: a model of {args.layers} layers has 0 to {args.layers - 1}"
        )
    if args.q_heads % args.kv_heads:
        raise OptionError(
            f"{args.q_heads} query heads do not divide among {args.kv_heads} key/value heads"
        )
    dims = (args.head_dim, args.value_dim or args.head_dim)
    specs = [_resolve(choice, layer, dims, args) for layer in range(args.layers)]
    spec = specs[args.layer]
    key, value = codec_for(spec.key, dims[0]), codec_for(spec.value, dims[1])
    return {
        "scheme": choice.text,
        "package": choice.package,
        "layer": args.layer,
        "key": _side(key),
        "value": _side(value),
        "cache": _cache(specs, dims, args.kv_heads),
        "kernel": _kernel(key, value, args),
    }


def _resolve(
    choice: SchemeChoice, layer: int, dims: tuple[int, int], args: argparse.Namespace
) -> SchemeSpec:
    return choice.resolve(ShapeCtx(layer, args.layers, args.kv_heads, *dims))


def _side(codec: Codec) -> dict[str, Any]:
    return {
        "rotation": codec.spec.rotation,
        "codebook": codec.spec.codebook,
        "packer": codec.spec.packer,
        "layout": codec.layout,
        "decode_kind": codec.decode_kind,
        "scale": codec.spec.scale,
        "centre": codec.spec.centre,
        "seed": codec.spec.seed,
        "dim": codec.dim,
        "dim_out": codec.dim_out,
        "code_bits": codec.spec.bits,
        "runs": [list(run) for run in codec.codebook.runs],
        "planes": [
            {
                "name": plane.name,
                "dtype": plane.dtype,
                "shape": list(plane.shape),
                "nbytes": plane.nbytes,
            }
            for plane in codec.planes
        ],
        "nbytes": codec.nbytes,
        "learnt_nbytes": _learnt_bytes(codec.spec, codec.dim),
        "bits_per_value": codec.bits_per_value,
    }


def _learnt_bytes(spec: CodecSpec, dim: int) -> int:
    """Return the bytes a head, once a sequence, of what is learnt: a mean, channels' gains."""
    return LEARNT_BYTES * dim * {"none": 0, "mean": 1}.get(spec.centre, 2)


def _cache(specs: list[SchemeSpec], dims: tuple[int, int], kv_heads: int) -> dict[str, Any]:
    from tqcore.layers import skipped

    count = len(specs)
    dense = [i for i in range(count) if skipped(specs[0].policy.skip, i, count)]
    fp16 = kv_heads * sum(dims) * FP16_BYTES
    coded = [
        kv_heads * (codec_for(spec.key, dims[0]).nbytes + codec_for(spec.value, dims[1]).nbytes)
        for layer, spec in enumerate(specs)
        if layer not in dense
    ]
    total = sum(coded) + len(dense) * fp16
    learnt = [
        kv_heads * (_learnt_bytes(spec.key, dims[0]) + _learnt_bytes(spec.value, dims[1]))
        for layer, spec in enumerate(specs)
        if layer not in dense
    ]
    values = len(coded) * kv_heads * sum(dims)
    return {
        "layers": len(specs),
        "dense_layers": dense,
        "bytes_per_token": total,
        "bytes_per_sequence": specs[0].policy.sinks * len(coded) * fp16 + sum(learnt),
        "fp16_bytes_per_token": len(specs) * fp16,
        "ratio_to_fp16": len(specs) * fp16 / total,
        "ratio_over_quantized_layers": len(coded) * fp16 / sum(coded) if coded else 1.0,
        "bits_per_value": 8 * sum(coded) / values if values else 16.0,
    }


def _kernel(key: Codec, value: Codec, args: argparse.Namespace) -> dict[str, Any]:
    device = args.device
    if device == "auto":
        from tqcore.device import device_kind

        device = device_kind()
    request = KernelRequest(
        device=device,
        dtype=args.dtype,
        key=side_spec(key),
        value=side_spec(value),
        q_len=args.q_len,
        gqa=args.q_heads // args.kv_heads,
        mask=args.mask,
    )
    call = {"device": device, "dtype": args.dtype, "q_len": args.q_len, "mask": args.mask}
    try:
        chosen = kernel_for(request)
    except KernelError as error:
        return {**call, "name": None, "rejected": [], "error": str(error)}
    encoder = encoder_for(EncodeRequest(device, args.dtype, key, value))
    return {
        **call,
        "name": chosen.kernel.name,
        "lazy": chosen.kernel.lazy,
        "rejected": _rejected(chosen.rejected),
        "encoder": encoder.kernel.name if encoder.kernel else None,
        "encoder_rejected": _rejected(encoder.rejected),
    }


def _rejected(pairs: Iterable[tuple[str, Sequence[str]]]) -> list[dict[str, Any]]:
    return [{"name": name, "reasons": list(why)} for name, why in pairs]


def show(described: dict[str, Any]) -> None:
    """Print a description as tables."""
    key, value, cache = described["key"], described["value"], described["cache"]
    title = f"{brief(described['scheme'])} ({described['package']}), layer {described['layer']}"
    print_table(("", "keys", "values"), _side_rows(key, value), title)
    dense = cache["dense_layers"]
    rows = [
        ("bytes a token", f"{cache['bytes_per_token']:,} over all heads and layers"),
        (
            "bytes a sequence",
            f"{cache['bytes_per_sequence']:,}: dense sinks, and what is learnt of each head",
        ),
        ("fp16 cache", f"{cache['fp16_bytes_per_token']:,}"),
        (
            "smaller than fp16",
            f"{cache['ratio_to_fp16']:.2f}x; "
            f"{cache['ratio_over_quantized_layers']:.2f}x over the quantized layers",
        ),
        ("true bits a value", f"{cache['bits_per_value']:.4g} over the quantized layers"),
        ("layers left dense", f"{_numbers(dense)} of {cache['layers']}"),
    ]
    print_table(("cache", ""), rows)
    _show_kernel(described["kernel"])


def _numbers(layers: list[int]) -> str:
    """Return ``none``, ``number 31`` or ``numbers 0, 31``, so that none reads as a count."""
    if not layers:
        return "none"
    return f"number{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"


def _side_rows(key: dict[str, Any], value: dict[str, Any]) -> list[tuple[str, str, str]]:
    def both(label: str, text: Any) -> tuple[str, str, str]:
        return (label, text(key), text(value))

    rows = [
        both("rotation", lambda s: f"{s['rotation']} {s['dim']} -> {s['dim_out']}"),
        both("codebook", lambda s: f"{s['codebook']} (decodes as {s['decode_kind']})"),
        both("packer", lambda s: f"{s['packer']} (layout {s['layout']})"),
        both("scale policy", lambda s: s["scale"]),
        both("centre", _centre_text),
        both("seed", lambda s: str(s["seed"])),
        both("code bits", lambda s: f"{s['code_bits']:.4g}{_runs_text(s['runs'])}"),
    ]
    for i in range(max(len(key["planes"]), len(value["planes"]))):
        rows.append(both(f"plane {i}", lambda s, i=i: _plane_text(s["planes"], i)))
    rows.append(both("bytes a vector", lambda s: str(s["nbytes"])))
    rows.append(both("true bits a value", lambda s: f"{s['bits_per_value']:.4g}"))
    return rows


def _runs_text(runs: list[list[int]]) -> str:
    if len(runs) == 1:
        return ""
    return f" ({', then '.join(f'{count} codes of {bits}' for count, bits in runs)})"


def _centre_text(side: dict[str, Any]) -> str:
    learnt = side["learnt_nbytes"]
    return f"{side['centre']}, {learnt} bytes once a head" if learnt else str(side["centre"])


def _plane_text(planes: list[dict[str, Any]], index: int) -> str:
    if index >= len(planes):
        return "-"
    plane = planes[index]
    return f"{plane['name']} {plane['dtype']}{plane['shape']}, {plane['nbytes']} bytes"


def _show_kernel(kernel: dict[str, Any]) -> None:
    call = (
        f"{kernel['device']}, {kernel['dtype']}, {kernel['q_len']} queries, mask {kernel['mask']}"
    )
    if kernel["name"] is None:
        print(f"no kernel serves {call}: {kernel['error']}")
        return
    rows = [(kernel["name"], "serves")]
    rows += [(each["name"], "; ".join(each["reasons"])) for each in kernel["rejected"]]
    rows += [(kernel["encoder"] or "the codecs' parts", "encodes")]
    rows += [
        (each["name"], f"does not encode: {'; '.join(each['reasons'])}")
        for each in kernel["encoder_rejected"]
    ]
    print_table((f"kernel for {call}", ""), rows)
