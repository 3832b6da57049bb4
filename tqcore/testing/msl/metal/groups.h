// Simdgroup and quadgroup functions, barriers: <metal_simdgroup>, <metal_quadgroup>, <metal_compute>.
#pragma once
#include "relational.h"

extern "C" {
uint __msl_exchange(const void *mine, uint bytes, uint operation, void *all) __attribute__((convergent));
void __msl_barrier(uint simd, uint flags) __attribute__((convergent));
void __msl_fence(uint flags, uint scope);
void __msl_inactive(uint lane);
uint __msl_lane();
#ifdef __OPENCL_CPP_VERSION__
__local void *__msl_threadgroup(const __constant char *name, size_t bytes, size_t align);
#else
void *__msl_threadgroup(const char *name, size_t bytes, size_t align);
#endif
}

namespace metal {
template <typename T> struct __msl_element { typedef T type; };
template <typename T> struct __msl_element<vec<T, 2>> { typedef T type; };
template <typename T> struct __msl_element<vec<T, 3>> { typedef T type; };
template <typename T> struct __msl_element<vec<T, 4>> { typedef T type; };
template <typename T> using __msl_element_t = typename __msl_element<T>::type;
} // namespace metal

// Operation numbers only tell different functions apart when lanes diverge.
enum __msl_operation : uint {
  __MSL_SHUFFLE, __MSL_XOR, __MSL_DOWN, __MSL_UP, __MSL_ROTATE_DOWN, __MSL_ROTATE_UP, __MSL_FIRST,
  __MSL_FILL_UP, __MSL_FILL_DOWN, __MSL_SUM, __MSL_PRODUCT, __MSL_MAX, __MSL_MIN, __MSL_AND,
  __MSL_OR, __MSL_EXCLUSIVE_OR, __MSL_SCAN_SUM, __MSL_SCAN_PRODUCT, __MSL_BALLOT, __MSL_VOTE,
};

template <typename T> struct __msl_lanes {
  T value[32];
  uint active, lane;
};
template <typename T> MSL_FN void __msl_gather(T mine, uint operation, __msl_lanes<T> &to) {
  typedef metal::__msl_element_t<T> E;
  static_assert(sizeof(E) <= 4 && !metal::is_same_v<E, bool>,
                "simdgroup functions take numbers of 8, 16 and 32 bits, and vectors of them");
  to.active = __msl_exchange(&mine, sizeof(T), operation, to.value);
  to.lane = __msl_lane();
}

// Lane `base + from` of the group of `size` that this lane is in.
template <typename T> MSL_FN T __msl_from(const __msl_lanes<T> &all, int from, int size) {
  const int base = (int)all.lane / size * size;
  if (from < 0 || from >= size || !(all.active >> (base + from) & 1)) __msl_inactive((uint)from);
  return all.value[(base + from) & 31];
}
// A tree, as the hardware reduces: the sum of floats depends on the order.
template <typename T, typename F>
MSL_FN T __msl_reduce(T mine, uint operation, F f, T identity, int size) {
  __msl_lanes<T> all;
  __msl_gather(mine, operation, all);
  const int base = (int)all.lane / size * size;
  T t[32];
  for (int i = 0; i < size; i++) t[i] = all.active >> (base + i) & 1 ? all.value[base + i] : identity;
  for (int half_size = size / 2; half_size; half_size /= 2) {
    for (int i = 0; i < half_size; i++) t[i] = f(t[i], t[i + half_size]);
  }
  return t[0];
}
template <typename T, typename F>
MSL_FN T __msl_scan(T mine, uint operation, F f, T identity, bool inclusive, int size) {
  __msl_lanes<T> all;
  __msl_gather(mine, operation, all);
  T r = identity;
  for (uint i = all.lane / size * size; i < all.lane; i++) {
    if (all.active >> i & 1) r = f(r, all.value[i]);
  }
  return inclusive ? f(r, mine) : r;
}

struct __msl_add { template <typename T> MSL_FN T operator()(T a, T b) const { return a + b; } };
struct __msl_multiply { template <typename T> MSL_FN T operator()(T a, T b) const { return a * b; } };
struct __msl_max { template <typename T> MSL_FN T operator()(T a, T b) const { return metal::max(a, b); } };
struct __msl_min { template <typename T> MSL_FN T operator()(T a, T b) const { return metal::min(a, b); } };
struct __msl_and { template <typename T> MSL_FN T operator()(T a, T b) const { return a & b; } };
struct __msl_or { template <typename T> MSL_FN T operator()(T a, T b) const { return a | b; } };
struct __msl_xor { template <typename T> MSL_FN T operator()(T a, T b) const { return a ^ b; } };

