// Codes as operands of tensor cores: which lane reads which words, and codes to bytes.
//
// The index that a product sums over may be in any order, as long as both sides have the same one:
// tqc_key_dim says which dimension a lane's code is. Codes are taken eight at a time, as the
// nibbles of a word.

#define TQC_FN __device__ __forceinline__

TQC_FN unsigned tqc_permute(unsigned a, unsigned b, unsigned selector) {
  unsigned r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
  return r;
}

// Bytes of the levels of eight codes. A selector of 8 or more gives copies of a byte's sign, which is
// 0 here (bytes below 128), so that 16 levels take two permutations and an OR.
template <int BITS>
TQC_FN void tqc_expand(unsigned codes, const unsigned* table, unsigned& low, unsigned& high) {
  low = tqc_permute(table[0], table[1], codes);
  high = tqc_permute(table[0], table[1], codes >> 16);
  if (BITS == 4) {
    const unsigned upper = codes ^ 0x88888888u;
    low |= tqc_permute(table[2], table[3], upper);
    high |= tqc_permute(table[2], table[3], upper >> 16);
  }
}

// A product of 16 x 32 bytes with 32 x 8, added to c: unsigned levels times signed queries.
TQC_FN void tqc_score(int* c, const unsigned* a, const unsigned* b) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Sums start at the bits of a large float whose last place is 1, and so come out as floats: the
// conversion is one subtraction. Sums within 2^22 fit.
constexpr int TQC_ZERO = 0x4b400000;
constexpr float TQC_LARGE = 12582912.0f;

// The same for unsigned weights of 8 rows, the other 8 rows being zero, times unsigned levels.
TQC_FN void tqc_mix(int* c, unsigned a0, unsigned a2, unsigned b0, unsigned b1) {
  int unused[2];
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
      : "=r"(c[0]), "=r"(c[1]), "=r"(unused[0]), "=r"(unused[1])
      : "r"(a0), "r"(0), "r"(a2), "r"(0), "r"(b0), "r"(b1), "r"(TQC_ZERO));
}

TQC_FN float tqc_float(int sum) {
  return __int_as_float(sum) - TQC_LARGE;
}

TQC_FN float tqc_exp2(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// The 16-bit scale; that of a zero vector, code 0, is 2^-31, which no output shows.
TQC_FN float tqc_scale(unsigned code) {
  return __int_as_float(code * 8192u + (96u << 23));
}

// Eight 3-bit codes, the low 24 bits, as nibbles.
TQC_FN unsigned tqc_spread(unsigned x) {
  x = (x & 0x00000fffu) | ((x << 4) & 0x0fff0000u);
  x = (x & 0x003f003fu) | ((x << 2) & 0x3f003f00u);
  return (x & 0x07070707u) | ((x << 1) & 0x70707070u);
}

// Copies SIZE bytes, 8 or 16, into shared memory without waiting.
template <int SIZE>
TQC_FN void tqc_copy(void* to, const void* from) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  if (SIZE == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(at), "l"(from));
  }
}
TQC_FN void tqc_commit() {
  asm volatile("cp.async.commit_group;");
}
template <int PENDING>
TQC_FN void tqc_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Copies 32 rows of WORDS words; rows beyond the last are the last. MIXED: the four 16-byte pieces
// of row r stand in the order of piece ^ (r / 4 % 4), so that the lanes that read four rows at once
// meet in few banks.
template <int WORDS, bool MIXED>
TQC_FN void tqc_fetch(unsigned* to, const unsigned* rows, int first, int count, int lane) {
  constexpr int words = WORDS % 4 == 0 ? 4 : 2;  // a piece
  constexpr int pieces = WORDS / words;
  const unsigned* from = rows + (long long)first * WORDS + lane * words;
  const bool whole = first + 32 <= count;
  #pragma unroll
  for (int k = 0; k < pieces; k++) {
    // Piece i = lane + 32 k of the tile: its row's place in the mix repeats with every lane.
    const int i = lane + 32 * k;
    const int mixed = (i & ~3) | ((i & 3) ^ (i / 4 / 4 % 4));
    const unsigned* source = from + 32 * words * k;
    if (!whole) {
      const int row = min(first + i / pieces, count - 1);
      source = rows + (long long)row * WORDS + i % pieces * words;
    }
    tqc_copy<4 * words>(to + (MIXED && pieces == 4 ? mixed : i) * words, source);
  }
}

