// Merging the splits of one query row, by a threadgroup of THREADS threads: at least D and the most
// splits, up to 1024. Thread i works on value i % D of every (THREADS / D)-th split.

// What all threads know of a row: m, and l in units of exp(m).
struct tq_row {
  float top;
  float sum;
};

// The next AHEAD parts of a value, from split `first` on; loads do not wait for each other.
template <int D, int SLICES, int AHEAD, typename Column, typename Held>
TQ_FN void tq_hold(Column column, int first, int splits, Held held) {
  TQ_UNROLL
  for (int i = 0; i < AHEAD; i++) {
    const int k = first + i * SLICES;
    held[i] = k < splits ? column[k * D] : 0.0f;
  }
}

// Merges parts [splits, D], tops and sums [splits]. The sum of slice s of value d goes to
// outs[s * D + d]; what was in threadgroup memory before is visible, too.
template <
    int D, int THREADS, typename Parts, typename Tops, typename Sums, typename Weights,
    typename Outs>
TQ_FN tq_row tq_merge(
    Parts parts, Tops tops, Sums sums, int splits, int thread_id, Weights weights, Outs outs) {
  constexpr int slices = THREADS / D;
  constexpr int ahead = 8;
  const int slice = thread_id / D;
  const int first = slice < slices ? slice : splits;
  auto column = parts + thread_id % D;
  float held[ahead];
  // They travel while the weights are found.
  tq_hold<D, slices, ahead>(column, first, splits, held);

  // Every simdgroup finds m and l, and its own of the weights.
  tq_row row = {-INFINITY, 0.0f};
  for (int k = thread_id % 32; k < splits; k += 32) {
    row.top = tops[k] > row.top ? tops[k] : row.top;
  }
  row.top = tq_team_max<32>(row.top);
  for (int k = thread_id % 32; k < splits; k += 32) {
    const float weight = row.top == -INFINITY ? 0.0f : tq_exp(tops[k] - row.top);
    row.sum += weight * sums[k];
    if (k == thread_id) {
      weights[k] = weight;
    }
  }
  row.sum = tq_team_sum<32>(row.sum);
  TQ_BARRIER;

  float x = 0.0f;
  for (int start = first; start < splits; start += slices * ahead) {
    TQ_UNROLL
    for (int i = 0; i < ahead; i++) {
      const int k = start + i * slices;
      x += k < splits ? held[i] * weights[k] : 0.0f;
    }
    tq_hold<D, slices, ahead>(column, start + slices * ahead, splits, held);
  }
  outs[thread_id] = x;
  TQ_BARRIER;
  return row;
}

// Value d of the row: the sum of its slices.
template <int D, int SLICES, typename Outs>
TQ_FN float tq_merged(Outs outs, int d) {
  float x = 0.0f;
  TQ_UNROLL
  for (int k = 0; k < SLICES; k++) {
    x += outs[k * D + d];
  }
  return x;
}

// Rotates the row back, signs * H o: it is one simdgroup's, whose lane has N = D / 32 values.
template <int D, int SLICES, typename Outs, typename Signs, typename Values>
TQ_FN void tq_rotated_back(Outs outs, Signs signs, int lane, Values x) {
  constexpr int n = D >= 32 ? D / 32 : 1;
  TQ_UNROLL
  for (int i = 0; i < n; i++) {
    x[i] = tq_merged<D, SLICES>(outs, lane * n + i);
  }
  tq_hadamard<n, 32>(x, uint(lane));
  TQ_UNROLL
  for (int i = 0; i < n; i++) {
    x[i] *= signs[lane * n + i];
  }
}
