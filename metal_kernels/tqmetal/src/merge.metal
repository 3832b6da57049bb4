// Merge of a query's splits: (o, m, l) of all tokens from those of each split.
//
//   parts  float32 [rows, S, D]    with tops (m) and sums (l) float32 [rows, S]
//   o      float32 [rows, D], m and l float32 [rows]
//
// Grid (rows) threadgroups of any size.

const uint row = threadgroup_position_in_grid.x;
const int splits = tops_shape[1];
const int dim = parts_shape[2];

float top = -INFINITY;
for (int k = 0; k < splits; k++) {
  top = tops[row * splits + k] > top ? tops[row * splits + k] : top;
}
for (int d = int(thread_index_in_threadgroup); d < dim; d += THREADS) {
  float sum = 0.0f;
  float x = 0.0f;
  for (int k = 0; k < splits && top > -INFINITY; k++) {
    const int64_t slot = int64_t(row) * splits + k;
    const float factor = tq_exp(tops[slot] - top);
    sum += sums[slot] * factor;
    x += parts[slot * dim + d] * factor;
  }
  o[int64_t(row) * dim + d] = x;
  if (d == 0) {
    m[row] = top;
    l[row] = sum;
  }
}