template <typename T> MSL_FN T __msl_lowest() {
  if constexpr (metal::is_floating_point_v<T>) return -metal::numeric_limits<T>::infinity();
  else return metal::numeric_limits<T>::lowest();
}
template <typename T> MSL_FN T __msl_highest() {
  if constexpr (metal::is_floating_point_v<T>) return metal::numeric_limits<T>::infinity();
  else return metal::numeric_limits<T>::max();
}

namespace metal {
enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
constexpr MSL_FN mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((uint)a | (uint)b); }
MSL_FN void threadgroup_barrier(mem_flags flags) { __msl_barrier(0, (uint)flags); }
MSL_FN void simdgroup_barrier(mem_flags flags) { __msl_barrier(1, (uint)flags); }

template <typename T>
using __msl_if_number = enable_if_t<is_arithmetic_v<__msl_element_t<T>>, T>;
template <typename T> using __msl_if_integer = enable_if_t<is_integral_v<T>, T>;

#define MSL_GROUP(P, SIZE)                                                                       \
  template <typename T> MSL_FN __msl_if_number<T> P##_shuffle(T x, ushort lane) {                \
    __msl_lanes<T> all;                                                                          \
    __msl_gather(x, __MSL_SHUFFLE, all);                                                         \
    return __msl_from(all, lane, SIZE);                                                          \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_number<T> P##_broadcast(T x, ushort lane) {              \
    return P##_shuffle(x, lane);                                                                 \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_number<T> P##_shuffle_xor(T x, ushort mask) {            \
    __msl_lanes<T> all;                                                                          \
    __msl_gather(x, __MSL_XOR, all);                                                             \
    return __msl_from(all, (int)(all.lane % SIZE) ^ mask, SIZE);                                 \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_number<T> P##_shuffle_down(T x, ushort by) {             \
    __msl_lanes<T> all;                                                                          \
    __msl_gather(x, __MSL_DOWN, all);                                                            \
    const int from = (int)(all.lane % SIZE) + by;                                                \
    return from >= SIZE ? x : __msl_from(all, from, SIZE);                                       \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_number<T> P##_shuffle_up(T x, ushort by) {               \
    __msl_lanes<T> all;                                                                          \
    __msl_gather(x, __MSL_UP, all);                                                              \
    const int from = (int)(all.lane % SIZE) - by;                                                \
    return from < 0 ? x : __msl_from(all, from, SIZE);                                           \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_number<T> P##_shuffle_rotate_down(T x, ushort by) {      \
    __msl_lanes<T> all;                                                                          \
    __msl_gather(x, __MSL_ROTATE_DOWN, all);                                                     \
    return __msl_from(all, (int)(all.lane % SIZE + by) % SIZE, SIZE);                            \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_number<T> P##_shuffle_rotate_up(T x, ushort by) {        \
    __msl_lanes<T> all;                                                                          \
    __msl_gather(x, __MSL_ROTATE_UP, all);                                                       \
    return __msl_from(all, (int)(all.lane % SIZE + SIZE - by % SIZE) % SIZE, SIZE);              \
  }                                                                                              \
  template <typename T>                                                                          \
  MSL_FN __msl_if_number<T> P##_shuffle_and_fill_up(T x, T fill, ushort by, ushort modulo = SIZE) { \
    __msl_lanes<T> all, fills;                                                                   \
    __msl_gather(x, __MSL_FILL_UP, all);                                                         \
    __msl_gather(fill, __MSL_FILL_UP, fills);                                                    \
    const int lane = (int)(all.lane % SIZE), at = lane % modulo, base = lane - at;               \
    if (at >= by) return __msl_from(all, lane - by, SIZE);                                       \
    return __msl_from(fills, base + modulo + at - by, SIZE);                                     \
  }                                                                                              \
  template <typename T>                                                                          \
  MSL_FN __msl_if_number<T> P##_shuffle_and_fill_down(T x, T fill, ushort by, ushort modulo = SIZE) { \
    __msl_lanes<T> all, fills;                                                                   \
    __msl_gather(x, __MSL_FILL_DOWN, all);                                                       \
    __msl_gather(fill, __MSL_FILL_DOWN, fills);                                                  \
    const int lane = (int)(all.lane % SIZE), at = lane % modulo, base = lane - at;               \
    if (at + by < modulo) return __msl_from(all, lane + by, SIZE);                               \
    return __msl_from(fills, base + at + by - modulo, SIZE);                                     \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_number<T> P##_broadcast_first(T x) {                     \
    __msl_lanes<T> all;                                                                          \
    __msl_gather(x, __MSL_FIRST, all);                                                           \
    return all.value[(__builtin_ctz(all.active >> (all.lane / SIZE * SIZE)) + all.lane / SIZE * SIZE) & 31]; \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_number<T> P##_sum(T x) {                                 \
    return __msl_reduce(x, __MSL_SUM, __msl_add(), T((__msl_element_t<T>)0), SIZE);              \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_number<T> P##_product(T x) {                             \
    return __msl_reduce(x, __MSL_PRODUCT, __msl_multiply(), T((__msl_element_t<T>)1), SIZE);     \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_number<T> P##_max(T x) {                                 \
    return __msl_reduce(x, __MSL_MAX, __msl_max(), T(__msl_lowest<__msl_element_t<T>>()), SIZE); \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_number<T> P##_min(T x) {                                 \
    return __msl_reduce(x, __MSL_MIN, __msl_min(), T(__msl_highest<__msl_element_t<T>>()), SIZE); \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_number<T> P##_prefix_inclusive_sum(T x) {                \
    return __msl_scan(x, __MSL_SCAN_SUM, __msl_add(), (T)0, true, SIZE);                         \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_number<T> P##_prefix_exclusive_sum(T x) {                \
    return __msl_scan(x, __MSL_SCAN_SUM, __msl_add(), (T)0, false, SIZE);                        \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_number<T> P##_prefix_inclusive_product(T x) {            \
    return __msl_scan(x, __MSL_SCAN_PRODUCT, __msl_multiply(), (T)1, true, SIZE);                \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_number<T> P##_prefix_exclusive_product(T x) {            \
    return __msl_scan(x, __MSL_SCAN_PRODUCT, __msl_multiply(), (T)1, false, SIZE);               \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_integer<T> P##_and(T x) {                                \
    return __msl_reduce(x, __MSL_AND, __msl_and(), (T)~(T)0, SIZE);                              \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_integer<T> P##_or(T x) {                                 \
    return __msl_reduce(x, __MSL_OR, __msl_or(), (T)0, SIZE);                                    \
  }                                                                                              \
  template <typename T> MSL_FN __msl_if_integer<T> P##_xor(T x) {                                \
    return __msl_reduce(x, __MSL_EXCLUSIVE_OR, __msl_xor(), (T)0, SIZE);                         \
  }
