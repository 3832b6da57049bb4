// Layout u32le/1 and the 16-bit scale, as kernels read them.
//
// A vector's codes are one bit stream, least significant bit first, in 32-bit words: the first
// WIDE codes have BITS + 1 bits, the others BITS. Codes cross words. Pointers are template
// parameters because Metal puts arrays of fewer than 8 elements in another address space.

// First bit of code i.
template <int BITS, int WIDE>
TQ_FN uint tq_first_bit(uint i) {
  return i * BITS + (i < uint(WIDE) ? i : uint(WIDE));
}

// The code of `width` bits (1 to 8) that starts at `bit`; words are `stride` elements apart.
template <typename Words>
TQ_FN uint tq_code(Words words, int64_t stride, uint bit, uint width) {
  const uint word = bit / 32;
  const uint shift = bit % 32;
  uint code = words[word * stride] >> shift;
  // Only a code that crosses reads on: the word after the last is not the vector's.
  if (shift + width > 32) {
    code |= words[(word + 1) * stride] << (32 - shift);
  }
  return code & ((1u << width) - 1);
}

// Index of code i's level in the tables of both widths, the wide one first, end to end.
template <int BITS, int WIDE, typename Words>
TQ_FN uint tq_level(Words words, int64_t stride, uint i) {
  const bool wide = i < uint(WIDE);
  const uint width = wide ? BITS + 1 : BITS;
  const uint code = tq_code(words, stride, tq_first_bit<BITS, WIDE>(i), width);
  return (WIDE > 0 && !wide) ? code + (2u << BITS) : code;
}

// The unsigned float of 6 exponent and 10 mantissa bits; code 0 is exactly zero. Its exponent 0
// is 2^-31, which float32 writes as 96.
TQ_FN float tq_scale(uint code) {
  return code == 0 ? 0.0f : as_type<float>((code << 13) + (96u << 23));
}
