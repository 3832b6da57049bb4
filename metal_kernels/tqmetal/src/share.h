// A lane's share of a stored vector: N neighbouring values, held in registers.
//
// What is stored is a stream of codes (u32le.h) and its sides: GROUP = 0, one 16-bit scale a
// vector and a table; GROUP > 0, a scale and a bias for every GROUP codes. A code stands for SPAN
// values, a point of the table. STATES > 0: the number of a point is made of a code and of bits of the
// codes before it (trellis.h). A share starts at a multiple of N, and N divides the vector.

// 32-bit registers that hold n codes. Whole widths: the words they may touch, wherever they start
// (a start is `first` and a multiple of n * bits). Fractions: indices, two a register.
#define TQ_LOW_BIT(x) ((x) % 32 == 0 ? 32 : ((x) & -(x)))
#define TQ_REGISTERS(bits, wide, n, first) \
  ((wide) > 0 ? ((n) + 1) / 2              \
              : (63 - TQ_LOW_BIT((n) * (bits) | (first)) + (n) * (bits)) / 32)

// Words of n codes that start with a word.
#define TQ_WORDS(bits, n) (((n) * (bits) + 31) / 32)

// Registers of a share of n values; of a trellis, the bits before it, and its codes twice.
#define TQ_SHARE(bits, wide, span, states, n)              \
  ((states) > 0 ? 1 + 2 * TQ_WORDS(bits, (n) / (span)) \
                : TQ_REGISTERS(bits, wide, (n) / (span), 0))

// Levels that a codec's tables hold together; at least 1, since it is the size of an array.
#define TQ_LEVELS(bits, wide, group) \
  ((group) > 0 ? 1 : (1 << (bits)) + ((wide) > 0 ? (2 << (bits)) : 0))

// The same of points: a trellis has two for each code.
#define TQ_POINTS(bits, wide, group, states) \
  ((states) > 0 ? 2 << (bits) : TQ_LEVELS(bits, wide, group))

// N floats that are read at once.
template <int N>
struct alignas(4 * N) tq_chunk {
  float x[N];
};

// Elements before token t: strides of a token fit 32 bits, and such a product is one instruction.
TQ_FN int64_t tq_offset(int t, int64_t stride) {
  return int64_t(t) * int64_t(int(stride));
}

// N codes of a stream that starts at bit FIRST, from number `first` on.
template <int BITS, int WIDE, int FIRST, int N, typename Words, typename Share>
TQ_FN void tq_load(Words words, int64_t stride, uint first, Share share) {
  constexpr int size = TQ_REGISTERS(BITS, WIDE, N, FIRST);
  if (WIDE > 0) {
    TQ_UNROLL
    for (int k = 0; k < size; k++) {
      const uint low = tq_level<BITS, WIDE>(words, stride, first + 2 * k);
      const uint high = 2 * k + 1 < N ? tq_level<BITS, WIDE>(words, stride, first + 2 * k + 1) : 0u;
      share[k] = low | (high << 16);
    }
  } else {
    const uint word = (FIRST + first * BITS) / 32;
    const uint shift = (FIRST + first * BITS) % 32;
    TQ_UNROLL
    for (int k = 0; k < size; k++) {
      // The word after the share's last is not always the vector's.
      share[k] = shift + N * BITS > uint(32 * k) ? words[(word + k) * stride] : 0u;
    }
    if ((N * BITS | FIRST) % 32 != 0) {
      TQ_UNROLL
      for (int k = 0; k < size; k++) {
        share[k] = tq_funnel(share[k], k + 1 < size ? share[k + 1] : 0u, shift);
      }
    }
  }
}

// Index of the level of code i; of whole widths it is the code.
template <int BITS, int WIDE, typename Share>
TQ_FN uint tq_index(Share share, int i) {
  if (WIDE > 0) {
    return (share[i / 2] >> (16 * (i % 2))) & 0xffff;
  }
  const int word = i * BITS / 32;
  const int shift = i * BITS % 32;
  const uint bits =
      shift + BITS > 32 ? tq_funnel(share[word], share[word + 1], shift) : share[word] >> shift;
  return bits & ((1u << BITS) - 1);
}

// Number of the point of code i of a trellis, of N: its code and the bit before, in the copy for even
// codes, which begins with what comes before the share, or in that for odd ones.
template <int BITS, int N, typename Share>
TQ_FN uint tq_labelled(Share share, int i) {
  const int bit = 31 + i * BITS;
  const int word = bit / 32 + i % 2 * TQ_WORDS(BITS, N);
  const int shift = bit % 32;
  const uint bits =
      shift + BITS + 1 > 32 ? tq_funnel(share[word], share[word + 1], shift) : share[word] >> shift;
  return bits & ((2u << BITS) - 1);
}

// Sides as floats, whichever kind they are.
TQ_FN float tq_side(uint16_t code) {
  return tq_scale(code);
}
template <typename Half>
TQ_FN float tq_side(Half side) {
  return static_cast<float>(side);
}

// The share's scale and bias, and those of the next group, into which it may reach. SIGNS: the scale
// of the levels, and that of the signs, which is where biases are.
template <int GROUP, int SIGNS, int N, typename Scales, typename Biases, typename Sides>
TQ_FN void tq_load_sides(
    Scales scales, int64_t scale_stride, Biases biases, int64_t bias_stride, uint first, Sides sides) {
  if (GROUP == 0) {
    sides[0] = tq_side(scales[0]);
    if (SIGNS) {
      sides[1] = tq_side(biases[0]);
    }
    return;
  }
  constexpr uint size = GROUP > 0 ? GROUP : 1;
  const uint group = first / size;
  sides[0] = tq_side(scales[group * scale_stride]);
  sides[1] = tq_side(biases[group * bias_stride]);
  if (size % N != 0 && first % size + N > size) {
    sides[2] = tq_side(scales[(group + 1) * scale_stride]);
    sides[3] = tq_side(biases[(group + 1) * bias_stride]);
  }
}

// An integer below 2^23 as a float: its bits are the mantissa's last.
TQ_FN float tq_float(uint code) {
  return as_type<float>(code | 0x4b000000u) - 8388608.0f;
}

// Value i of the share: for GROUP = 0 of its point, not yet scaled.
template <
    int BITS, int WIDE, int GROUP, int SPAN, int STATES, int N, typename Share, typename Points,
    typename Sides>
TQ_FN float tq_value(Share share, Points points, Sides sides, uint first, int i) {
  const uint index = STATES > 0 ? tq_labelled<BITS, N / SPAN>(share, i / SPAN)
                                : tq_index<BITS, WIDE>(share, i / SPAN);
  if (GROUP == 0) {
    return points[index].x[i % SPAN];
  }
  constexpr uint size = GROUP > 0 ? GROUP : 1;
  if (size % N != 0 && first % size + i >= size) {
    return tq_float(index) * sides[2] + sides[3];
  }
  return tq_float(index) * sides[0] + sides[1];
}
