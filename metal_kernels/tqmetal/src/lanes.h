// What LANES neighbouring lanes of a simdgroup, a team, do together: by shuffles, without a barrier.

// Walsh-Hadamard transform of the team's vector, not normalized: steps within lanes, then across.
template <int N, int LANES, typename Values>
TQ_FN void tq_hadamard(Values x, uint lane) {
  TQ_UNROLL
  for (int h = 1; h < N; h *= 2) {
    TQ_UNROLL
    for (int i = 0; i < N; i++) {
      if ((i & h) == 0) {
        const float a = x[i];
        const float b = x[i + h];
        x[i] = a + b;
        x[i + h] = a - b;
      }
    }
  }
  TQ_UNROLL
  for (uint h = 1; h < uint(LANES); h *= 2) {
    TQ_UNROLL
    for (int i = 0; i < N; i++) {
      const float other = simd_shuffle_xor(x[i], h);
      x[i] = (lane & h) != 0 ? other - x[i] : x[i] + other;
    }
  }
}

// Largest of a value a lane, which all lanes of the team get.
template <int LANES>
TQ_FN float tq_team_max(float x) {
  TQ_UNROLL
  for (uint lanes = LANES / 2; lanes > 0; lanes /= 2) {
    const float other = simd_shuffle_xor(x, lanes);
    x = other > x ? other : x;
  }
  return x;
}

// Sum over the lanes of a team, which all of them get.
template <int LANES>
TQ_FN float tq_team_sum(float x) {
  TQ_UNROLL
  for (uint lanes = LANES / 2; lanes > 0; lanes /= 2) {
    x += simd_shuffle_xor(x, lanes);
  }
  return x;
}

// Sum over the teams of a simdgroup, lane by lane.
template <int LANES>
TQ_FN float tq_sum_of_teams(float x) {
  TQ_UNROLL
  for (uint lanes = LANES; lanes < 32; lanes *= 2) {
    x += simd_shuffle_xor(x, lanes);
  }
  return x;
}