// Dimension of code e of a lane's step: four lanes share a token, a step is eight codes of each.
template <int D, int BITS>
TQC_FN int tqc_key_dim(int j, int step, int e) {
  return BITS == 2 ? j * (D / 4) + 16 * (step / 2) + 2 * e + step % 2 : j * (D / 4) + 8 * step + e;
}

// A lane's words of a token's key.
template <int D, int BITS, int SIZE>
TQC_FN void tqc_read_key(const unsigned* row, int j, unsigned* share) {
  if (D / 4 * BITS % 32 != 0) {  // 3 bits, 64 dimensions: 48 bits a lane
    const int word = 48 * j / 32;
    const int shift = 48 * j % 32;
    share[0] = __funnelshift_r(row[word], row[word + 1], shift);
    share[SIZE - 1] = row[word + 1] >> shift;
  } else if (SIZE == 4) {
    *reinterpret_cast<uint4*>(share) = reinterpret_cast<const uint4*>(row)[j];
  } else {
    #pragma unroll
    for (int i = 0; i < SIZE; i++) {
      share[i] = row[j * SIZE + i];
    }
  }
}

// Eight codes of a step as nibbles.
template <int D, int BITS>
TQC_FN unsigned tqc_key_codes(const unsigned* share, int step) {
  if (BITS == 4) {
    return share[step];
  }
  if (BITS == 2) {
    return (share[step / 2] >> (2 * (step % 2))) & 0x33333333u;
  }
  const int word = 24 * step / 32;
  const int shift = 24 * step % 32;
  return tqc_spread(shift + 24 > 32 ? __funnelshift_r(share[word], share[word + 1], shift) : share[word] >> shift);
}

// Dimension of code i that lane g takes of a token's values, in one half or the other.
template <int D, int BITS>
TQC_FN int tqc_value_dim(int half, int g, int i) {
  if (BITS == 2) {
    return D == 128 ? 16 * g + 2 * i + half : 16 * (g / 2) + 2 * i + g % 2;
  }
  return 64 * half + 8 * g + i;
}

// Word of row 4 j of the values at which lane (g, j) finds its codes: 8 lanes share a token, in one
// half or two. The rows that follow have theirs the same way.
template <int D, int BITS>
TQC_FN int tqc_value_word(int g, int j, int half) {
  constexpr int words = D / 32 * BITS;
  int word = 8 * half + g;
  if (BITS == 4 && D == 128) {
    word = ((word / 4) ^ j) * 4 + word % 4;
  } else if (BITS == 2) {
    word = D == 128 ? g : g / 2;
  } else if (BITS == 3) {
    word = 6 * half + 24 * g / 32;
  }
  return 4 * j * words + word;
}

// Eight codes of the row whose word of this lane is `at`, as nibbles.
template <int D, int BITS>
TQC_FN unsigned tqc_value_codes(const unsigned* at, int g, int half) {
  if (BITS == 4) {
    return *at;
  }
  if (BITS == 2) {
    return (*at >> (2 * (D == 128 ? half : g % 2))) & 0x33333333u;
  }
  // The last lane's codes end with its word.
  return tqc_spread(__funnelshift_r(at[0], at[g % 4 == 3 ? 0 : 1], 24 * g % 32));
}

// Four tokens of eight dimensions, a word a token, become pairs of dimensions, four tokens each:
// 0 and 2, 4 and 6, 1 and 3, 5 and 7.
TQC_FN void tqc_transpose(unsigned* x) {
  const unsigned mask = 0x0f0f0f0fu;
  const unsigned even_a = (x[0] & mask) | ((x[1] << 4) & ~mask);
  const unsigned odd_a = ((x[0] >> 4) & mask) | (x[1] & ~mask);
  const unsigned even_b = (x[2] & mask) | ((x[3] << 4) & ~mask);
  const unsigned odd_b = ((x[2] >> 4) & mask) | (x[3] & ~mask);
  x[0] = tqc_permute(even_a, even_b, 0x5140u);
  x[1] = tqc_permute(even_a, even_b, 0x7362u);
  x[2] = tqc_permute(odd_a, odd_b, 0x5140u);
  x[3] = tqc_permute(odd_a, odd_b, 0x7362u);
}
