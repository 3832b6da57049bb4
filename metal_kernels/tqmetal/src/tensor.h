// Codes to bytes, sums to floats, a rotation, and a few words of mathematics.

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

// N floats that are read at once.
template <int N>
struct alignas(4 * N) tqc_chunk {
  float x[N];
};

// Walsh-Hadamard transform of the warp's vector, N neighbouring values a lane, not normalized.
template <int N>
TQC_FN void tqc_hadamard(float* x, int lane) {
  #pragma unroll
  for (int h = 1; h < N; h *= 2) {
    #pragma unroll
    for (int i = 0; i < N; i++) {
      if ((i & h) == 0) {
        const float a = x[i];
        x[i] = a + x[i + h];
        x[i + h] = a - x[i + h];
      }
    }
  }
  #pragma unroll
  for (int h = 1; h < 32; h *= 2) {
    #pragma unroll
    for (int i = 0; i < N; i++) {
      const float other = __shfl_xor_sync(~0u, x[i], h);
      x[i] = lane & h ? other - x[i] : x[i] + other;
    }
  }
}

// Bits of a where the mask has ones, of b, or of ~b, elsewhere.
TQC_FN unsigned tqc_merge(unsigned a, unsigned b, unsigned mask) {
  return tqc_logic<0xe4>(a, b, mask);
}
TQC_FN unsigned tqc_merge_not(unsigned a, unsigned b, unsigned mask) {
  return tqc_logic<0xb1>(a, b, mask);
}

// Bits of a, opposite where both b and the mask have ones.
TQC_FN unsigned tqc_flip(unsigned a, unsigned b, unsigned mask) {
  return tqc_logic<0x78>(a, b, mask);
}

// Tables of eight levels, and so products, that a code's level is the sum of.
TQC_FN constexpr int tqc_tables(int bits, int states) {
  return states ? bits - 1 : bits == 4 ? 2 : 1;
}

// Levels of eight codes as signed bytes: the first four of bytes[t][0], the others of bytes[t][1].
// 16 levels are the sum of two tables: a selector of 8 or more gives copies of a byte's sign, so that
// either table gives a constant, 0 or -1, for what the other one holds (levels.py).
template <int BITS>
TQC_FN void tqc_expand(unsigned codes, const unsigned* table, unsigned (*bytes)[2]) {
  bytes[0][0] = tqc_permute(table[0], table[1], codes);
  bytes[0][1] = tqc_permute(table[0], table[1], codes >> 16);
  if (BITS == 4) {
    const unsigned upper = codes ^ 0x88888888u;
    bytes[1][0] = tqc_permute(table[2], table[3], upper);
    bytes[1][1] = tqc_permute(table[2], table[3], upper >> 16);
  }
}

// Sums start at the bits of a large float whose last place is 1, and so come out as floats: the
// conversion is one subtraction. Sums within 2^22 fit.
constexpr int TQC_ZERO = 0x4b400000;
constexpr float TQC_LARGE = 12582912.0f;

TQC_FN float tqc_float(int sum) {
  return __int_as_float(sum) - TQC_LARGE;
}

// The 16-bit scale; that of a zero vector, code 0, is 2^-31, which no output shows.
TQC_FN float tqc_scale(unsigned code) {
  return __int_as_float(code * 8192u + (96u << 23));
}

// What float16 cannot hold becomes its largest value.
template <typename T>
TQC_FN void tqc_write(T* to, float x) {
  *to = static_cast<T>(x);
}
TQC_FN void tqc_write(__half* to, float x) {
  *to = static_cast<__half>(x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x);
}

// What other blocks wrote: past the multiprocessor's own cache.
TQC_FN tqc_chunk<4> tqc_load(const tqc_chunk<4>* from) {
  const float4 x = __ldcg(reinterpret_cast<const float4*>(from));
  return {{x.x, x.y, x.z, x.w}};
}
TQC_FN tqc_chunk<2> tqc_load(const tqc_chunk<2>* from) {
  const float2 x = __ldcg(reinterpret_cast<const float2*>(from));
  return {{x.x, x.y}};
}
