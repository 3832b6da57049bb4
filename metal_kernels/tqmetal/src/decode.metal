// Fused decode: attention of a few queries over packed keys and values (online softmax, Milakov
// and Gimelshein 2018), split over tokens. Nothing is expanded outside registers.
//
//   q             [B, Hq, L, KD]            floats of any type and strides (KSIGNS: [..., 2 KD],
//                                           rotated, then projected as the signs are)
//   key_gain      [B, H, 1, KD]             floats of any type and strides that q is divided by, before
//                                           it is rotated (KGAIN); so are keys stored times it
//   key_signs     float32 [KD]              signs over sqrt(KD), to rotate q as keys are (KROTATED)
//   key_words     uint32  [B, H, T, W]      u32le/1, any strides; so are value_words
//   key_scales    uint16  [B, H, T, 1]      or float16 [B, H, T, groups] (KGROUP > 0)
//   key_biases                              float16 [B, H, T, groups]; the signs' uint16 scale
//                                           [B, H, T, 1] if KSIGNS; else unused
//   key_levels    float32 [tables]          levels, or points of KSPAN values; unused if KGROUP > 0
//   mask          [B, Hq, L, T]             bool or floats to add, any strides; unused if MASK < 2
//   padding       int32   [B]               keys at the start of a row that are hidden (if PADDED)
//   place         int32   [1]               keys before the first query's own (MASK = 1, causal)
//   factors       float32 [2]               scale of the logits, soft-cap (if CAPPED)
//   parts         float32 [B, Hq, L, S, VD] o of every split, tops m, sums l: [B, Hq, L, S]
//
//   KD, KBITS, KWIDE, KGROUP, KSPAN, KSTATES; VD, ...    the sides (share.h)
//   KSIGNS                                  1: a sign of one bit a value follows the codes
//   KGAIN                                   1: q is divided by key_gain
//   KROTATED                                0: q is rotated as keys are, or they are not
//   LANES                                   lanes that share a token's vector
//   ROWS                                    queries of a KV head that share one unpacking
//   TOKENS                                  tokens that a lane has in flight
//   SIMDGROUPS                              simdgroups a threadgroup
//   MASK, PADDED, CAPPED                    0 none, 1 causal, 2 bool, 3 added; 0 or 1; 0 or 1
//
// Grid of threadgroups (S * tiles of ROWS, H, B). A row is a query: row g * L + l of KV head h is
// query head h * (Hq / H) + g at position l. A simdgroup is 32 / LANES teams; a team takes a token,
// its lanes a share of the vector each, and keeps its own m, l and o until the end: no barrier in
// the loop, and the only exchange is the sum of a logit over the team.

constexpr int KN = KD / LANES;
constexpr int VN = VD / LANES;
constexpr int TEAMS = 32 / LANES;
constexpr int THREADS = 32 * SIMDGROUPS;
constexpr int STEP = TEAMS * TOKENS;
constexpr int KPOINTS = TQ_POINTS(KBITS, KWIDE, KGROUP, KSTATES);
constexpr int VPOINTS = TQ_POINTS(VBITS, VWIDE, VGROUP, VSTATES);
constexpr int KSIZE = TQ_SHARE(KBITS, KWIDE, KSPAN, KSTATES, KN);
constexpr int VSIZE = TQ_SHARE(VBITS, VWIDE, VSPAN, VSTATES, VN);
constexpr int KSTREAM = KD * KBITS + KWIDE;

TQ_SHARED tq_chunk<TQ_CHUNK(KN)> queries[(1 + KSIGNS) * ROWS * KD / TQ_CHUNK(KN)];
TQ_SHARED tq_chunk<KSPAN> key_table[KPOINTS];
TQ_SHARED tq_chunk<VSPAN> value_table[VPOINTS];
TQ_SHARED float outs[SIMDGROUPS * ROWS * VD];
TQ_SHARED float maxima[SIMDGROUPS * ROWS];
TQ_SHARED float totals[SIMDGROUPS * ROWS];

const uint thread_id = thread_index_in_threadgroup;
const uint team = thread_index_in_simdgroup / uint(LANES);
const uint lane = thread_index_in_simdgroup % uint(LANES);
const uint simd = simdgroup_index_in_threadgroup;
const uint head = threadgroup_position_in_grid.y;
const uint batch = threadgroup_position_in_grid.z;

const int tokens = key_words_shape[2];
const int q_len = q_shape[2];
const int gqa = q_shape[1] / key_words_shape[1];
const int rows = gqa * q_len;
const int tiles = (rows + ROWS - 1) / ROWS;
const int splits = int(threadgroups_per_grid.x) / tiles;
const int tile = int(threadgroup_position_in_grid.x) % tiles;
const int split = int(threadgroup_position_in_grid.x) / tiles;
const int span = (tokens + splits - 1) / splits;
const int begin = split * span;
const int end = begin + span < tokens ? begin + span : tokens;

