// <metal_integer>.
#pragma once
#include "math.h"

namespace metal {
#define MSL_INTEGER(T, U)                                                                    \
  MSL_FN T max(T x, T y) { return x > y ? x : y; }                                           \
  MSL_FN T min(T x, T y) { return x < y ? x : y; }                                           \
  MSL_FN T max3(T x, T y, T z) { return max(x, max(y, z)); }                                 \
  MSL_FN T min3(T x, T y, T z) { return min(x, min(y, z)); }                                 \
  MSL_FN T clamp(T x, T low, T high) { return x < low ? low : x > high ? high : x; }         \
  MSL_FN T abs(T x) { return x < 0 ? (T)-x : x; }                                            \
  MSL_FN T median3(T x, T y, T z) { return max(min(x, y), min(max(x, y), z)); }              \
  MSL_FN U absdiff(T x, T y) { return x > y ? (U)((U)x - (U)y) : (U)((U)y - (U)x); }         \
  MSL_FN T hadd(T x, T y) { return (T)((x & y) + ((x ^ y) >> 1)); }                          \
  MSL_FN T rhadd(T x, T y) { return (T)((x | y) - ((x ^ y) >> 1)); }                         \
  MSL_FN T select(T a, T b, bool c) { return c ? b : a; }                                    \
  MSL_FN T popcount(T x) { return (T)__builtin_popcountll((unsigned long long)(U)x); }       \
  MSL_FN T clz(T x) {                                                                        \
    return (T)((U)x ? __builtin_clzll((unsigned long long)(U)x) - (int)(64 - 8 * sizeof(T))  \
                    : (int)(8 * sizeof(T)));                                                 \
  }                                                                                          \
  MSL_FN T ctz(T x) {                                                                        \
    return (T)((U)x ? __builtin_ctzll((unsigned long long)(U)x) : (int)(8 * sizeof(T)));     \
  }                                                                                          \
  MSL_FN T reverse_bits(T x) {                                                               \
    return (T)(__builtin_bitreverse64((unsigned long long)(U)x) >> (64 - 8 * sizeof(T)));    \
  }                                                                                          \
  MSL_FN T rotate(T x, T by) {                                                               \
    const uint k = (uint)by & (8 * sizeof(T) - 1);                                           \
    return k ? (T)((U)((U)x << k) | (U)((U)x >> (8 * sizeof(T) - k))) : x;                   \
  }                                                                                          \
  MSL_FN T extract_bits(T x, uint offset, uint bits) {                                       \
    if (bits == 0) return 0;                                                                 \
    const uint above = (uint)(8 * sizeof(T)) - bits;                                         \
    return (T)((T)((U)((U)x >> offset) << above) >> above);                                  \
  }                                                                                          \
  MSL_FN T insert_bits(T base, T insert, uint offset, uint bits) {                           \
    if (bits == 0) return base;                                                              \
    const U mask = (U)((U)((U)~(U)0 >> (8 * sizeof(T) - bits)) << offset);                   \
    return (T)(((U)base & (U)~mask) | ((U)((U)insert << offset) & mask));                    \
  }
MSL_INTEGER(char, uchar)
MSL_INTEGER(signed char, uchar)
MSL_INTEGER(uchar, uchar)
MSL_INTEGER(short, ushort)
MSL_INTEGER(ushort, ushort)
MSL_INTEGER(int, uint)
MSL_INTEGER(uint, uint)
MSL_INTEGER(long, ulong)
MSL_INTEGER(ulong, ulong)
MSL_SHARED_VECTORS
MSL_VECTOR_1(popcount)
MSL_VECTOR_1(clz)
MSL_VECTOR_1(ctz)
MSL_VECTOR_1(reverse_bits)
MSL_VECTOR_2(absdiff)
MSL_VECTOR_2(rotate)
template <typename T, int N> MSL_FN vec<T, N> extract_bits(vec<T, N> x, uint offset, uint bits) {
  vec<T, N> r;
  for (int i = 0; i < N; i++) r[i] = extract_bits(x[i], offset, bits);
  return r;
}
MSL_FN int mulhi(int x, int y) { return (int)((long)x * y >> 32); }
MSL_FN uint mulhi(uint x, uint y) { return (uint)((ulong)x * y >> 32); }
MSL_FN int mul24(int x, int y) { return x * y; }
MSL_FN uint mul24(uint x, uint y) { return x * y; }
MSL_FN int mad24(int x, int y, int z) { return x * y + z; }
MSL_FN uint mad24(uint x, uint y, uint z) { return x * y + z; }
MSL_FN uint addsat(uint x, uint y) { return x + y < x ? ~0u : x + y; }
MSL_FN uint subsat(uint x, uint y) { return x < y ? 0u : x - y; }
} // namespace metal
