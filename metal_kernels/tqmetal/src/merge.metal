// Merge of a query's splits: (o, m, l) of all tokens from those of each split.
//
//   parts  float32 [rows, S, D], tops (m) and sums (l) float32 [rows, S], S up to THREADS
//   signs  float32 [D]           signs over sqrt(D), to rotate o back: signs * H o (if ROTATED)
//   o      float32 [rows, D], m and l float32 [rows]
//   D, ROTATED, THREADS          THREADS at least D; ROTATED: D is 2^k, at least 32
//
// Grid of threadgroups (rows).

constexpr int SLICES = THREADS / D;

TQ_SHARED float weights[THREADS];
TQ_SHARED float outs[THREADS];

const int thread_id = int(thread_index_in_threadgroup);
const int64_t row = threadgroup_position_in_grid.x;
const int splits = tops_shape[1];

const tq_row whole = tq_merge<D, THREADS>(
    parts + row * splits * D, tops + row * splits, sums + row * splits, splits, thread_id, weights,
    outs);
if (thread_id == 0) {
  m[row] = whole.top;
  l[row] = whole.sum;
}
if (ROTATED) {
  constexpr int N = D >= 32 ? D / 32 : 1;
  if (thread_id < 32) {
    float y[N];
    tq_rotated_back<D, SLICES>(outs, signs, thread_id, y);
    TQ_UNROLL
    for (int i = 0; i < N; i++) {
      o[row * D + thread_id * N + i] = y[i];
    }
  }
} else if (thread_id < D) {
  o[row * D + thread_id] = tq_merged<D, SLICES>(outs, thread_id);
}