tq_stage_queries<KD, LANES, ROWS, KGAIN, KROTATED, THREADS>(
    q + batch * q_strides[0], q_strides,
    key_gain + (batch * key_gain_strides[0] + head * key_gain_strides[1]), key_gain_strides[3],
    key_signs, int(head), gqa, q_len, tile * ROWS, factors[0], thread_id, queries);
if (KSIGNS) {
  tq_stage_queries<KD, LANES, ROWS, 0, 0, THREADS>(
      q + batch * q_strides[0] + KD * q_strides[3], q_strides, key_signs, 0, key_signs, int(head),
      gqa, q_len, tile * ROWS, factors[0], thread_id, queries + ROWS * KD / TQ_CHUNK(KN));
}
if (KGROUP == 0) {
  for (int i = int(thread_id); i < KSPAN * KPOINTS; i += THREADS) {
    key_table[i / KSPAN].x[i % KSPAN] = key_levels[i];
  }
}
if (VGROUP == 0) {
  for (int i = int(thread_id); i < VSPAN * VPOINTS; i += THREADS) {
    value_table[i / VSPAN].x[i % VSPAN] = value_levels[i];
  }
}
TQ_BARRIER;

auto keys = key_words + (batch * key_words_strides[0] + head * key_words_strides[1]);
auto values = value_words + (batch * value_words_strides[0] + head * value_words_strides[1]);
auto kscales = key_scales + (batch * key_scales_strides[0] + head * key_scales_strides[1]);
auto kbiases = key_biases + (batch * key_biases_strides[0] + head * key_biases_strides[1]);
auto vscales = value_scales + (batch * value_scales_strides[0] + head * value_scales_strides[1]);
auto vbiases = value_biases + (batch * value_biases_strides[0] + head * value_biases_strides[1]);

float m[ROWS];
float l[ROWS];
float o[ROWS][VN];
TQ_UNROLL
for (int r = 0; r < ROWS; r++) {
  m[r] = -INFINITY;
  l[r] = 0.0f;
  TQ_UNROLL
  for (int i = 0; i < VN; i++) {
    o[r][i] = 0.0f;
  }
}