MSL_GROUP(simd, 32)
MSL_GROUP(quad, 4)

struct simd_vote {
  typedef ulong vote_t;
  ulong mask;
  explicit operator ulong() const { return mask; }
  bool all() const { return mask == 0xffffffffu; }
  bool any() const { return mask != 0; }
};
MSL_FN simd_vote simd_ballot(bool x) {
  return {__msl_reduce(x ? 1u << __msl_lane() : 0u, __MSL_BALLOT, __msl_or(), 0u, 32)};
}
MSL_FN simd_vote simd_active_threads_mask() { return simd_ballot(true); }
MSL_FN bool simd_all(bool x) { return __msl_reduce((uint)x, __MSL_VOTE, __msl_and(), 1u, 32) != 0; }
MSL_FN bool simd_any(bool x) { return __msl_reduce((uint)x, __MSL_VOTE, __msl_or(), 0u, 32) != 0; }
MSL_FN bool quad_all(bool x) { return __msl_reduce((uint)x, __MSL_VOTE, __msl_and(), 1u, 4) != 0; }
MSL_FN bool quad_any(bool x) { return __msl_reduce((uint)x, __MSL_VOTE, __msl_or(), 0u, 4) != 0; }
MSL_FN bool simd_is_first() { return simd_broadcast_first(__msl_lane()) == __msl_lane(); }
} // namespace metal
