// The end: lanes, warps and, by the last block of a head, splits are merged; the output is rotated back.

// Lanes, then warps.
__syncthreads();
float* outs = reinterpret_cast<float*>(space) + warp * ROWS * D;
#pragma unroll
for (int o = 4; o < 32; o *= 2) {
  l[0] += __shfl_xor_sync(~0u, l[0], o);
  l[1] += __shfl_xor_sync(~0u, l[1], o);
}
weight_sum += __shfl_xor_sync(~0u, weight_sum, 1);
weight_sum += __shfl_xor_sync(~0u, weight_sum, 2);
if (g == 0) {
  maxima[warp][2 * j] = m[0];
  maxima[warp][2 * j + 1] = m[1];
  totals[warp][2 * j] = l[0];
  totals[warp][2 * j + 1] = l[1];
}
if (g < ROWS) {
  #pragma unroll
  for (int h = 0; h < HALVES; h++) {
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      #pragma unroll
      for (int e = 0; e < 2; e++) {
        outs[(g < ROWS ? g : 0) * D + tqc_value_dim<D, VBITS>(h, 2 * j + e, i)] =
            fmaf(affine[2], acc[h][i][e], affine[3] * weight_sum);
      }
    }
  }
}
__syncthreads();

const long long unit_index = ((long long)batch * gridDim.y + head) * row_tiles + row_tile;
for (int i = thread_id; i < ROWS * D; i += 32 * WARPS) {
  const int r = i / D;
  const int d = i % D;
  float top = maxima[0][r];
  #pragma unroll
  for (int k = 1; k < WARPS; k++) {
    top = fmaxf(top, maxima[k][r]);
  }
  float x = 0.0f;
  float sum = 0.0f;
  #pragma unroll
  for (int k = 0; k < WARPS; k++) {
    const float factor = exp2f(maxima[k][r] - top);
    x += factor * reinterpret_cast<float*>(space)[(k * ROWS + r) * D + d];
    sum += factor * totals[k][r];
  }
  const long long slot = (unit_index * splits + split) * ROWS + r;
  parts[slot * D + d] = x;
  if (d == 0) {
    parts_ml[2 * slot] = top;
    parts_ml[2 * slot + 1] = sum;
  }
}
__threadfence();
__syncthreads();
if (thread_id == 0) {
  int* counter = const_cast<int*>(arrived) + unit_index;
  is_last = atomicAdd(counter, 1) == splits - 1;
  if (is_last) {
    *counter = 0;
  }
}
__syncthreads();
if (is_last) {
  __threadfence();
  for (int r = warp; r < ROWS; r += WARPS) {
    constexpr int n = D / 32;
    const int row = row_tile * ROWS + r;
    float top = -1e30f;
    for (int k = lane; k < splits; k += 32) {
      top = fmaxf(top, __ldcg(&parts_ml[2 * ((unit_index * splits + k) * ROWS + r)]));
    }
    #pragma unroll
    for (int o = 1; o < 32; o *= 2) {
      top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
    }
    float sum = 0.0f;
    for (int k = lane; k < splits; k += 32) {
      const long long slot = (unit_index * splits + k) * ROWS + r;
      const float share = exp2f(__ldcg(&parts_ml[2 * slot]) - top);
      shares[r][k] = share;
      sum += share * __ldcg(&parts_ml[2 * slot + 1]);
    }
    #pragma unroll
    for (int o = 1; o < 32; o *= 2) {
      sum += __shfl_xor_sync(~0u, sum, o);
    }
    __syncwarp();
    float x[n];
    #pragma unroll
    for (int i = 0; i < n; i++) {
      x[i] = 0.0f;
    }
    #pragma unroll 16
    for (int k = 0; k < splits; k++) {
      const float* part = parts + ((unit_index * splits + k) * ROWS + r) * D + lane * n;
      #pragma unroll
      for (int i = 0; i < n; i += 2) {
        const float2 pair = __ldcg(reinterpret_cast<const float2*>(part + i));
        x[i] = fmaf(shares[r][k], pair.x, x[i]);
        x[i + 1] = fmaf(shares[r][k], pair.y, x[i + 1]);
      }
    }
    tq_hadamard<n, 32>(x, (uint)lane);
    if (row < rows) {
      const long long out = ((long long)batch * q_shape[1] + head * gqa + row / q_len) * q_len + row % q_len;
      #pragma unroll
      for (int i = 0; i < n; i++) {
        o[out * D + lane * n + i] = x[i] * value_signs[lane * n + i];
      }
      if (lane == 0) {
        const bool seen = top > -1e29f;
        m_out[out] = seen ? top * (1.0f / LOG2E) : -INFINITY;
        l_out[out] = seen ? sum : 0.0f;
      }
    }
  }
}
