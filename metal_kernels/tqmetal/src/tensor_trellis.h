// Codes of a trellis as bytes (tqplugins.trellis.layout): a code of BITS bits is its low bit u_t, on top, and
// upper bits. With u of the codes before it, modulo the vector, it has a label of two bits 2 a + b:
//
//   STATES = 4:  a = u_t ^ u_(t-2),             b = u_(t-1)
//   STATES = 8:  a = u_t ^ u_(t-1) ^ u_(t-3),   b = u_(t-2)
//
// Its level is a sum of tables of eight bytes, each one permutation for four codes (tensor_tables.py):
//
//   2 bits:  A[b, upper, a]
//   3 bits:  A[b, upper] + a B[b, upper]
//   4 bits:  A[b, upper], of 16 entries and so two tables as in tqc_expand, + a B[b, upper]
//
// Of 4 bits B has eight different entries: levels are symmetric, and a level whose bits are all opposite
// is as far from its neighbour. So its index is where neighbouring bits of b and upper differ. A
// selector is made of whole words: shifts of the stream put u of other codes where it is wanted for all eight
// at once. A permutation multiplies by a where the bit on top of its selector is ~a, since copies of the
// sign of what is not negative are 0.

constexpr unsigned TQC_TOP = 0x88888888u;    // the uppermost bit of each nibble
constexpr unsigned TQC_INDEX = 0x77777777u;  // the others

// A word's nibbles of the stream as they were 1 to 31 bits before: of code t - n, for n nibbles.
TQC_FN unsigned tqc_earlier(unsigned before, unsigned word, int bits) {
  return __funnelshift_r(before, word, 32 - bits);
}

// 25 bits of a stream of 3-bit codes, from the bit before a code on, as eight nibbles of four bits that
// overlap: u_(t-1), the upper bits, u_t.
TQC_FN unsigned tqc_windows(unsigned x) {
  x = tqc_merge(x, x << 4, 0x00001fffu);
  x = tqc_merge(x, x << 2, 0x007f007fu);
  return tqc_merge(x, x << 1, 0x0f0f0f0fu);
}

// Selectors of eight codes, one a table; `before` is the word before, of the same form.
// 4 bits: words are the codes themselves.
template <int STATES>
TQC_FN void tqc_select4(unsigned before, unsigned word, unsigned* s) {
  s[0] = tqc_earlier(before, word, 1);  // u_(t-1), the upper bits
  unsigned others;                      // on top: a without u_t
  if (STATES == 4) {
    others = tqc_earlier(before, word, 8);
  } else {
    s[0] = tqc_merge(s[0], tqc_earlier(before, word, 5), 0xeeeeeeeeu);
    others = tqc_earlier(before, word, 4) ^ tqc_earlier(before, word, 12);
  }
  s[1] = s[0] ^ TQC_TOP;
  s[2] = word ^ tqc_merge_not(s[0], others, TQC_INDEX);
}

// 3 bits: words are windows.
template <int STATES>
TQC_FN void tqc_select3(unsigned before, unsigned word, unsigned* s) {
  unsigned index = word;
  unsigned others;  // on top: a without what the index has there
  if (STATES == 4) {
    others = tqc_earlier(before, word, 8);
  } else {
    index = tqc_merge(word, tqc_earlier(before, word, 4), 0x66666666u);  // u_(t-2), .., .., u_(t-1)
    others = word ^ tqc_earlier(before, word, 12);
  }
  s[0] = index & TQC_INDEX;
  s[1] = tqc_logic<0xe1>(index, others, TQC_INDEX);  // index, on top ~(index ^ others)
}

// 2 bits: words are sixteen codes, of which every other one is taken, from the first or, `odd`, the second.
template <int STATES>
TQC_FN unsigned tqc_select2(unsigned before, unsigned word, bool odd) {
  // u_(t-1), the upper bit, u_t, and a bit of the next code
  const unsigned near = __funnelshift_r(odd ? word : before, word, odd ? 1 : 31);
  if (STATES == 4) {
    const unsigned far = tqc_earlier(before, word, odd ? 3 : 5);  // .., .., u_(t-2)
    return tqc_flip(near & TQC_INDEX, far, 0x44444444u);
  }
  const unsigned last = tqc_earlier(before, word, odd ? 1 : 3);  // u_(t-2), .., u_(t-1)
  const unsigned far = tqc_earlier(before, word, odd ? 5 : 7);   // .., .., u_(t-3)
  return tqc_flip(tqc_merge(near, last, 0x22222222u), near ^ far, 0x44444444u) & TQC_INDEX;
}

