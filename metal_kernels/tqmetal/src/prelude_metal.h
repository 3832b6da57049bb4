// Metal prelude. The kernels are Metal Shading Language, so little is missing.

#define TQ_FN inline
#define TQ_SHARED threadgroup
#define TQ_BARRIER threadgroup_barrier(mem_flags::mem_threadgroup)
#define TQ_UNROLL _Pragma("clang loop unroll(full)")

// The low word of (high:low) >> shift, shift from 0 to 31.
TQ_FN uint tq_funnel(uint low, uint high, uint shift) {
  return uint(((ulong(high) << 32) | low) >> shift);
}

TQ_FN float tq_exp(float x) {
  return fast::exp(x);
}
