// Rows of words as lanes read them: copies into shared memory, and codes as nibbles.
//
// The index that a product sums over may be in any order, as long as both sides have the same one:
// tqc_key_place says where a dimension stands. Codes are taken eight at a time, as the nibbles of a word.

// Eight 3-bit codes, the low 24 bits, as nibbles. What a step leaves between codes goes at the end.
TQC_FN unsigned tqc_spread(unsigned x) {
  x = tqc_merge(x, x << 4, 0x00000fffu);
  x = tqc_merge(x, x << 2, 0x003f003fu);
  return tqc_merge(x, x << 1, 0x07070707u) & 0x77777777u;
}

// Copies COUNT rows of WORDS words; `from` is the lane's part of the first one. MIXED: the halves of rows
// 2, 3, 6, 7, .. change places, so that lanes that read four rows at once meet in few banks.
template <int COUNT, int WORDS, bool MIXED>
struct tqc_rows {
  static constexpr int PIECE = WORDS % 4 == 0 ? 4 : WORDS % 2 == 0 ? 2 : 1;  // words
  static constexpr int STEPS = COUNT * WORDS / PIECE / 32;

  TQC_FN static unsigned place(int lane) {
    return (MIXED ? lane ^ (lane / 4 & 2) : lane) * (4 * PIECE);
  }

  TQC_FN static void copy(unsigned to, const unsigned* from) {
    #pragma unroll
    for (int k = 0; k < STEPS; k++) {
      tqc_copy<4 * PIECE>(to + 128 * PIECE * k, from + 32 * PIECE * k);
    }
  }

  // The same where there are but `count` rows: the last one stands for those that follow.
  TQC_FN static void copy_few(unsigned to, const unsigned* rows, int count, int lane) {
    #pragma unroll 1
    for (int k = 0; k < STEPS; k++) {
      const int i = (lane + 32 * k) * PIECE;
      tqc_copy<4 * PIECE>(to + 128 * PIECE * k, rows + min(i / WORDS, count - 1) * WORDS + i % WORDS);
    }
  }
};

// The side of token t; strides of a token fit 32 bits.
TQC_FN unsigned tqc_side(const unsigned short* sides, int t, int bytes) {
  return *reinterpret_cast<const unsigned short*>(reinterpret_cast<const char*>(sides) + (long long)t * bytes);
}

// Where dimension d of the queries stands: four lanes share a token, a step is eight codes of each.
template <int D, int BITS>
TQC_FN int tqc_key_place(int d) {
  // 2 bits: of 16 codes of a word, the even ones are a step and the odd ones the next.
  return BITS == 2 ? d / 16 * 16 + d % 2 * 8 + d % 16 / 2 : d;
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

// Eight lanes share a token's value, D / 8 codes each. Word of row j at which lane (g, j) finds its
// codes; the rows four by four further on have theirs alike.
template <int D, int BITS>
TQC_FN int tqc_value_word(int g, int j) {
  if (BITS == 4 && D == 128) {
    return j * 16 + ((2 * g) ^ (j / 2 * 8));
  }
  return j * (D / 32 * BITS) + D / 8 * BITS * g / 32;
}

// A lane's codes of a token's value as nibbles, D / 64 words.
template <int D, int BITS>
TQC_FN void tqc_value_codes(const unsigned* at, int g, unsigned* codes) {
  if (BITS == 4) {
    if (D == 128) {
      *reinterpret_cast<uint2*>(codes) = *reinterpret_cast<const uint2*>(at);
    } else {
      codes[0] = at[0];
    }
  } else if (BITS == 2) {
    codes[0] = (at[0] >> (D == 128 ? 0 : 2 * (g % 2))) & 0x33333333u;
    if (D == 128) {
      codes[1] = (at[0] >> 2) & 0x33333333u;
    }
  } else if (D == 128) {  // 48 bits, from byte 0 or 2 on
    codes[0] = tqc_spread(tqc_permute(at[0], at[1], g % 2 ? 0x5432u : 0x3210u));
    codes[1] = tqc_spread(tqc_permute(at[0], at[1], g % 2 ? 0x7765u : 0x6543u));
  } else {  // 24 bits; the last lane's codes end with its word
    codes[0] = tqc_spread(__funnelshift_r(at[0], at[g % 4 == 3 ? 0 : 1], 24 * g % 32));
  }
}

// Dimension of nibble i of word k of lane g.
template <int D, int BITS>
TQC_FN int tqc_value_dim(int g, int k, int i) {
  if (BITS == 2) {
    return D == 128 ? 16 * g + 2 * i + k : g / 2 * 16 + 2 * i + g % 2;
  }
  return D / 8 * g + 8 * k + i;
}

// What a lane holds of a token's key; that of a trellis is in tensor_trellis.h.
template <int D, int BITS, int STATES>
struct tqc_keys;
template <int D, int BITS>
struct tqc_keys<D, BITS, 0> {
  static constexpr int SIZE = (D / 4 * BITS + 31) / 32;
  unsigned share[SIZE];

  TQC_FN void read(const unsigned* row, int lane) {
    tqc_read_key<D, BITS, SIZE>(row, lane % 4, share);
  }

  TQC_FN void expand(int step, const unsigned* table, unsigned (*bytes)[2]) const {
    tqc_expand<BITS>(tqc_key_codes<D, BITS>(share, step), table, bytes);
  }
};

// What a lane holds of a token's value, from word `first` of four rows on.
template <int D, int BITS, int STATES>
struct tqc_values;
template <int D, int BITS>
struct tqc_values<D, BITS, 0> {
  unsigned codes[D / 64];

  TQC_FN static int first(int g, int j) {
    return tqc_value_word<D, BITS>(g, j);
  }

  TQC_FN void read(const unsigned* at, int lane) {
    tqc_value_codes<D, BITS>(at, lane / 4, codes);
  }

  TQC_FN void expand(int piece, int lane, const unsigned* table, unsigned (*bytes)[2]) const {
    tqc_expand<BITS>(codes[piece], table, bytes);
  }
};
