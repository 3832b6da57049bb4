// Codes that stand for two values each, as bytes: `pair`, and a trellis at half widths. A point is two bytes of
// a table in shared memory (tensor_tables.py), whose entry is numbered by
//
//   STATES = 0:       the code
//   STATES = 4 or 8:  b, the code's upper bits, a: BITS + 1 bits, with the label 2 a + b of tensor_trellis.h
//
// With 4 states that number stands in the stream of codes from u_(t-1) on, but for a in the place of u_t, which
// is u_(t-1) of the next code. So a lane makes two streams, of whole words: one for its even codes, and one
// for its odd ones. Each number is then one shift and one mask away, and is read as an offset of two bytes.
// 64 entries, those of 2.5 bits, are 128 bytes: a word in each bank, where lanes never wait for each other.

// Where a word of a stream has the uppermost bits of codes `first`, `first` + 2, ..
template <int BITS>
TQC_FN constexpr unsigned tqc_tops(int word, int first) {
  unsigned found = 0;
  for (int t = first; t < 32; t += 2) {
    const int at = t * BITS + BITS - 1 - 32 * word;
    found |= at >= 0 && at < 32 ? 1u << (at & 31) : 0u;
  }
  return found;
}

// A row of WORDS words in shares of SHARE bits.
template <int SHARE, int WORDS>
struct tqc_shares {
  static constexpr int COUNT = (SHARE + 31) / 32;  // words
  static constexpr int ALIGN = SHARE % 32 == 0 ? 32 : SHARE % 16 == 0 ? 16 : SHARE % 8 == 0 ? 8 : 4;
  static constexpr int TOUCHED = (32 - ALIGN + SHARE + 31) / 32;
  static constexpr int LAST = SHARE * (32 * WORDS / SHARE - 1) / 32;

  // The first word of share i.
  TQC_FN static int first(int i) {
    return SHARE * i / 32;
  }

  // Share i, of which that is at `at`.
  TQC_FN static void read(const unsigned* at, int i, unsigned* share) {
    if (SHARE == 128) {
      const uint4 x = *reinterpret_cast<const uint4*>(at);
      share[0] = x.x;
      share[1] = x.y;
      share[COUNT - 2] = x.z;
      share[COUNT - 1] = x.w;
    } else if (SHARE == 64) {
      const uint2 x = *reinterpret_cast<const uint2*>(at);
      share[0] = x.x;
      share[COUNT - 1] = x.y;
    } else {
      unsigned words[TOUCHED + 1] = {};
      #pragma unroll
      for (int k = 0; k < TOUCHED; k++) {
        // The last share may end a word earlier, and with it the row.
        words[k] = at[LAST + k < WORDS ? k : min(k, WORDS - 1 - first(i))];
      }
      #pragma unroll
      for (int k = 0; k < COUNT; k++) {
        share[k] = ALIGN == 32 ? words[k] : __funnelshift_r(words[k], words[k + 1], SHARE * i % 32);
      }
    }
  }
};

constexpr int TQC_POINTS = 512;  // bytes of a side's table; one address is that of both tables

// A lane's share as streams of numbers of entries, of table 0 or 1.
template <int SHARE, int WORDS, int BITS, int STATES, int TABLE>
struct tqc_pairs {
  using Shares = tqc_shares<SHARE, WORDS>;
  static constexpr int COUNT = Shares::COUNT;
  static constexpr int OF_ODD = STATES ? 1 : 0;  // stream of odd codes
  static constexpr int INDEX = STATES ? BITS + 1 : BITS;
  unsigned streams[OF_ODD + 1][COUNT + 1];  // each from the word before the lane's own on

