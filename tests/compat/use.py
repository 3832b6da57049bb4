"""Runs in the environment of the samples: a scheme of theirs in every cache, and in files."""

import sys

import mlx.core as mx

from tqcore import QuantizedKVCache, make_caches
from tqcore.cache import BatchQuantizedKVCache, load_caches, save_caches
from tqcore.cache.segments import request_for
from tqcore.select import kernel_for, kernels

scheme, kernel = sys.argv[1:]


def kv(tokens, seed=0, batch=1):
    return [mx.random.normal((batch, 2, tokens, 64), key=mx.random.key(seed + i)) for i in (0, 1)]


calls = next(each for each in kernels() if each.name == kernel).calls
caches = make_caches(scheme, n_layers=4, bits=4)
q = mx.random.normal((1, 8, 1, 64), key=mx.random.key(9))
for cache in caches:
    views = cache.update_and_fetch(*kv(20))
    out = cache.attend(q, *views, scale=0.125)
    keys, values = cache.dequantize()
    want = mx.fast.scaled_dot_product_attention(q, keys, values, scale=0.125)
    assert mx.allclose(out, want, atol=1e-4), "attention"
    cache.trim(3)
assert [cache.is_quantized for cache in caches] == [True, True, True, False], "skip=last"
assert calls["encode"] == 3, calls
assert calls["attend_unrotated"] == 3, calls
request = request_for(q, 2, caches[0].tokens.codecs, "none", False)
assert kernel_for(request).kernel.name == kernel

save_caches("prompt.safetensors", caches)
for one, other in zip(caches, load_caches("prompt.safetensors")[0], strict=True):
    assert one.meta_state == other.meta_state
    assert mx.array_equal(one.dequantize()[0], other.dequantize()[0])

batch = BatchQuantizedKVCache.merge([caches[0], caches[1]])
batch.update_and_fetch(*kv(2, batch=2))
batch.filter(mx.array([1]))
assert batch.extract(0).offset == 19
print(QuantizedKVCache(scheme, 8).bits)
