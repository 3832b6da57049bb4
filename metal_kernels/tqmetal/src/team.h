// A team: LANES neighbouring lanes of a simdgroup, each with a share of a token's vector. A row is
// a query of a KV head: row g * L + l is query head h * (Hq / H) + g at position l.

#define TQ_CHUNK(n) ((n) % 4 == 0 ? 4 : (n) % 2 == 0 ? 2 : 1)

// Query rows from `first` on, times the scale, in chunks that lie as the lanes of a team read them.
// GAIN: they are divided by it first. ROTATED: then they are rotated, H (signs * x). Every thread of
// the threadgroup takes part.
template <
    int DIM, int LANES, int ROWS, int GAIN, int ROTATED, int THREADS, typename Q, typename Strides,
    typename Gain, typename Signs, typename Queries>
TQ_FN void tq_stage_queries(
    Q q, Strides strides, Gain gain, int64_t gain_stride, Signs signs, int head, int gqa, int q_len,
    int first, float scale, uint thread_id, Queries queries) {
  constexpr int n = DIM / LANES;
  constexpr int chunk = TQ_CHUNK(n);
  const int lane = int(thread_id) % LANES;
  for (int start = 0; start < ROWS; start += THREADS / LANES) {
    const int r = start + int(thread_id) / LANES;
    const int row = first + r;
    const bool used = r < ROWS && row < gqa * q_len;
    float x[n];
    TQ_UNROLL
    for (int i = 0; i < n; i++) {
      x[i] = 0.0f;
      if (used) {
        x[i] = scale * static_cast<float>(q[
            (head * gqa + row / q_len) * strides[1] + (row % q_len) * strides[2] +
            (lane * n + i) * strides[3]]);
      }
      if (GAIN) {
        x[i] /= static_cast<float>(gain[(lane * n + i) * gain_stride]);
      }
      if (ROTATED) {
        x[i] *= signs[lane * n + i];
      }
    }
    if (ROTATED) {
      tq_hadamard<n, LANES>(x, uint(lane));
    }
    if (r < ROWS) {
      TQ_UNROLL
      for (int i = 0; i < n; i++) {
        queries[(r * (n / chunk) + i / chunk) * LANES + lane].x[i % chunk] = x[i];
      }
    }
  }
}

// The lane's part of the logits of TOKENS tokens and ROWS queries; tq_team_sum adds up the parts.
template <
    int BITS, int WIDE, int GROUP, int SPAN, int STATES, int N, int LANES, int ROWS, int TOKENS,
    typename Shares, typename Table, typename Sides, typename Queries, typename Logits>
TQ_FN void tq_dot(
    Shares shares, Table table, Sides sides, Queries queries, uint lane, Logits logits) {
  constexpr int chunk = TQ_CHUNK(N);
  TQ_UNROLL
  for (int u = 0; u < TOKENS; u++) {
    TQ_UNROLL
    for (int r = 0; r < ROWS; r++) {
      logits[u][r] = 0.0f;
    }
  }
  TQ_UNROLL
  for (int part = 0; part < N / chunk; part++) {
    tq_chunk<chunk> q[ROWS];
    TQ_UNROLL
    for (int r = 0; r < ROWS; r++) {
      TQ_UNROLL
      for (int j = 0; j < chunk; j++) {
        q[r].x[j] = queries[(r * (N / chunk) + part) * LANES + lane].x[j];
      }
    }
    TQ_UNROLL
    for (int u = 0; u < TOKENS; u++) {
      TQ_UNROLL
      for (int j = 0; j < chunk; j++) {
        const float x = tq_value<BITS, WIDE, GROUP, SPAN, STATES, N>(
            shares[u], table, sides[u], lane * N, part * chunk + j);
        TQ_UNROLL
        for (int r = 0; r < ROWS; r++) {
          logits[u][r] += x * q[r].x[j];
        }
      }
    }
  }
  if (GROUP == 0) {
    TQ_UNROLL
    for (int u = 0; u < TOKENS; u++) {
      TQ_UNROLL
      for (int r = 0; r < ROWS; r++) {
        logits[u][r] *= sides[u][0];
      }
    }
  }
}

// Adds the lane's part of the sum of signed queries, times the scale of the signs: they are N bits.
template <
    int N, int LANES, int ROWS, int TOKENS, typename Shares, typename Sides, typename Queries,
    typename Logits>
TQ_FN void tq_add_signs(Shares signs, Sides sides, Queries queries, uint lane, Logits logits) {
  constexpr int chunk = TQ_CHUNK(N);
  float sums[TOKENS][ROWS];
  TQ_UNROLL
  for (int u = 0; u < TOKENS; u++) {
    TQ_UNROLL
    for (int r = 0; r < ROWS; r++) {
      sums[u][r] = 0.0f;
    }
  }
  TQ_UNROLL
  for (int part = 0; part < N / chunk; part++) {
    tq_chunk<chunk> q[ROWS];
    TQ_UNROLL
    for (int r = 0; r < ROWS; r++) {
      TQ_UNROLL
      for (int j = 0; j < chunk; j++) {
        q[r].x[j] = queries[(r * (N / chunk) + part) * LANES + lane].x[j];
      }
    }
    TQ_UNROLL
    for (int u = 0; u < TOKENS; u++) {
      TQ_UNROLL
      for (int j = 0; j < chunk; j++) {
        // A set bit is 1, a clear one -1.
        const uint sign = (signs[u][0] << (31 - part * chunk - j)) & 0x80000000u;
        const float x = as_type<float>(sign ^ 0xbf800000u);
        TQ_UNROLL
        for (int r = 0; r < ROWS; r++) {
          sums[u][r] += x * q[r].x[j];
        }
      }
    }
  }
  TQ_UNROLL
  for (int u = 0; u < TOKENS; u++) {
    TQ_UNROLL
    for (int r = 0; r < ROWS; r++) {
      logits[u][r] += sums[u][r] * sides[u][1];
    }
  }
}

// Adds a token's value, times each row's weight, to the lane's share of the outputs.
template <
    int BITS, int WIDE, int GROUP, int SPAN, int STATES, int N, int ROWS, typename Share,
    typename Table, typename Sides, typename Weights, typename Outs>
TQ_FN void tq_mix(
    Share share, Table table, Sides sides, uint lane, Weights weights, Outs outs) {
  if (GROUP == 0) {
    TQ_UNROLL
    for (int r = 0; r < ROWS; r++) {
      weights[r] *= sides[0];
    }
  }
  TQ_UNROLL
  for (int i = 0; i < N; i++) {
    const float x = tq_value<BITS, WIDE, GROUP, SPAN, STATES, N>(share, table, sides, lane * N, i);
    TQ_UNROLL
    for (int r = 0; r < ROWS; r++) {
      outs[r][i] += weights[r] * x;
    }
  }
}
