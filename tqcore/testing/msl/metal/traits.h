// <metal_type_traits> and <metal_limits>.
#pragma once
#include "types.h"

namespace metal {
template <typename T, T v> struct integral_constant {
  static constexpr MSL_STATIC T value = v;
  typedef T value_type;
  typedef integral_constant type;
  constexpr operator T() const { return v; }
};
template <bool b> using bool_constant = integral_constant<bool, b>;
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;

template <bool, typename T = void> struct enable_if {};
template <typename T> struct enable_if<true, T> { typedef T type; };
template <bool b, typename T = void> using enable_if_t = typename enable_if<b, T>::type;
template <bool b, typename T, typename F> struct conditional { typedef T type; };
template <typename T, typename F> struct conditional<false, T, F> { typedef F type; };
template <bool b, typename T, typename F> using conditional_t = typename conditional<b, T, F>::type;

template <typename A, typename B> struct is_same : false_type {};
template <typename A> struct is_same<A, A> : true_type {};
template <typename A, typename B> constexpr MSL_STATIC bool is_same_v = is_same<A, B>::value;

template <typename T> struct remove_reference { typedef T type; };
template <typename T> struct remove_reference<T &> { typedef T type; };
template <typename T> struct remove_reference<T &&> { typedef T type; };
template <typename T> using remove_reference_t = typename remove_reference<T>::type;
template <typename T> struct remove_const { typedef T type; };
template <typename T> struct remove_const<const T> { typedef T type; };
template <typename T> struct remove_volatile { typedef T type; };
template <typename T> struct remove_volatile<volatile T> { typedef T type; };
template <typename T> struct remove_cv {
  typedef typename remove_const<typename remove_volatile<T>::type>::type type;
};
template <typename T> using remove_cv_t = typename remove_cv<T>::type;
template <typename T> struct remove_addrspace { typedef T type; };
template <typename T> using remove_addrspace_t = T;

template <typename T> struct is_floating_point
    : bool_constant<is_same_v<remove_cv_t<T>, float> || is_same_v<remove_cv_t<T>, half> ||
                    is_same_v<remove_cv_t<T>, bfloat>> {};
template <typename T> constexpr MSL_STATIC bool is_floating_point_v = is_floating_point<T>::value;
template <typename T> struct is_integral : bool_constant<__is_integral(T)> {};
template <typename T> constexpr MSL_STATIC bool is_integral_v = is_integral<T>::value;
template <typename T> struct is_arithmetic
    : bool_constant<is_integral_v<T> || is_floating_point_v<T>> {};
template <typename T> constexpr MSL_STATIC bool is_arithmetic_v = is_arithmetic<T>::value;
template <typename T> struct is_signed : bool_constant<is_floating_point_v<T> || __is_signed(T)> {};
template <typename T> constexpr MSL_STATIC bool is_signed_v = is_signed<T>::value;
template <typename T> struct is_unsigned : bool_constant<__is_unsigned(T)> {};
template <typename T> constexpr MSL_STATIC bool is_unsigned_v = is_unsigned<T>::value;
template <typename F, typename T> struct is_convertible : bool_constant<__is_convertible_to(F, T)> {};
template <typename F, typename T>
constexpr MSL_STATIC bool is_convertible_v = __is_convertible_to(F, T);
template <typename T> struct is_pointer : false_type {};
template <typename T> struct is_pointer<T *> : true_type {};
template <typename T> constexpr MSL_STATIC bool is_pointer_v = is_pointer<T>::value;

template <typename T, int N> struct array {
  T e[N];
  T &operator[](size_t i) { return e[i]; }
  const T &operator[](size_t i) const { return e[i]; }
  static constexpr int size() { return N; }
};

template <typename T> struct numeric_limits {};
#define MSL_LIMITS(T, MIN, MAX, LOWEST, INF, QNAN, EPSILON, DIGITS, INTEGER)   \
  template <> struct numeric_limits<T> {                                       \
    static constexpr MSL_STATIC bool is_specialized = true, is_integer = INTEGER; \
    static constexpr MSL_STATIC int digits = DIGITS;                           \
    static constexpr T min() { return MIN; }                                   \
    static constexpr T max() { return MAX; }                                   \
    static constexpr T lowest() { return LOWEST; }                             \
    static constexpr T infinity() { return INF; }                              \
    static constexpr T quiet_NaN() { return QNAN; }                            \
    static constexpr T epsilon() { return EPSILON; }                           \
  };
#define MSL_FLOAT_LIMITS(T, MIN, MAX, EPSILON, DIGITS)                              \
  MSL_LIMITS(T, (T)MIN, (T)MAX, (T)(-MAX), (T)__builtin_inff(), (T)__builtin_nanf(""), \
             (T)EPSILON, DIGITS, false)
MSL_FLOAT_LIMITS(float, 0x1p-126f, 0x1.fffffep127f, 0x1p-23f, 24)
MSL_FLOAT_LIMITS(half, 0x1p-14f, 65504.f, 0x1p-10f, 11)
MSL_FLOAT_LIMITS(bfloat, 0x1p-126f, 0x1.fep127f, 0x1p-7f, 8)
#define MSL_INT_LIMITS(T, MIN, MAX, DIGITS) MSL_LIMITS(T, MIN, MAX, MIN, 0, 0, 0, DIGITS, true)
MSL_INT_LIMITS(bool, false, true, 1)
MSL_INT_LIMITS(char, -128, 127, 7)
MSL_INT_LIMITS(signed char, -128, 127, 7)
MSL_INT_LIMITS(uchar, 0, 255, 8)
MSL_INT_LIMITS(short, -32768, 32767, 15)
MSL_INT_LIMITS(ushort, 0, 65535, 16)
MSL_INT_LIMITS(int, -0x7fffffff - 1, 0x7fffffff, 31)
MSL_INT_LIMITS(uint, 0, 0xffffffffu, 32)
MSL_INT_LIMITS(long, -0x7fffffffffffffffl - 1, 0x7fffffffffffffffl, 63)
MSL_INT_LIMITS(ulong, 0, 0xfffffffffffffffful, 64)
} // namespace metal
