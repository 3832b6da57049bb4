// Scores: logits of a few queries against packed keys.
//
//   q, key_*, factors                   as in decode.metal
//   logits  float32 [B, Hq, L, T]      times the scale; no soft-cap, no mask
//   KD, KBITS, KWIDE, KGROUP, KSPAN, KSTATES, KSIGNS, KROTATED, LANES, ROWS, TOKENS, SIMDGROUPS
//                                       as in decode.metal
//
// Grid of threadgroups (S * tiles of ROWS, H, B).

constexpr int KN = KD / LANES;
constexpr int TEAMS = 32 / LANES;
constexpr int THREADS = 32 * SIMDGROUPS;
constexpr int STEP = TEAMS * TOKENS;
constexpr int KPOINTS = TQ_POINTS(KBITS, KWIDE, KGROUP, KSTATES);
constexpr int KSIZE = TQ_SHARE(KBITS, KWIDE, KSPAN, KSTATES, KN);
constexpr int KSTREAM = KD * KBITS + KWIDE;

TQ_SHARED tq_chunk<TQ_CHUNK(KN)> queries[(1 + KSIGNS) * ROWS * KD / TQ_CHUNK(KN)];
TQ_SHARED tq_chunk<KSPAN> key_table[KPOINTS];

const uint thread_id = thread_index_in_threadgroup;
const uint team = thread_index_in_simdgroup / uint(LANES);
const uint lane = thread_index_in_simdgroup % uint(LANES);
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

tq_stage_queries<KD, LANES, ROWS, 0, KROTATED, THREADS>(
    q + batch * q_strides[0], q_strides, key_signs, 0, key_signs, int(head), gqa, q_len,
    tile * ROWS, factors[0], thread_id, queries);
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
TQ_BARRIER;

auto keys = key_words + (batch * key_words_strides[0] + head * key_words_strides[1]);
auto kscales = key_scales + (batch * key_scales_strides[0] + head * key_scales_strides[1]);
auto kbiases = key_biases + (batch * key_biases_strides[0] + head * key_biases_strides[1]);
const int simd = split * SIMDGROUPS + int(simdgroup_index_in_threadgroup);

for (int start = simd * STEP; start < tokens; start += splits * SIMDGROUPS * STEP) {
  uint key_share[TOKENS][KSIZE];
  uint key_bits[TOKENS][KSIGNS ? TQ_REGISTERS(1, 0, KN, KSTREAM) : 1];
  float key_sides[TOKENS][4];
  TQ_UNROLL
  for (int u = 0; u < TOKENS; u++) {
    const int at = start + u * TEAMS + int(team);
    const int t = at < tokens ? at : tokens - 1;
    tq_load_share<KD, KBITS, KWIDE, KSPAN, KSTATES, KN>(
        keys + tq_offset(t, key_words_strides[2]), key_words_strides[3], lane, key_share[u]);
    if (KSIGNS) {
      tq_load<1, 0, KSTREAM, KN>(
          keys + tq_offset(t, key_words_strides[2]), key_words_strides[3], lane * KN, key_bits[u]);
    }
    tq_load_sides<KGROUP, KSIGNS, KN>(
        kscales + tq_offset(t, key_scales_strides[2]), key_scales_strides[3],
        kbiases + tq_offset(t, key_biases_strides[2]), key_biases_strides[3], lane * KN,
        key_sides[u]);
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
      const float x = tq_team_sum<LANES>(s[u][r]);
      const int row = tile * ROWS + r;
      if (lane == 0 && at < tokens && row < rows) {
        logits[(int64_t(batch * key_words_shape[1] + head) * rows + row) * tokens + at] = x;
      }
    }
  }
}
