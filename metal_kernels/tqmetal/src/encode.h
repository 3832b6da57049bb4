// Encoding one vector by a team of LANES lanes, N neighbouring coordinates each.

template <int LANES>
TQ_FN float tq_team_max(float x) {
  TQ_UNROLL
  for (uint lanes = LANES / 2; lanes > 0; lanes /= 2) {
    const float other = simd_shuffle_xor(x, lanes);
    x = other > x ? other : x;
  }
  return x;
}

template <int N, typename Values>
TQ_FN float tq_largest(Values x) {
  float top = 0.0f;
  TQ_UNROLL
  for (int i = 0; i < N; i++) {
    const float size = x[i] < 0.0f ? -x[i] : x[i];
    top = size > top ? size : top;
  }
  return top;
}

// Rotates (ROTATED), quantizes and stages the codes of one vector; returns its scale.
//
//   source     coordinates, `stride` elements apart
//   signs      [D] signs over sqrt(D) (if ROTATED)
//   levels, bounds     of the codebook; see codes.h
//   largest    the largest value of the source's type
//   POLICY     scale: 0 norm, 1 mse, 2 unbiased
//   codes      uint8 [D], written
template <
    int D, int BITS, int WIDE, int POLICY, int ROTATED, int LANES, typename Source, typename Signs,
    typename Levels, typename Bounds, typename Codes>
TQ_FN float tq_encode(
    Source source, int64_t stride, Signs signs, Levels levels, Bounds bounds, float largest,
    uint lane, Codes codes) {
  constexpr int n = D / LANES;
  float x[n];
  TQ_UNROLL
  for (int i = 0; i < n; i++) {
    x[i] = tq_finite(static_cast<float>(source[(lane * n + i) * stride]), largest);
  }
  if (ROTATED) {
    // Beyond 2^100, which is far above any scale that is stored, sums might overflow.
    const bool huge = tq_team_max<LANES>(tq_largest<n>(x)) > as_type<float>(227u << 23);
    TQ_UNROLL
    for (int i = 0; i < n; i++) {
      x[i] = (huge ? x[i] * as_type<float>(87u << 23) : x[i]) * signs[lane * n + i];
    }
    tq_hadamard<n, LANES>(x, lane);
  }

  // Dividing by the largest magnitude first keeps the sum of squares inside float32.
  const float peak = tq_team_max<LANES>(tq_largest<n>(x));
  const bool kept = peak >= as_type<float>(27u << 23);
  float squares = 0.0f;
  TQ_UNROLL
  for (int i = 0; i < n; i++) {
    x[i] = kept ? x[i] / peak : 0.0f;
    squares += x[i] * x[i];
  }
  const float norm = sqrt(tq_team_sum<LANES>(squares));
  const float length = kept ? norm * peak : 0.0f;

  float dot = 0.0f;
  float square = 0.0f;
  TQ_UNROLL
  for (int i = 0; i < n; i++) {
    const uint at = lane * n + i;
    const bool narrow = at >= uint(WIDE);
    const float unit = x[i] / (norm > 1.0f ? norm : 1.0f);
    const uint code = narrow ? tq_nearest(unit, bounds + (WIDE > 0 ? 1 << BITS : 0), BITS)
                             : tq_nearest(unit, bounds, BITS + 1);
    codes[at] = static_cast<uint8_t>(code);
    const float level = levels[narrow && WIDE > 0 ? code + (2u << BITS) : code];
    dot += unit * level;
    square += level * level;
  }
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
