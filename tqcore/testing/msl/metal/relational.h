// <metal_relational> and <metal_geometric>.
#pragma once
#include "integers.h"

namespace metal {
MSL_FN float select(float a, float b, bool c) { return c ? b : a; }
MSL_FN half select(half a, half b, bool c) { return c ? b : a; }
MSL_FN bool select(bool a, bool b, bool c) { return c ? b : a; }
template <typename T, typename C, int N>
MSL_FN vec<T, N> select(vec<T, N> a, vec<T, N> b, vec<C, N> c) {
  vec<T, N> r;
  for (int i = 0; i < N; i++) r[i] = c[i] ? b[i] : a[i];
  return r;
}

#define MSL_CLASSIFY(FN, E)                                                  \
  MSL_FN bool FN(float x) { return E; }                                      \
  MSL_FN bool FN(half x_) { float x = x_; return E; }                        \
  MSL_FN bool FN(bfloat x_) { float x = x_; return E; }                      \
  template <typename T, int N> MSL_FN vec<MSL_BOOL, N> FN(vec<T, N> x) {     \
    vec<MSL_BOOL, N> r;                                                      \
    for (int i = 0; i < N; i++) r[i] = FN(x[i]);                             \
    return r;                                                                \
  }
MSL_CLASSIFY(isnan, __builtin_isnan(x))
MSL_CLASSIFY(isinf, __builtin_isinf(x))
MSL_CLASSIFY(isfinite, __builtin_isfinite(x))
MSL_CLASSIFY(isnormal, __builtin_isnormal(x))
MSL_CLASSIFY(signbit, __builtin_bit_cast(uint, x) >> 31)

MSL_FN bool any(bool x) { return x; }
MSL_FN bool all(bool x) { return x; }
template <typename T, int N> MSL_FN bool any(vec<T, N> x) {
  bool r = false;
  for (int i = 0; i < N; i++) r |= !!x[i];
  return r;
}
template <typename T, int N> MSL_FN bool all(vec<T, N> x) {
  bool r = true;
  for (int i = 0; i < N; i++) r &= !!x[i];
  return r;
}

template <typename T, int N> MSL_FN T dot(vec<T, N> x, vec<T, N> y) {
  T r = x[0] * y[0];
  for (int i = 1; i < N; i++) r += x[i] * y[i];
  return r;
}
template <typename T, int N> MSL_FN T length_squared(vec<T, N> x) { return dot(x, x); }
template <typename T, int N> MSL_FN T length(vec<T, N> x) { return sqrt(dot(x, x)); }
template <typename T, int N> MSL_FN T distance(vec<T, N> x, vec<T, N> y) { return length(x - y); }
template <typename T, int N> MSL_FN vec<T, N> normalize(vec<T, N> x) { return x * rsqrt(dot(x, x)); }
MSL_FN float3 cross(float3 x, float3 y) {
  float3 r;
  r.x = x.y * y.z - x.z * y.y;
  r.y = x.z * y.x - x.x * y.z;
  r.z = x.x * y.y - x.y * y.x;
  return r;
}
} // namespace metal
