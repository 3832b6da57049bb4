// Encode by a trellis: rotate, find the best path at the best size, and pack; one side.
//
//   vectors       [B, H, n, D]            floats of any type and strides
//   signs         float32 [D]             signs over sqrt(D); unused unless ROTATED
//   points        float32 [P, SPAN]       of P = 2 * 2^BITS, ordered as in trellis.h
//   sizes         float32 [SIZES]         factors on the unit vector, all tried
//   limits        float32 [1]             the largest value of the type of vectors
//   words         uint32 [B, H, n, W]     u32le/1, codes as in trellis.h
//   scale         uint16 [B, H, n]
//   D, BITS, SPAN, STATES, POLICY, ROTATED, SIZES, W                see encode.h, trellis.h
//   THREADS                               threads a threadgroup
//
// A team of 8 lanes a vector. First a lane tries a size: the least cost of any path. At the best of
// them, a lane walks from each state back to it; the cheapest is the path, whose tail it bites.

constexpr int LANES = 8;
constexpr int TEAMS = THREADS / LANES;
constexpr int T = D / SPAN;
constexpr int POINTS = (2 << BITS) * SPAN;

TQ_SHARED float table[POINTS];
TQ_SHARED float unit[TEAMS * D];
TQ_SHARED float costs[TEAMS * T * 4];
TQ_SHARED uint8_t came[TEAMS * T * STATES];
TQ_SHARED uint8_t codes[TEAMS * T];

const uint thread_id = thread_index_in_threadgroup;
const int heads = vectors_shape[1];
const int tokens = vectors_shape[2];
const int count = vectors_shape[0] * heads * tokens;

for (int i = int(thread_id); i < POINTS; i += THREADS) {
  table[i] = points[i];
}

// Every thread reaches the barriers: teams beyond the last vector encode it again.
const uint team = thread_id / LANES;
const uint lane = thread_id % LANES;
const int vector = int(threadgroup_position_in_grid.x * TEAMS + team);
const int at = vector < count ? vector : count - 1;
const int batch = at / tokens / heads;
const int head = at / tokens % heads;
const int token = at % tokens;
const int symbol = team * T;

float length = 0.0f;
{
  float x[D / LANES];
  length = tq_direction<D, ROTATED, LANES>(
      vectors + (batch * vectors_strides[0] + head * vectors_strides[1] +
                 token * vectors_strides[2]),
      vectors_strides[3], signs, limits[0], lane, x);
  TQ_UNROLL
  for (int i = 0; i < D / LANES; i++) {
    unit[team * D + lane * (D / LANES) + i] = x[i];
  }
}
TQ_BARRIER;

float size = sizes[0];
if (SIZES > 1) {
  float least = TQ_FAR;
  float best = 0.0f;
  for (uint i = lane; i < uint(SIZES); i += LANES) {
    const float tried = sizes[i];
    const float cost = tq_least_cost<T, BITS, SPAN, STATES>(unit + team * D, tried, table);
    const float error = cost / (tried * tried);
    best = error < least ? float(i) : best;
    least = error < least ? error : least;
  }
  size = sizes[uint(tq_least_of_team<LANES>(least, best))];
}

for (int t = int(lane); t < T; t += LANES) {
  tq_branch_costs<BITS, SPAN>(
      unit + team * D + t * SPAN, size, table, costs + (symbol + t) * 4);
}
TQ_BARRIER;

float end = TQ_FAR;
if (lane < uint(STATES)) {
  end = tq_walk_home<T, STATES>(costs + symbol * 4, lane, came + symbol * STATES);
}
TQ_BARRIER;

// All lanes go back together; each keeps what it needs of its own symbols, low bit and label.
const uint home = uint(tq_least_of_team<LANES>(end, float(lane)));
uint state = home;
for (int t = T - 1; t >= 0; t--) {
  const uint older = (came[(symbol + t) * STATES + home] >> state) & 1u;
  const uint before = state / 2 + older * (STATES / 2);
  if (uint(t) % LANES == lane) {
    codes[symbol + t] =
        static_cast<uint8_t>((tq_step_label<STATES>(before, state & 1u) << 1) | (state & 1u));
  }
  state = before;
}

float dot = 0.0f;
float square = 0.0f;
for (int t = int(lane); t < T; t += LANES) {
  const uint code = codes[symbol + t];
  const uint label = code >> 1;
  const uint upper = tq_nearest_point<BITS, SPAN>(unit + team * D + t * SPAN, size, table, label);
  codes[symbol + t] = static_cast<uint8_t>(((code & 1u) << (BITS - 1)) | upper);
  TQ_UNROLL
  for (int j = 0; j < SPAN; j++) {
    const float level = table[tq_number<BITS>(upper, label) * SPAN + j];
    dot += unit[team * D + t * SPAN + j] * level;
    square += level * level;
  }
}
const float scaled = tq_scale_of_team<POLICY, LANES>(length, dot, square);
TQ_BARRIER;

if (vector < count) {
  for (uint k = lane; k < uint(W); k += LANES) {
    words[int64_t(vector) * W + k] = tq_word<T, BITS, 0>(codes + symbol, k);
  }
  if (lane == 0) {
    scale[vector] = static_cast<uint16_t>(tq_scale_code(scaled));
  }
}
