// Scalars and vectors, as Apple's compiler (a clang) has them: clang's ext_vector_type.
#pragma once
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef unsigned long uintptr_t;
typedef long intptr_t;

// The address-space pass reads these headers as OpenCL C++, which has no bool vectors and wants
// an address space on static members.
#ifdef __OPENCL_CPP_VERSION__
#define half _Float16
#define MSL_BOOL char
#define MSL_STATIC __constant
#else
typedef _Float16 half;
#define MSL_BOOL bool
#define MSL_STATIC
#endif
typedef __bf16 bfloat;

#define MSL_FN inline __attribute__((always_inline))

#define MSL_VECTORS(T, NAME)                              \
  typedef T NAME##2 __attribute__((ext_vector_type(2))); \
  typedef T NAME##3 __attribute__((ext_vector_type(3))); \
  typedef T NAME##4 __attribute__((ext_vector_type(4)));
MSL_VECTORS(MSL_BOOL, bool)
MSL_VECTORS(char, char)
MSL_VECTORS(uchar, uchar)
MSL_VECTORS(short, short)
MSL_VECTORS(ushort, ushort)
MSL_VECTORS(int, int)
MSL_VECTORS(uint, uint)
MSL_VECTORS(long, long)
MSL_VECTORS(ulong, ulong)
MSL_VECTORS(half, half)
MSL_VECTORS(float, float)
MSL_VECTORS(bfloat, bfloat)

namespace metal {
template <typename T, int N> using vec = T __attribute__((ext_vector_type(N)));
}

template <typename To, typename From> MSL_FN To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From), "as_type: the sizes differ");
  return __builtin_bit_cast(To, from);
}
