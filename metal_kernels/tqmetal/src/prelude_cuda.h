// CUDA prelude: the few words of Metal Shading Language that the kernels use.
//
// Address spaces have no word here. "#define device" must never be one: CUDA spells its own
// qualifier __device__, through macros that contain the bare word. Kernels take their pointers
// by "auto" or as a template parameter instead.

typedef unsigned int uint;

#define TQ_FN __device__ inline
#define TQ_SHARED __shared__
#define TQ_BARRIER __syncthreads()
#define TQ_UNROLL _Pragma("unroll")

#define thread_position_in_grid                  \
  make_uint3(blockIdx.x * blockDim.x + threadIdx.x, \
             blockIdx.y * blockDim.y + threadIdx.y, \
             blockIdx.z * blockDim.z + threadIdx.z)
#define threadgroup_position_in_grid make_uint3(blockIdx.x, blockIdx.y, blockIdx.z)
#define threadgroups_per_grid make_uint3(gridDim.x, gridDim.y, gridDim.z)
// Threadgroups are one row of threads.
#define thread_index_in_threadgroup (threadIdx.x)
#define thread_index_in_simdgroup (threadIdx.x % 32)
#define simdgroup_index_in_threadgroup (threadIdx.x / 32)

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

template <typename To, typename From>
TQ_FN To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From), "as_type keeps the bits");
  union {
    From from;
    To to;
  } bits;
  bits.from = from;
  return bits.to;
}

TQ_FN uint tq_funnel(uint low, uint high, uint shift) {
  return __funnelshift_r(low, high, shift);
}

TQ_FN float tq_exp(float x) {
  return __expf(x);
}

TQ_FN float simd_shuffle_xor(float x, uint mask) {
  return __shfl_xor_sync(0xffffffffu, x, mask);
}
