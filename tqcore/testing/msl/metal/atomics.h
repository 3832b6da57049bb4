// <metal_atomic>. Fibres switch only in the runtime, so a plain read and write are atomic here.
#pragma once
#include "groups.h"

extern "C" {
void __msl_atomic_begin();
void __msl_atomic_end();
}

namespace metal {
enum memory_order { memory_order_relaxed = 0, memory_order_seq_cst = 5 };
enum thread_scope {
  thread_scope_thread, thread_scope_simdgroup, thread_scope_threadgroup, thread_scope_device, thread_scope_system
};
MSL_FN void atomic_thread_fence(mem_flags flags, memory_order, thread_scope scope = thread_scope_device) {
  __msl_fence((uint)flags, (uint)scope);
}

template <typename T> struct atomic {
  T value;
  atomic() = default;
};
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<float> atomic_float;
typedef atomic<bool> atomic_bool;
typedef atomic<ulong> atomic_ulong;

// Read as OpenCL C++, once for each address space: an atomic in another one is an error.
#define MSL_FETCH(SPACE, NAME, E)                                                              \
  template <typename T, typename U>                                                            \
  MSL_FN T atomic_fetch_##NAME##_explicit(volatile SPACE atomic<T> *p, U by, memory_order) {   \
    __msl_atomic_begin();                                                                      \
    const T x = p->value, y = (T)by;                                                           \
    p->value = (T)(E);                                                                         \
    __msl_atomic_end();                                                                        \
    return x;                                                                                  \
  }
#define MSL_ATOMICS(SPACE)                                                                     \
  template <typename T> MSL_FN T atomic_load_explicit(const volatile SPACE atomic<T> *p, memory_order) { \
    __msl_atomic_begin();                                                                      \
    const T x = p->value;                                                                      \
    __msl_atomic_end();                                                                        \
    return x;                                                                                  \
  }                                                                                            \
  template <typename T, typename U>                                                            \
  MSL_FN void atomic_store_explicit(volatile SPACE atomic<T> *p, U to, memory_order) {         \
    __msl_atomic_begin();                                                                      \
    p->value = (T)to;                                                                          \
    __msl_atomic_end();                                                                        \
  }                                                                                            \
  template <typename T, typename U>                                                            \
  MSL_FN bool atomic_compare_exchange_weak_explicit(volatile SPACE atomic<T> *p, T *expected, U to, memory_order, memory_order) { \
    __msl_atomic_begin();                                                                      \
    const T x = p->value, y = *expected;                                                       \
    const bool same = __builtin_memcmp(&x, &y, sizeof(T)) == 0;                                \
    if (same) p->value = (T)to; else *expected = x;                                            \
    __msl_atomic_end();                                                                        \
    return same;                                                                               \
  }                                                                                            \
  MSL_FETCH(SPACE, add, x + y)                                                                 \
  MSL_FETCH(SPACE, sub, x - y)                                                                 \
  MSL_FETCH(SPACE, max, x > y ? x : y)                                                         \
  MSL_FETCH(SPACE, min, x < y ? x : y)                                                         \
  MSL_FETCH(SPACE, and, x & y)                                                                 \
  MSL_FETCH(SPACE, or, x | y)                                                                  \
  MSL_FETCH(SPACE, xor, x ^ y)                                                                 \
  template <typename T, typename U>                                                            \
  MSL_FN T atomic_exchange_explicit(volatile SPACE atomic<T> *p, U by, memory_order) {         \
    __msl_atomic_begin();                                                                      \
    const T x = p->value;                                                                      \
    p->value = (T)by;                                                                          \
    __msl_atomic_end();                                                                        \
    return x;                                                                                  \
  }
#ifdef __OPENCL_CPP_VERSION__
MSL_ATOMICS(__global)
MSL_ATOMICS(__local)
#else
MSL_ATOMICS()
#endif
} // namespace metal