// Levels of eight codes as bytes, as tqc_expand gives them.
template <int BITS, int STATES>
TQC_FN void tqc_expand_trellis(
    unsigned before, unsigned word, bool odd, const unsigned* table, unsigned (*bytes)[2]) {
  unsigned s[3];
  if (BITS == 4) {
    tqc_select4<STATES>(before, word, s);
  } else if (BITS == 3) {
    tqc_select3<STATES>(before, word, s);
  } else {
    s[0] = tqc_select2<STATES>(before, word, odd);
  }
  #pragma unroll
  for (int t = 0; t < tqc_tables(BITS, STATES); t++) {
    bytes[t][0] = tqc_permute(table[2 * t], table[2 * t + 1], s[t]);
    bytes[t][1] = tqc_permute(table[2 * t], table[2 * t + 1], s[t] >> 16);
  }
}

// Windows of a lane's SHARE bits, number i of those of a row of WORDS words: the first one needs the bit
// before them, of the row's last word for the first lane.
template <int SHARE, int WORDS>
TQC_FN void tqc_read_windows(const unsigned* row, int i, unsigned* windows) {
  constexpr int COUNT = SHARE / 24;
  const int second = (SHARE * i + 31) / 32;
  const int shift = (SHARE * i + 31) % 32;
  unsigned words[COUNT + 1];
  words[0] = row[second == 0 ? WORDS - 1 : second - 1];
  #pragma unroll
  for (int k = 1; k < COUNT; k++) {
    words[k] = row[second + k - 1];
  }
  // Where it is past the row, the last window ends with the word before.
  words[COUNT] = row[(second + COUNT - 1) % WORDS];
  #pragma unroll
  for (int k = 0; k < COUNT; k++) {
    windows[k] = tqc_windows(__funnelshift_r(words[k], words[k + 1], (shift + 24 * k) % 32));
  }
}

// What a lane holds of a token's key, as tqc_keys of tensor_rows.h.
template <int D, int BITS, int STATES>
struct tqc_keys {
  static constexpr int COUNT = BITS == 2 ? D / 64 : D / 32;
  unsigned words[COUNT + 1];  // the first one is that before the lane's own

  TQC_FN void read(const unsigned* row, int lane) {
    if (BITS == 3) {
      tqc_read_windows<D / 4 * BITS, D / 32 * BITS>(row, lane % 4, words + 1);
    } else {
      tqc_read_key<D, BITS, COUNT>(row, lane % 4, words + 1);
    }
    words[0] = __shfl_sync(~0u, words[COUNT], lane + 3, 4);  // modulo 4, of the four lanes
  }

  TQC_FN void expand(int step, const unsigned* table, unsigned (*bytes)[2]) const {
    const int k = BITS == 2 ? step / 2 : step;
    tqc_expand_trellis<BITS, STATES>(words[k], words[k + 1], step % 2, table, bytes);
  }
};

// What a lane holds of a token's value, as tqc_values of tensor_rows.h.
template <int D, int BITS, int STATES>
struct tqc_values {
  static constexpr int COUNT = BITS == 2 ? 1 : D / 64;
  unsigned words[COUNT + 1];

  TQC_FN static int first(int g, int j) {
    return BITS == 3 ? j * (D / 32 * BITS) : tqc_value_word<D, BITS>(g, j);
  }

  TQC_FN void read(const unsigned* at, int lane) {
    if (BITS == 3) {
      tqc_read_windows<D / 8 * BITS, D / 32 * BITS>(at, lane / 4, words + 1);
    } else if (BITS == 2) {
      words[1] = at[0];
    } else {
      tqc_value_codes<D, BITS>(at, lane / 4, words + 1);
    }
    // Of 2 bits and 64 dimensions two lanes share a word.
    words[0] = __shfl_sync(~0u, words[COUNT], lane + (BITS == 2 && D == 64 ? 24 : 28));  // modulo 32
  }

  TQC_FN void expand(int piece, int lane, const unsigned* table, unsigned (*bytes)[2]) const {
    const int k = BITS == 2 ? 0 : piece;
    const bool odd = D == 128 ? piece : lane / 4 % 2;
    tqc_expand_trellis<BITS, STATES>(words[k], words[k + 1], odd, table, bytes);
  }
};
