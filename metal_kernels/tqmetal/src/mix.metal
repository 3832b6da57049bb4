// Mixing: packed values, each times the weight that a query gives it.
//
//   weights  float32 [B, Hq, L, T]        any strides
//   value_*                               as in decode.metal
//   parts    float32 [B, Hq, L, S, VD]    sums over the tokens of each split
//   VD, VBITS, VWIDE, VGROUP, VSPAN, VSTATES, LANES, ROWS, TOKENS, SIMDGROUPS    as in decode.metal
//
// Grid of threadgroups (S * tiles of ROWS, H, B).

constexpr int VN = VD / LANES;
constexpr int TEAMS = 32 / LANES;
constexpr int THREADS = 32 * SIMDGROUPS;
constexpr int STEP = TEAMS * TOKENS;
constexpr int VPOINTS = TQ_POINTS(VBITS, VWIDE, VGROUP, VSTATES);
constexpr int VSIZE = TQ_SHARE(VBITS, VWIDE, VSPAN, VSTATES, VN);

TQ_SHARED tq_chunk<VSPAN> value_table[VPOINTS];
TQ_SHARED float outs[SIMDGROUPS * ROWS * VD];

const uint thread_id = thread_index_in_threadgroup;
const uint team = thread_index_in_simdgroup / uint(LANES);
const uint lane = thread_index_in_simdgroup % uint(LANES);
const uint simd = simdgroup_index_in_threadgroup;
const uint head = threadgroup_position_in_grid.y;
const uint batch = threadgroup_position_in_grid.z;

const int tokens = value_words_shape[2];
const int q_len = weights_shape[2];
const int gqa = weights_shape[1] / value_words_shape[1];
const int rows = gqa * q_len;
const int tiles = (rows + ROWS - 1) / ROWS;
const int splits = int(threadgroups_per_grid.x) / tiles;
const int tile = int(threadgroup_position_in_grid.x) % tiles;
const int split = int(threadgroup_position_in_grid.x) / tiles;
const int span = (tokens + splits - 1) / splits;
const int begin = split * span;
const int end = begin + span < tokens ? begin + span : tokens;

if (VGROUP == 0) {
  for (int i = int(thread_id); i < VSPAN * VPOINTS; i += THREADS) {
    value_table[i / VSPAN].x[i % VSPAN] = value_levels[i];
  }
}
TQ_BARRIER;

auto values = value_words + (batch * value_words_strides[0] + head * value_words_strides[1]);
auto vscales = value_scales + (batch * value_scales_strides[0] + head * value_scales_strides[1]);
auto vbiases = value_biases + (batch * value_biases_strides[0] + head * value_biases_strides[1]);

float o[ROWS][VN];
TQ_UNROLL
for (int r = 0; r < ROWS; r++) {
  TQ_UNROLL
  for (int i = 0; i < VN; i++) {
    o[r][i] = 0.0f;
  }
}

for (int start = begin + int(simd) * STEP; start < end; start += SIMDGROUPS * STEP) {
  uint value_share[TOKENS][VSIZE];
  float value_sides[TOKENS][4];
  float weight[TOKENS][ROWS];
  TQ_UNROLL
  for (int u = 0; u < TOKENS; u++) {
    const int at = start + u * TEAMS + int(team);
    const int t = at < end ? at : end - 1;
    tq_load_share<VD, VBITS, VWIDE, VSPAN, VSTATES, VN>(
        values + tq_offset(t, value_words_strides[2]), value_words_strides[3], lane,
        value_share[u]);
    tq_load_sides<VGROUP, 0, VN>(
        vscales + tq_offset(t, value_scales_strides[2]), value_scales_strides[3],
        vbiases + tq_offset(t, value_biases_strides[2]), value_biases_strides[3], lane * VN,
        value_sides[u]);
    TQ_UNROLL
    for (int r = 0; r < ROWS; r++) {
      const int row = tile * ROWS + r;
      weight[u][r] = 0.0f;
      if (at < end && row < rows) {
        weight[u][r] = weights[
            batch * weights_strides[0] + (head * gqa + row / q_len) * weights_strides[1] +
            (row % q_len) * weights_strides[2] + at * weights_strides[3]];
      }
    }
  }
  TQ_UNROLL
  for (int u = 0; u < TOKENS; u++) {
    tq_label<VSTATES, VBITS, VN / VSPAN>(value_share[u]);
    tq_mix<VBITS, VWIDE, VGROUP, VSPAN, VSTATES, VN, ROWS>(
        value_share[u], value_table, value_sides[u], lane, weight[u], o);
  }
}

TQ_UNROLL
for (int r = 0; r < ROWS; r++) {
  TQ_UNROLL
  for (int i = 0; i < VN; i++) {
    const float x = tq_sum_of_teams<LANES>(o[r][i]);
    if (team == 0) {
      outs[(simd * ROWS + r) * VD + lane * VN + i] = x;
    }
  }
}
TQ_BARRIER;

for (int i = int(thread_id); i < ROWS * VD; i += THREADS) {
  const int row = tile * ROWS + i / VD;
  float x = 0.0f;
  for (int k = 0; k < SIMDGROUPS; k++) {
    x += outs[k * ROWS * VD + i];
  }
  if (row < rows) {
    const int64_t slot = (int64_t(batch * threadgroups_per_grid.y + head) * rows + row) * splits + split;
    parts[slot * VD + i % VD] = x;
  }
}