for (int start = begin + int(simd) * STEP; start < end; start += SIMDGROUPS * STEP) {
  uint key_share[TOKENS][KSIZE];
  uint key_bits[TOKENS][KSIGNS ? TQ_REGISTERS(1, 0, KN, KSTREAM) : 1];
  uint value_share[TOKENS][VSIZE];
  float key_sides[TOKENS][4];
  float value_sides[TOKENS][4];
  // All loads first: their waits overlap.
  TQ_UNROLL
  for (int u = 0; u < TOKENS; u++) {
    const int at = start + u * TEAMS + int(team);
    const int t = at < end ? at : end - 1;
    tq_load_share<KD, KBITS, KWIDE, KSPAN, KSTATES, KN>(
        keys + tq_offset(t, key_words_strides[2]), key_words_strides[3], lane, key_share[u]);
    if (KSIGNS) {
      tq_load<1, 0, KSTREAM, KN>(
          keys + tq_offset(t, key_words_strides[2]), key_words_strides[3], lane * KN, key_bits[u]);
    }
    tq_load_sides<KGROUP, KSIGNS, KN>(
        kscales + tq_offset(t, key_scales_strides[2]), key_scales_strides[3],
        kbiases + tq_offset(t, key_biases_strides[2]), key_biases_strides[3], lane * KN, key_sides[u]);
  }
  TQ_UNROLL
  for (int u = 0; u < TOKENS; u++) {
    const int at = start + u * TEAMS + int(team);
    const int t = at < end ? at : end - 1;
    tq_load_share<VD, VBITS, VWIDE, VSPAN, VSTATES, VN>(
        values + tq_offset(t, value_words_strides[2]), value_words_strides[3], lane, value_share[u]);
    tq_load_sides<VGROUP, 0, VN>(
        vscales + tq_offset(t, value_scales_strides[2]), value_scales_strides[3],
        vbiases + tq_offset(t, value_biases_strides[2]), value_biases_strides[3], lane * VN, value_sides[u]);
  }

  TQ_UNROLL
  for (int u = 0; u < TOKENS; u++) {
    tq_label<KSTATES, KBITS, KN / KSPAN>(key_share[u]);
  }
  float s[TOKENS][ROWS];
  tq_dot<KBITS, KWIDE, KGROUP, KSPAN, KSTATES, KN, LANES, ROWS, TOKENS>(
      key_share, key_table, key_sides, queries, lane, s);
  if (KSIGNS) {
    tq_add_signs<KN, LANES, ROWS, TOKENS>(
        key_bits, key_sides, queries + ROWS * KD / TQ_CHUNK(KN), lane, s);
  }
  TQ_UNROLL
  for (int u = 0; u < TOKENS; u++) {
    const int at = start + u * TEAMS + int(team);
    TQ_UNROLL
    for (int r = 0; r < ROWS; r++) {
      float x = tq_team_sum<LANES>(s[u][r]);
      if (CAPPED) {
        x = factors[1] * tanh(x / factors[1]);
      }
      bool seen = at < end;
      const int row = tile * ROWS + r;
      if (PADDED) {
        seen = seen && at >= padding[batch];
      }
      if (MASK == 1) {
        seen = seen && at <= place[0] + row % q_len;
      }
      if (MASK >= 2 && seen && row < rows) {
        const auto entry = mask[
            batch * mask_strides[0] + (head * gqa + row / q_len) * mask_strides[1] +
            (row % q_len) * mask_strides[2] + at * mask_strides[3]];
        if (MASK == 2) {
          seen = static_cast<float>(entry) != 0.0f;
        } else {
          x += static_cast<float>(entry);
        }
      }
      s[u][r] = seen ? x : -INFINITY;
    }
  }

  bool rose = false;
  float kept[ROWS];
  TQ_UNROLL
  for (int r = 0; r < ROWS; r++) {
    float top = m[r];
    TQ_UNROLL
    for (int u = 0; u < TOKENS; u++) {
      top = s[u][r] > top ? s[u][r] : top;
    }
    rose = rose || top > m[r];
    // A row that has seen no key yet has m = -inf, and -inf - -inf is not a number.
    const float finite = top == -INFINITY ? 0.0f : top;
    kept[r] = tq_exp(m[r] - finite);
    m[r] = top;
    l[r] *= kept[r];
    TQ_UNROLL
    for (int u = 0; u < TOKENS; u++) {
      s[u][r] = tq_exp(s[u][r] - finite);
      l[r] += s[u][r];
    }
  }
  if (rose) {
    TQ_UNROLL
    for (int r = 0; r < ROWS; r++) {
      TQ_UNROLL
      for (int i = 0; i < VN; i++) {
        o[r][i] *= kept[r];
      }
    }
  }
  TQ_UNROLL
  for (int u = 0; u < TOKENS; u++) {
    tq_label<VSTATES, VBITS, VN / VSPAN>(value_share[u]);
    tq_mix<VBITS, VWIDE, VGROUP, VSPAN, VSTATES, VN, ROWS>(
        value_share[u], value_table, value_sides[u], lane, s[u], o);
  }
}

// Teams of a simdgroup, then simdgroups.
TQ_UNROLL
for (int r = 0; r < ROWS; r++) {
  float top = m[r];
  TQ_UNROLL
  for (uint lanes = LANES; lanes < 32; lanes *= 2) {
    const float other = simd_shuffle_xor(top, lanes);
    top = other > top ? other : top;
  }
  const float factor = top == -INFINITY ? 0.0f : tq_exp(m[r] - top);
  const float sum = tq_sum_of_teams<LANES>(l[r] * factor);
  if (thread_index_in_simdgroup == 0) {
    maxima[simd * ROWS + r] = top;
    totals[simd * ROWS + r] = sum;
  }
  TQ_UNROLL
  for (int i = 0; i < VN; i++) {
    const float x = tq_sum_of_teams<LANES>(o[r][i] * factor);
    if (team == 0) {
      outs[(simd * ROWS + r) * VD + lane * VN + i] = x;
    }
  }
}
TQ_BARRIER;

for (int i = int(thread_id); i < ROWS * VD; i += THREADS) {
  const int r = i / VD;
  const int d = i % VD;
  const int row = tile * ROWS + r;
  float top = -INFINITY;
  for (int k = 0; k < SIMDGROUPS; k++) {
    top = maxima[k * ROWS + r] > top ? maxima[k * ROWS + r] : top;
  }
  float sum = 0.0f;
  float x = 0.0f;
  for (int k = 0; k < SIMDGROUPS && top > -INFINITY; k++) {
    const float factor = tq_exp(maxima[k * ROWS + r] - top);
    sum += totals[k * ROWS + r] * factor;
    x += outs[(k * ROWS + r) * VD + d] * factor;
  }
  if (row < rows) {
    const int64_t slot = (int64_t(batch * threadgroups_per_grid.y + head) * rows + row) * splits + split;
    parts[slot * VD + d] = x;
    if (d == 0) {
      tops[slot] = top;
      sums[slot] = sum;
    }
  }
}
