// Writing what u32le.h reads: nearest levels, the stream of codes, the 16-bit scale.

// Levels of tables and boundaries of the same: those of the wide codes first.
#define TQ_BOUNDS(bits, wide) (TQ_LEVELS(bits, wide, 0) / 2)

// Code of the level nearest to x in a table that is symmetric about zero: sizes are searched in
// half of it, and the sign flips the bits. Ties go outward, zero counts as positive.
template <typename Bounds>
TQ_FN uint tq_nearest(float x, Bounds bounds, int bits) {
  const float size = x < 0.0f ? -x : x;
  uint index = 0;
  for (uint step = (1u << (bits - 1)) / 2; step > 0; step /= 2) {
    index += size >= bounds[index + step - 1] ? step : 0u;
  }
  const uint half_of = 1u << (bits - 1);
  return (index + half_of) ^ (x < 0.0f ? 2 * half_of - 1 : 0u);
}

// Word k of the stream of D codes.
template <int D, int BITS, int WIDE, typename Codes>
TQ_FN uint tq_word(Codes codes, uint k) {
  const uint start = 32 * k;
  const uint narrow = uint(WIDE) * (BITS + 1);
  uint i = start < narrow ? start / (BITS + 1) : uint(WIDE) + (start - narrow) / BITS;
  uint word = 0;
  for (uint bit = tq_first_bit<BITS, WIDE>(i); i < uint(D) && bit < start + 32; i++) {
    const uint code = codes[i];
    word |= bit >= start ? code << (bit - start) : code >> (start - bit);
    bit += i < uint(WIDE) ? BITS + 1 : BITS;
  }
  return word;
}

// Nearest code of the scale, ties to even mantissa; tq_scale reads it.
TQ_FN uint tq_scale_code(float scale) {
  const float smallest = as_type<float>((1u << 13) + (96u << 23));
  const float largest = as_type<float>((0xffffu << 13) + (96u << 23));
  if (!(scale > 0.5f * smallest)) {
    return 0;
  }
  const float inside = scale < smallest ? smallest : scale > largest ? largest : scale;
  const uint bits = as_type<uint>(inside) - (96u << 23);
  return (bits + 0xfff + ((bits >> 13) & 1)) >> 13;
}

// A finite number: NaN is 0, infinity the largest value. By bits: compilers may assume neither.
TQ_FN float tq_finite(float x, float largest) {
  const uint size = as_type<uint>(x) & 0x7fffffffu;
  if (size > 0x7f800000u) {
    return 0.0f;
  }
  return size > as_type<uint>(largest) ? (x < 0.0f ? -largest : largest) : x;
}
