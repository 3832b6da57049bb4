// Vector construction. translate.py turns floatN(...) and vec<T, N>(...) into __msl_make<V>(...).
#pragma once
#include "traits.h"

template <typename T> struct __msl_vector { static constexpr MSL_STATIC int n = 0; };
template <typename T> struct __msl_vector<metal::vec<T, 2>> { typedef T E; static constexpr MSL_STATIC int n = 2; };
template <typename T> struct __msl_vector<metal::vec<T, 3>> { typedef T E; static constexpr MSL_STATIC int n = 3; };
template <typename T> struct __msl_vector<metal::vec<T, 4>> { typedef T E; static constexpr MSL_STATIC int n = 4; };

#ifdef __OPENCL_CPP_VERSION__
template <typename T> struct __msl_vector<__private T> : __msl_vector<T> {};
#endif

template <typename V, typename A> MSL_FN void __msl_put(V &v, int &at, A part) {
  typedef typename __msl_vector<V>::E E;
  if constexpr (__msl_vector<A>::n > 0) {
    for (int i = 0; i < __msl_vector<A>::n; i++) v[at++] = (E)part[i];
  } else {
    v[at++] = (E)part;
  }
}
template <typename V> MSL_FN V __msl_make() { return V(0); }
template <typename V, typename... A> MSL_FN V __msl_make(A... parts) {
  typedef typename __msl_vector<V>::E E;
  constexpr int n = __msl_vector<V>::n;
  constexpr int given = (0 + ... + (__msl_vector<A>::n ? __msl_vector<A>::n : 1));
  V v;
  if constexpr (sizeof...(A) == 1 && given == 1) {
    for (int i = 0; i < n; i++) ((v[i] = (E)parts), ...);
  } else {
    static_assert(given == n, "a vector is made of exactly as many components as it has");
    int at = 0;
    (__msl_put(v, at, parts), ...);
  }
  return v;
}

// A scalar beside a vector stands for a vector of it.
template <typename T> struct __msl_as_is { typedef T type; };
template <typename T> using __msl_scalar = typename __msl_as_is<T>::type;

// Apply a scalar function to every component.
#define MSL_VECTOR_1(FN)                                                    \
  template <typename T, int N> MSL_FN metal::vec<T, N> FN(metal::vec<T, N> x) { \
    metal::vec<T, N> r;                                                     \
    for (int i = 0; i < N; i++) r[i] = FN(x[i]);                            \
    return r;                                                               \
  }
#define MSL_VECTOR_2(FN)                                                    \
  template <typename T, int N>                                              \
  MSL_FN metal::vec<T, N> FN(metal::vec<T, N> x, metal::vec<T, N> y) {      \
    metal::vec<T, N> r;                                                     \
    for (int i = 0; i < N; i++) r[i] = FN(x[i], y[i]);                      \
    return r;                                                               \
  }                                                                         \
  template <typename T, int N>                                              \
  MSL_FN metal::vec<T, N> FN(metal::vec<T, N> x, __msl_scalar<T> y) {       \
    metal::vec<T, N> r;                                                     \
    for (int i = 0; i < N; i++) r[i] = FN(x[i], y);                         \
    return r;                                                               \
  }
#define MSL_VECTOR_3(FN)                                                                    \
  template <typename T, int N>                                                              \
  MSL_FN metal::vec<T, N> FN(metal::vec<T, N> x, metal::vec<T, N> y, metal::vec<T, N> z) { \
    metal::vec<T, N> r;                                                                     \
    for (int i = 0; i < N; i++) r[i] = FN(x[i], y[i], z[i]);                                \
    return r;                                                                               \
  }                                                                                         \
  template <typename T, int N>                                                              \
  MSL_FN metal::vec<T, N> FN(metal::vec<T, N> x, metal::vec<T, N> y, __msl_scalar<T> z) {   \
    metal::vec<T, N> r;                                                                     \
    for (int i = 0; i < N; i++) r[i] = FN(x[i], y[i], z);                                   \
    return r;                                                                               \
  }                                                                                         \
  template <typename T, int N>                                                              \
  MSL_FN metal::vec<T, N> FN(metal::vec<T, N> x, __msl_scalar<T> y, __msl_scalar<T> z) {    \
    metal::vec<T, N> r;                                                                     \
    for (int i = 0; i < N; i++) r[i] = FN(x[i], y, z);                                      \
    return r;                                                                               \
  }
