// What the text of the tensor kernel asks of CUDA, on the runtime of the Metal emulator: every thread is a
// fibre, the lanes of a warp meet at shuffles and products, and whatever touches memory is watched for races.
// A fault is blamed on the kernel's line: nothing here has lines of its own (nodebug, always_inline).

typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef long long int64_t;

#define __device__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define CPU_FN static inline __attribute__((always_inline))
#define CPU_UNWATCHED static __attribute__((noinline, no_sanitize("thread", "undefined")))

struct uint3 { unsigned x, y, z; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct Shape { int32_t of[4]; int32_t operator[](int i) const { return of[i]; } };
struct Strides { int64_t of[4]; int64_t operator[](int i) const { return of[i]; } };

CPU_FN int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
CPU_FN float __int_as_float(int x) { return __builtin_bit_cast(float, x); }

struct __half {
  _Float16 x;
  explicit __half(float from) : x(from) {}
  operator float() const { return x; }
};
struct __nv_bfloat16 {
  uint16_t bits;
  explicit __nv_bfloat16(float x) : bits((__float_as_int(x) + 0x7fff + (__float_as_int(x) >> 16 & 1)) >> 16) {}
  operator float() const { return __int_as_float(bits << 16); }
};

// The runtime's functions; assembly.py adds the place of each call.
extern "C" {
unsigned __msl_exchange(const void* mine, unsigned bytes, unsigned operation, void* all);
unsigned __msl_lane();
void __msl_barrier(unsigned simd, unsigned flags);
void __msl_atomic_begin();
void __msl_atomic_end();
void __msl_fence(unsigned flags, unsigned scope);
void* __msl_threadgroup(const char* name, unsigned long long bytes, unsigned long long align);
float exp2f(float);
float log2f(float);
float tanhf(float);
float rintf(float);
float fmaf(float, float, float);
}
enum { CPU_SHUFFLE_XOR = 1, CPU_SHUFFLE, CPU_ANY, CPU_PRODUCT };
enum { CPU_ALL_MEMORY = 3, CPU_DEVICE = 1, CPU_WHOLE_DEVICE = 3 };

CPU_FN float fmaxf(float a, float b) { return a > b ? a : b; }
CPU_FN float fabsf(float x) { return __builtin_fabsf(x); }
CPU_FN int max(int a, int b) { return a > b ? a : b; }
CPU_FN int min(int a, int b) { return a < b ? a : b; }
CPU_FN int __float2int_rn(float x) { return (int)rintf(x); }
CPU_FN unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
CPU_FN unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
CPU_FN float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
template <typename T>
CPU_FN T __ldcg(const T* from) { return *from; }

// Barriers order memory, shuffles do not.
CPU_FN void __syncthreads() { __msl_barrier(0, CPU_ALL_MEMORY); }
CPU_FN void __syncwarp() { __msl_barrier(1, CPU_ALL_MEMORY); }
template <typename T>
CPU_FN T __shfl_xor_sync(unsigned, T x, int mask) {
  T all[32];
  __msl_exchange(&x, sizeof x, CPU_SHUFFLE_XOR, all);
  return all[__msl_lane() ^ mask];
}
template <typename T>
CPU_FN T __shfl_sync(unsigned, T x, int lane, int width = 32) {
  T all[32];
  __msl_exchange(&x, sizeof x, CPU_SHUFFLE, all);
  return all[__msl_lane() / width * width + lane % width];
}
CPU_FN int __any_sync(unsigned, int x) {
  int all[32], any = 0;
  __msl_exchange(&x, sizeof x, CPU_ANY, all);
  for (int i = 0; i < 32; i++) any |= all[i] != 0;
  return any;
}

// A fence of CUDA orders what its thread did before for whoever learns of it through a barrier and an
// atomic; the runtime knows a fence only beside the atomic. So an atomic fences for its block, if
// every thread of it has fenced.
static unsigned cpu_threads, cpu_fences;
CPU_UNWATCHED void cpu_count_fence() { cpu_fences++; }
CPU_UNWATCHED bool cpu_all_fenced() { return cpu_fences >= cpu_threads; }
CPU_FN void __threadfence() { cpu_count_fence(); }
CPU_FN int atomicAdd(int* at, int by) {
  if (cpu_all_fenced()) __msl_fence(CPU_DEVICE, CPU_WHOLE_DEVICE);
  __msl_atomic_begin();
  const int before = *at;
  *at = before + by;
  __msl_atomic_end();
  if (cpu_all_fenced()) __msl_fence(CPU_DEVICE, CPU_WHOLE_DEVICE);
  return before;
}

// Shared memory: `__shared__ T name[n];` becomes `auto& name = cpu_shared<T[n]>("name", alignment);`. Its addresses
// of 32 bits begin where the runtime's memory does, a CPU_BEFORE before the first variable, so that they are
// multiples of what was asked for.
enum { CPU_BEFORE = 64 };
static char* cpu_shared_start;
CPU_UNWATCHED void cpu_found_shared(void* at, unsigned align) {
  if (!cpu_shared_start) cpu_shared_start = static_cast<char*>(at) - (CPU_BEFORE + align - 1) / align * align;
}
CPU_UNWATCHED char* cpu_shared_at(unsigned offset) { return cpu_shared_start + offset; }
CPU_UNWATCHED unsigned long long cpu_shared_offset(const void* at) {
  return static_cast<const char*>(at) - cpu_shared_start;
}
template <typename T>
CPU_FN T& cpu_shared(const char* name, unsigned align) {
  void* at = __msl_threadgroup(name, sizeof(T), align);
  cpu_found_shared(at, align < 16 ? 16 : align);
  return *static_cast<T*>(at);
}
CPU_FN unsigned long long __cvta_generic_to_shared(const void* at) { return cpu_shared_offset(at); }
CPU_FN const void* __cvta_shared_to_generic(unsigned long long offset) { return cpu_shared_at(offset); }

// What a thread knows of itself between its yields: its stack is one of a row of them, of equal size.
enum { CPU_STACK = 65536 };
static char* cpu_stacks;
CPU_UNWATCHED unsigned cpu_thread() {
  return (static_cast<char*>(__builtin_frame_address(0)) - cpu_stacks) / CPU_STACK;
}
CPU_UNWATCHED void cpu_start_thread(unsigned index, unsigned threads, void* top) {
  cpu_stacks = static_cast<char*>(top) - (index + 1ll) * CPU_STACK;
  cpu_shared_start = nullptr;
  cpu_threads = threads;
  if (index == 0) cpu_fences = 0;
}
