// CUDA prelude: the few words of Metal Shading Language that the kernels use.
//
// Address spaces have no word here. "#define device" must never be one: CUDA spells its own
// qualifier __device__, through macros that contain the bare word. Kernels take their pointers
// by "auto" or as a template parameter instead.

typedef unsigned int uint;

#define TQ_FN __device__ inline

#define thread_position_in_grid                  \
  make_uint3(blockIdx.x * blockDim.x + threadIdx.x, \
             blockIdx.y * blockDim.y + threadIdx.y, \
             blockIdx.z * blockDim.z + threadIdx.z)

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
