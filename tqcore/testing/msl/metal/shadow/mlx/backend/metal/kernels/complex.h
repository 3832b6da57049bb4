// For MLX's complex.h, which overloads members by address space: storage, without arithmetic.
#pragma once
#include <metal_stdlib>
#include "mlx/backend/metal/kernels/bf16.h"
using namespace metal;
template <typename T> struct complex_t {
  typedef T value_type;
  T real;
  T imag;
  constexpr complex_t(T r, T i) : real(r), imag(i) {}
  constexpr complex_t() : real(0), imag(0) {}
  constexpr complex_t(T r) : real(r), imag(0) {}
};
using complex32_t = complex_t<half>;
using complex64_t = complex_t<float>;
