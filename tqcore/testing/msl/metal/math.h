// <metal_math>: computed in float by the host's C library; fast:: and precise:: are the same.
#pragma once
#include "vectors.h"

#define MSL_MATH_1(FN, E)                                \
  MSL_FN float FN(float x) { return E; }                 \
  MSL_FN half FN(half x_) { float x = x_; return (half)(E); } \
  MSL_VECTOR_1(FN)
#define MSL_MATH_2(FN, E)                                                  \
  MSL_FN float FN(float x, float y) { return E; }                          \
  MSL_FN half FN(half x_, half y_) { float x = x_, y = y_; return (half)(E); } \
  MSL_VECTOR_2(FN)
#define MSL_MATH_3(FN, E)                                                                   \
  MSL_FN float FN(float x, float y, float z) { return E; }                                  \
  MSL_FN half FN(half x_, half y_, half z_) { float x = x_, y = y_, z = z_; return (half)(E); } \
  MSL_VECTOR_3(FN)

// Also defined for integers: their vector forms come once every scalar form is there.
#define MSL_SHARED_1(FN, E)              \
  MSL_FN float FN(float x) { return E; } \
  MSL_FN half FN(half x_) { float x = x_; return (half)(E); }
#define MSL_SHARED_2(FN, E)                       \
  MSL_FN float FN(float x, float y) { return E; } \
  MSL_FN half FN(half x_, half y_) { float x = x_, y = y_; return (half)(E); }
#define MSL_SHARED_3(FN, E)                                \
  MSL_FN float FN(float x, float y, float z) { return E; } \
  MSL_FN half FN(half x_, half y_, half z_) { float x = x_, y = y_, z = z_; return (half)(E); }
#define MSL_SHARED_VECTORS                                                         \
  MSL_VECTOR_1(abs) MSL_VECTOR_2(max) MSL_VECTOR_2(min) MSL_VECTOR_3(clamp)        \
  MSL_VECTOR_3(max3) MSL_VECTOR_3(min3) MSL_VECTOR_3(median3)

#define MSL_PI 3.14159265358979323846f
#define MSL_MATH                                                                 \
  MSL_MATH_1(acos, __builtin_acosf(x)) MSL_MATH_1(acosh, __builtin_acoshf(x))    \
  MSL_MATH_1(asin, __builtin_asinf(x)) MSL_MATH_1(asinh, __builtin_asinhf(x))    \
  MSL_MATH_1(atan, __builtin_atanf(x)) MSL_MATH_1(atanh, __builtin_atanhf(x))    \
  MSL_MATH_1(ceil, __builtin_ceilf(x)) MSL_MATH_1(floor, __builtin_floorf(x))    \
  MSL_MATH_1(cos, __builtin_cosf(x)) MSL_MATH_1(cosh, __builtin_coshf(x))        \
  MSL_MATH_1(sin, __builtin_sinf(x)) MSL_MATH_1(sinh, __builtin_sinhf(x))        \
  MSL_MATH_1(tan, __builtin_tanf(x)) MSL_MATH_1(tanh, __builtin_tanhf(x))        \
  MSL_MATH_1(cospi, __builtin_cosf(x * MSL_PI)) MSL_MATH_1(sinpi, __builtin_sinf(x * MSL_PI)) \
  MSL_MATH_1(tanpi, __builtin_tanf(x * MSL_PI))                                  \
  MSL_MATH_1(exp, __builtin_expf(x)) MSL_MATH_1(exp2, __builtin_exp2f(x))        \
  MSL_MATH_1(exp10, __builtin_powf(10.f, x))                                     \
  MSL_MATH_1(log, __builtin_logf(x)) MSL_MATH_1(log2, __builtin_log2f(x))        \
  MSL_MATH_1(log10, __builtin_log10f(x)) MSL_MATH_1(fabs, __builtin_fabsf(x))    \
  MSL_SHARED_1(abs, __builtin_fabsf(x)) MSL_MATH_1(rint, __builtin_rintf(x))       \
  MSL_MATH_1(round, __builtin_roundf(x)) MSL_MATH_1(trunc, __builtin_truncf(x))  \
  MSL_MATH_1(sqrt, __builtin_sqrtf(x)) MSL_MATH_1(rsqrt, 1.0f / __builtin_sqrtf(x)) \
  MSL_MATH_1(fract, __builtin_fminf(x - __builtin_floorf(x), 0x1.fffffep-1f))    \
  MSL_MATH_1(saturate, __builtin_fminf(__builtin_fmaxf(x, 0.f), 1.f))            \
  MSL_MATH_1(sign, x > 0 ? 1.f : x < 0 ? -1.f : x == 0 ? x : 0.f)                \
  MSL_MATH_2(atan2, __builtin_atan2f(x, y)) MSL_MATH_2(copysign, __builtin_copysignf(x, y)) \
  MSL_MATH_2(fdim, __builtin_fdimf(x, y)) MSL_MATH_2(fmod, __builtin_fmodf(x, y)) \
  MSL_MATH_2(fmax, __builtin_fmaxf(x, y)) MSL_SHARED_2(max, __builtin_fmaxf(x, y)) \
  MSL_MATH_2(fmin, __builtin_fminf(x, y)) MSL_SHARED_2(min, __builtin_fminf(x, y)) \
  MSL_MATH_2(pow, __builtin_powf(x, y)) MSL_MATH_2(powr, __builtin_powf(x, y))   \
  MSL_MATH_2(divide, x / y) MSL_MATH_2(step, y < x ? 0.f : 1.f)                  \
  MSL_MATH_3(fma, __builtin_fmaf(x, y, z)) MSL_MATH_3(mix, x + (y - x) * z)      \
  MSL_SHARED_3(clamp, __builtin_fminf(__builtin_fmaxf(x, y), z))                   \
  MSL_MATH_3(fmax3, __builtin_fmaxf(x, __builtin_fmaxf(y, z)))                   \
  MSL_SHARED_3(max3, __builtin_fmaxf(x, __builtin_fmaxf(y, z)))                    \
  MSL_MATH_3(fmin3, __builtin_fminf(x, __builtin_fminf(y, z)))                   \
  MSL_SHARED_3(min3, __builtin_fminf(x, __builtin_fminf(y, z)))                    \
  MSL_MATH_3(fmedian3, __builtin_fmaxf(__builtin_fminf(x, y), __builtin_fminf(__builtin_fmaxf(x, y), z))) \
  MSL_SHARED_3(median3, __builtin_fmaxf(__builtin_fminf(x, y), __builtin_fminf(__builtin_fmaxf(x, y), z)))  \
  MSL_FN float nextafter(float x, float y) { return __builtin_nextafterf(x, y); } \
  MSL_FN float ldexp(float x, int k) { return __builtin_ldexpf(x, k); }          \
  MSL_FN half ldexp(half x, int k) { return (half)__builtin_ldexpf((float)x, k); } \
  MSL_FN int ilogb(float x) { return __builtin_ilogbf(x); }                      \
  MSL_FN float frexp(float x, int &e) { return __builtin_frexpf(x, &e); }        \
  MSL_FN float modf(float x, float &i) { i = __builtin_truncf(x); return x - i; } \
  MSL_FN float sincos(float x, float &c) { c = __builtin_cosf(x); return __builtin_sinf(x); }

namespace metal {
MSL_MATH
namespace fast {
MSL_MATH MSL_SHARED_VECTORS
}
namespace precise {
MSL_MATH MSL_SHARED_VECTORS
}
} // namespace metal
