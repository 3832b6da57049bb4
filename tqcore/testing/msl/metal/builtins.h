// The compiler's own functions that MLX's bf16_math.h and utils.h call.
#pragma once
#include "atomics.h"

#define MSL_BUILTIN_1(FN) MSL_FN float __metal_##FN(float x, bool) { return metal::FN(x); }
#define MSL_BUILTIN_2(FN) MSL_FN float __metal_##FN(float x, float y, bool) { return metal::FN(x, y); }
#define MSL_BUILTIN_3(FN) MSL_FN float __metal_##FN(float x, float y, float z, bool) { return metal::FN(x, y, z); }
MSL_BUILTIN_1(acos) MSL_BUILTIN_1(acosh) MSL_BUILTIN_1(asin) MSL_BUILTIN_1(asinh) MSL_BUILTIN_1(atan)
MSL_BUILTIN_1(atanh) MSL_BUILTIN_1(ceil) MSL_BUILTIN_1(cos) MSL_BUILTIN_1(cosh) MSL_BUILTIN_1(cospi)
MSL_BUILTIN_1(exp) MSL_BUILTIN_1(exp10) MSL_BUILTIN_1(exp2) MSL_BUILTIN_1(fabs) MSL_BUILTIN_1(floor)
MSL_BUILTIN_1(fract) MSL_BUILTIN_1(log) MSL_BUILTIN_1(log10) MSL_BUILTIN_1(log2) MSL_BUILTIN_1(rint)
MSL_BUILTIN_1(round) MSL_BUILTIN_1(rsqrt) MSL_BUILTIN_1(sin) MSL_BUILTIN_1(sinh) MSL_BUILTIN_1(sinpi)
MSL_BUILTIN_1(sqrt) MSL_BUILTIN_1(tan) MSL_BUILTIN_1(tanh) MSL_BUILTIN_1(tanpi) MSL_BUILTIN_1(trunc)
MSL_BUILTIN_2(atan2) MSL_BUILTIN_2(divide) MSL_BUILTIN_2(fmax) MSL_BUILTIN_2(fmin) MSL_BUILTIN_2(fmod)
MSL_BUILTIN_2(pow) MSL_BUILTIN_2(powr) MSL_BUILTIN_3(fmax3) MSL_BUILTIN_3(fmin3) MSL_BUILTIN_3(fmedian3)
MSL_FN float __metal_fma(float x, float y, float z) { return metal::fma(x, y, z); }
MSL_FN float __metal_nextafter(float x, float y) { return metal::nextafter(x, y); }
MSL_FN float __metal_ldexp(float x, int k, bool) { return metal::ldexp(x, k); }
MSL_FN float __metal_frexp(float x, int *e) { return __builtin_frexpf(x, e); }

MSL_FN ushort __metal_get_simdgroup_size(ushort) { return 32; }
MSL_FN ushort __metal_get_thread_index_in_simdgroup(ushort) { return (ushort)__msl_lane(); }

#define MSL_BUILTIN_MOVE(FN) \
  template <typename T> MSL_FN T __metal_simd_##FN(T x, ushort by) { return metal::simd_##FN(x, by); }
MSL_BUILTIN_MOVE(broadcast) MSL_BUILTIN_MOVE(shuffle) MSL_BUILTIN_MOVE(shuffle_xor)
MSL_BUILTIN_MOVE(shuffle_down) MSL_BUILTIN_MOVE(shuffle_up)
MSL_BUILTIN_MOVE(shuffle_rotate_down) MSL_BUILTIN_MOVE(shuffle_rotate_up)
template <typename T> MSL_FN T __metal_simd_shuffle_and_fill_down(T x, T fill, ushort by, ushort modulo) {
  return metal::simd_shuffle_and_fill_down(x, fill, by, modulo);
}
template <typename T> MSL_FN T __metal_simd_shuffle_and_fill_up(T x, T fill, ushort by, ushort modulo) {
  return metal::simd_shuffle_and_fill_up(x, fill, by, modulo);
}
#define MSL_BUILTIN_REDUCE(FN) \
  template <typename T> MSL_FN T __metal_simd_##FN(T x) { return metal::simd_##FN(x); }
MSL_BUILTIN_REDUCE(sum) MSL_BUILTIN_REDUCE(product) MSL_BUILTIN_REDUCE(max) MSL_BUILTIN_REDUCE(min)
MSL_BUILTIN_REDUCE(prefix_inclusive_sum) MSL_BUILTIN_REDUCE(prefix_exclusive_sum)
MSL_BUILTIN_REDUCE(prefix_inclusive_product) MSL_BUILTIN_REDUCE(prefix_exclusive_product)
template <typename T> MSL_FN T __metal_simd_xor(T x) {
  return __builtin_bit_cast(T, metal::simd_xor(__builtin_bit_cast(uint, x)));
}
