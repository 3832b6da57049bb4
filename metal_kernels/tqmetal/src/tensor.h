// Codes to bytes, products of bytes on tensor cores, and a few words of mathematics.

#define TQC_FN __device__ __forceinline__

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

TQC_FN unsigned tqc_permute(unsigned a, unsigned b, unsigned selector) {
  unsigned r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
  return r;
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

// A product of 16 x 32 bytes with 32 x 8, plus c: levels of 16 tokens times queries.
TQC_FN void tqc_score(int* d, unsigned a0, unsigned a1, unsigned a2, unsigned a3, const unsigned* b, const int* c) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}

// The same for unsigned weights times levels.
TQC_FN void tqc_mix(int* d, const unsigned* a, unsigned b0, unsigned b1, const int* c) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}

// Sums start at the bits of a large float whose last place is 1, and so come out as floats: the
// conversion is one subtraction. Sums within 2^22 fit.
constexpr int TQC_ZERO = 0x4b400000;
constexpr float TQC_LARGE = 12582912.0f;

TQC_FN float tqc_float(int sum) {
  return __int_as_float(sum) - TQC_LARGE;
}

TQC_FN float tqc_exp2(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

TQC_FN float tqc_log2(float x) {
  float r;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
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

TQC_FN float tqc_inverse(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
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