  // `before` is the lane with the share before, of WIDTH lanes and modulo WIDTH.
  template <int WIDTH>
  TQC_FN void read(const unsigned* at, int i, int before) {
    unsigned own[COUNT];
    Shares::read(at, i, own);
    if (STATES == 0) {
      streams[0][0] = 0u;
      #pragma unroll
      for (int k = 0; k < COUNT; k++) {
        streams[0][k + 1] = own[k];
      }
      return;
    }
    const unsigned end = SHARE % 32 == 0 ? own[COUNT - 1]  // the last 32 bits
                                         : __funnelshift_r(SHARE < 32 ? 0u : own[SHARE / 32 - 1], own[COUNT - 1], SHARE % 32);
    unsigned earlier = __shfl_sync(~0u, end, before, WIDTH);
    // Of this word the first code of the lane takes one bit, the uppermost: b.
    streams[0][0] = STATES == 4 ? earlier : earlier << BITS;
    streams[OF_ODD][0] = 0u;
    #pragma unroll
    for (int k = 0; k < COUNT; k++) {
      const unsigned even = tqc_tops<BITS>(k, 0);
      const unsigned odd = tqc_tops<BITS>(k, 1);
      if (STATES == 4) {
        const unsigned far = tqc_earlier(earlier, own[k], 2 * BITS);
        streams[0][k + 1] = tqc_flip(own[k], far, even);
        streams[OF_ODD][k + 1] = tqc_flip(own[k], far, odd);
      } else {
        const unsigned near = tqc_earlier(earlier, own[k], BITS);
        const unsigned a = tqc_logic<0x96>(own[k], near, tqc_earlier(earlier, own[k], 3 * BITS));
        const unsigned b = tqc_merge(near, own[k], even | odd);  // where u_(t-1) was, u_(t-2)
        streams[0][k + 1] = tqc_merge(a, b, even);
        streams[OF_ODD][k + 1] = tqc_merge(a, b, odd);
      }
      earlier = own[k];
    }
  }

  // The point of code t, in the lower half of a word.
  TQC_FN unsigned point(int t, unsigned points) const {
    const unsigned* stream = streams[t % 2 * OF_ODD];
    const int at = 32 + t * BITS - OF_ODD - 1;  // a bit before the number
    const int word = at / 32;
    const int shift = at % 32;
    const unsigned x = shift + 1 + INDEX > 32 ? __funnelshift_r(stream[word], stream[min(word + 1, COUNT)], shift)
                                              : stream[word] >> shift;
    constexpr unsigned mask = ((1u << INDEX) - 1) << 1;
    const unsigned address = tqc_logic<0xea>(x, mask, points);  // x & mask | points
    const char* at_entry = static_cast<const char*>(__cvta_shared_to_generic(address));
    return *reinterpret_cast<const unsigned short*>(at_entry + TABLE * TQC_POINTS);
  }

  // Four codes, from number 4 `step` on, as eight bytes.
  TQC_FN void expand(int step, const unsigned* points, unsigned* bytes) const {
    bytes[0] = tqc_multiply(point(4 * step + 1, *points), 65536u, point(4 * step, *points));
    bytes[1] = tqc_multiply(point(4 * step + 3, *points), 65536u, point(4 * step + 2, *points));
  }
};

// What a lane holds of a token's key, as tqc_keys of tensor_rows.h: a quarter.
template <int D, int BITS, int STATES>
struct tqc_pair_keys {
  using Pairs = tqc_pairs<D / 8 * BITS, D / 64 * BITS, BITS, STATES, 0>;
  Pairs pairs;

  TQC_FN void read(const unsigned* row, int lane) {
    pairs.template read<4>(row + Pairs::Shares::first(lane % 4), lane % 4, lane + 3);
  }

  TQC_FN void expand(int step, const unsigned* points, unsigned (*bytes)[2]) const {
    pairs.expand(step, points, bytes[0]);
  }
};

// What a lane holds of a token's value, as tqc_values of tensor_rows.h: an eighth.
template <int D, int BITS, int STATES>
struct tqc_pair_values {
  using Pairs = tqc_pairs<D / 16 * BITS, D / 64 * BITS, BITS, STATES, 1>;
  Pairs pairs;

  TQC_FN static int first(int g, int j) {
    // Rows of 16 words are those of 4 bits.
    return D / 64 * BITS == 16 ? tqc_value_word<128, 4>(g, j) : j * (D / 64 * BITS) + Pairs::Shares::first(g);
  }

  TQC_FN void read(const unsigned* at, int lane) {
    pairs.template read<32>(at, lane / 4, lane + 28);
  }

  TQC_FN void expand(int piece, int lane, const unsigned* points, unsigned (*bytes)[2]) const {
    pairs.expand(piece, points, bytes[0]);
  }
};

// How a side of SPAN values a code is read.
template <int SPAN>
struct tqc_reading {
  template <int D, int BITS, int STATES>
  using keys = tqc_keys<D, BITS, STATES>;
  template <int D, int BITS, int STATES>
  using values = tqc_values<D, BITS, STATES>;
};
template <>
struct tqc_reading<2> {
  template <int D, int BITS, int STATES>
  using keys = tqc_pair_keys<D, BITS, STATES>;
  template <int D, int BITS, int STATES>
  using values = tqc_pair_values<D, BITS, STATES>;
};

// Words of a side's points.
TQC_FN constexpr int tqc_point_words(int span, int bits, int states) {
  return span == 2 ? 1 << (states ? bits : bits - 1) : 0;
}
