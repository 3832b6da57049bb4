// Merge of a query's splits: (o, m, l) of all tokens from those of each split.
//
//   parts  float32 [rows, S, D], tops (m) and sums (l) float32 [rows, S], S up to THREADS
//   signs  float32 [D]           signs over sqrt(D), to rotate o back: signs * H o (if ROTATED)
//   o      float32 [rows, D], m and l float32 [rows]
//   D, ROTATED, THREADS          THREADS at least D; ROTATED: D is 2^k, at least 32
//
// Grid of threadgroups (rows).

constexpr int SLICES = THREADS / D;
constexpr int AHEAD = 8;

TQ_SHARED float maxima[THREADS];
TQ_SHARED float weights[THREADS];
TQ_SHARED float totals[THREADS];
TQ_SHARED float outs[THREADS];

const int thread_id = int(thread_index_in_threadgroup);
const int64_t row = threadgroup_position_in_grid.x;
const int splits = tops_shape[1];

if (thread_id < splits) {
  maxima[thread_id] = tops[row * splits + thread_id];
}
TQ_BARRIER;
float top = -INFINITY;
for (int k = 0; k < splits; k++) {
  top = maxima[k] > top ? maxima[k] : top;
}
if (thread_id < splits) {
  weights[thread_id] = top == -INFINITY ? 0.0f : tq_exp(maxima[thread_id] - top);
  totals[thread_id] = weights[thread_id] * sums[row * splits + thread_id];
}
TQ_BARRIER;

const int slice = thread_id / D;
float x = 0.0f;
if (slice < SLICES) {
  auto column = parts + (row * splits * D + thread_id % D);
  for (int start = slice; start < splits; start += SLICES * AHEAD) {
    // Loads do not wait for each other.
    float ahead[AHEAD];
    TQ_UNROLL
    for (int i = 0; i < AHEAD; i++) {
      const int k = start + i * SLICES;
      ahead[i] = k < splits ? column[k * D] : 0.0f;
    }
    TQ_UNROLL
    for (int i = 0; i < AHEAD; i++) {
      const int k = start + i * SLICES;
      x += k < splits ? ahead[i] * weights[k] : 0.0f;
    }
  }
}
outs[thread_id] = x;
TQ_BARRIER;

if (thread_id == 0) {
  float sum = 0.0f;
  for (int k = 0; k < splits; k++) {
    sum += totals[k];
  }
  m[row] = top;
  l[row] = sum;
}
if (ROTATED) {
  // One simdgroup holds the vector.
  constexpr int N = D >= 32 ? D / 32 : 1;
  if (thread_id < 32) {
    float y[N];
    TQ_UNROLL
    for (int i = 0; i < N; i++) {
      y[i] = 0.0f;
      TQ_UNROLL
      for (int k = 0; k < SLICES; k++) {
        y[i] += outs[k * D + thread_id * N + i];
      }
    }
    tq_hadamard<N, 32>(y, uint(thread_id));
    TQ_UNROLL
    for (int i = 0; i < N; i++) {
      o[row * D + thread_id * N + i] = y[i] * signs[thread_id * N + i];
    }
  }
} else if (thread_id < D) {
  float y = 0.0f;
  TQ_UNROLL
  for (int k = 0; k < SLICES; k++) {
    y += outs[k * D + thread_id];
  }
  o[row * D + thread_id] = y;
}
