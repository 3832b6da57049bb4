// Encoding one vector by a team of LANES lanes, N neighbouring coordinates each.

template <int N, typename Values>
TQ_FN float tq_largest(Values x) {
  float top = 0.0f;
  TQ_UNROLL
  for (int i = 0; i < N; i++) {
    top = fmax(top, fabs(x[i]));
  }
  return top;
}

// The steps of tq_hadamard across lanes are additions of what has a lane's sign: no choice a value.
template <int N, int LANES, typename Values>
TQ_FN void tq_hadamard_of_team(Values x, uint lane) {
  tq_hadamard<N, 1>(x, 0u);
  TQ_UNROLL
  for (uint h = 1; h < uint(LANES); h *= 2) {
    const float sign = (lane & h) != 0 ? -1.0f : 1.0f;
    TQ_UNROLL
    for (int i = 0; i < N; i++) {
      x[i] = fma(x[i], sign, simd_shuffle_xor(x[i], h));
    }
  }
}

// N coordinates; what is not finite, which is rare, is looked for by the largest bits.
template <int N, typename Source, typename Values>
TQ_FN void tq_read(Source source, int64_t stride, uint first, float largest, Values x) {
  uint bits = 0;
  if (stride == 1) {  // no product a coordinate
    TQ_UNROLL
    for (int i = 0; i < N; i++) {
      x[i] = static_cast<float>(source[first + i]);
    }
  } else {
    TQ_UNROLL
    for (int i = 0; i < N; i++) {
      x[i] = static_cast<float>(source[(first + i) * stride]);
    }
  }
  TQ_UNROLL
  for (int i = 0; i < N; i++) {
    const uint size = as_type<uint>(x[i]) & 0x7fffffffu;
    bits = size > bits ? size : bits;
  }
  if (bits > as_type<uint>(largest)) {
    TQ_UNROLL
    for (int i = 0; i < N; i++) {
      x[i] = tq_finite(x[i], largest);
    }
  }
}

// x / d rounded correctly, as a division is, where `inverse` is 1 / d: its error is fed back.
TQ_FN float tq_divide(float x, float d, float inverse) {
  const float quotient = x * inverse;
  return fma(fma(-quotient, d, x), inverse, quotient);
}

// Whether a lane's codes fit 32 bits, and are staged as one number instead of one by one.
#define TQ_JOINED(bits, wide, n) ((wide) == 0 && (n) * (bits) <= 32)

// Word k of the stream of codes, from each lane's.
template <int D, int BITS, int LANES, typename Shares>
TQ_FN uint tq_joined_word(Shares shares, uint k) {
  constexpr uint size = D / LANES * BITS;
  const uint start = 32 * k;
  uint lane = start / size;
  uint word = shares[lane] >> (start - lane * size);
  for (uint bit = (lane + 1) * size; bit < start + 32 && lane + 1 < uint(LANES); bit += size) {
    lane++;
    word |= shares[lane] << (bit - start);
  }
  return word;
}

// The direction of a vector of D, rotated (ROTATED), in x, D / LANES coordinates a lane; returns its
// length.
//
//   source     coordinates, `stride` elements apart
//   signs      [D] signs over sqrt(D) (if ROTATED)
//   largest    the largest value of the source's type
template <int D, int ROTATED, int LANES, typename Source, typename Signs, typename Values>
TQ_FN float tq_direction(
    Source source, int64_t stride, Signs signs, float largest, uint lane, Values x) {
  constexpr int n = D / LANES;
  tq_read<n>(source, stride, lane * n, largest, x);
  if (ROTATED) {
    // Beyond 2^100, which is far above any scale that is stored, sums might overflow.
    const bool huge = tq_team_max<LANES>(tq_largest<n>(x)) > as_type<float>(227u << 23);
    const float unit = huge ? as_type<float>(87u << 23) : 1.0f;
    TQ_UNROLL
    for (int i = 0; i < n; i++) {
      x[i] = x[i] * unit * signs[lane * n + i];
    }
    tq_hadamard_of_team<n, LANES>(x, lane);
  }

  // Dividing by the largest magnitude first keeps the sum of squares inside float32.
  const float peak = tq_team_max<LANES>(tq_largest<n>(x));
  const bool kept = peak >= as_type<float>(27u << 23);
  const float peak_inverse = kept ? 1.0f / peak : 0.0f;
  float squares = 0.0f;
  TQ_UNROLL
  for (int i = 0; i < n; i++) {
    x[i] = tq_divide(x[i], peak, peak_inverse);
    squares += x[i] * x[i];
  }
  const float norm = sqrt(tq_team_sum<LANES>(squares));
  const float divisor = norm > 1.0f ? norm : 1.0f;
  const float divisor_inverse = 1.0f / divisor;
  TQ_UNROLL
  for (int i = 0; i < n; i++) {
    x[i] = tq_divide(x[i], divisor, divisor_inverse);
  }
  return kept ? norm * peak : 0.0f;
}

// The scale of a vector `length` u by the policy (0 norm, 1 mse, 2 unbiased), from the lanes' shares
// of <u, c> and <c, c>, where c are the levels.
template <int POLICY, int LANES>
TQ_FN float tq_scale_of_team(float length, float dot, float square) {
  if (POLICY == 0) {
    return length;
  }
  dot = tq_team_sum<LANES>(dot);
  square = tq_team_sum<LANES>(square);
  if (POLICY == 1) {
    return dot > 0.0f ? length * dot / square : 0.0f;
  }
  return length / (dot > 0.0f ? dot : 1.0f);
}

// Rotates (ROTATED), quantizes and stages the codes of one vector; returns its scale.
//
//   source     coordinates, `stride` elements apart
//   signs      [D] signs over sqrt(D) (if ROTATED)
//   levels, bounds     of the codebook; see codes.h
//   largest    the largest value of the source's type
//   POLICY     scale: 0 norm, 1 mse, 2 unbiased
//   codes      uint8 [D], written, or where they are joined:
//   shares     uint [LANES], written
template <
    int D, int BITS, int WIDE, int POLICY, int ROTATED, int LANES, typename Source, typename Signs,
    typename Levels, typename Bounds, typename Codes, typename Shares>
TQ_FN float tq_encode(
    Source source, int64_t stride, Signs signs, Levels levels, Bounds bounds, float largest,
    uint lane, Codes codes, Shares shares) {
  constexpr int n = D / LANES;
  float x[n];
  const float length =
      tq_direction<D, ROTATED, LANES>(source, stride, signs, largest, lane, x);
  uint share = 0;
  float dot = 0.0f;
  float square = 0.0f;
  TQ_UNROLL
  for (int i = 0; i < n; i++) {
    const uint at = lane * n + i;
    const bool narrow = at >= uint(WIDE);
    const float unit = x[i];
    const uint code = narrow ? tq_nearest(unit, bounds + (WIDE > 0 ? 1 << BITS : 0), BITS)
                             : tq_nearest(unit, bounds, BITS + 1);
    if (TQ_JOINED(BITS, WIDE, n)) {
      share |= code << (i * BITS);
    } else {
      codes[at] = static_cast<uint8_t>(code);
    }
    const float level = levels[narrow && WIDE > 0 ? code + (2u << BITS) : code];
    dot += unit * level;
    square += level * level;
  }
  if (TQ_JOINED(BITS, WIDE, n)) {
    shares[lane] = share;
  }
  return tq_scale_of_team<POLICY, LANES>(length, dot, square);
}
