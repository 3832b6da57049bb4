// The end: lanes, warps and, by the last block of a head, splits are merged; the output is rotated back.

// Lanes, then warps.
__syncthreads();
float* outs = reinterpret_cast<float*>(space) + warp * ROWS * D;
#pragma unroll
for (int e = 0; e < 2; e++) {
  #pragma unroll
  for (int o = PAIRED ? 2 : 4; o < 32; o *= 2) {
    l[e] += __shfl_xor_sync(~0u, l[e], o);
    seen_top[e] = fmaxf(seen_top[e], __shfl_xor_sync(~0u, seen_top[e], o));
  }
  if (g == 0 && (!PAIRED || j < 2)) {
    tops[warp][two_rows + e] = top[e];
    totals[warp][two_rows + e] = l[e];
    scores[warp][two_rows + e] = seen_top[e];
  }
}
#pragma unroll
for (int i = 0; i < 2 * GROUPS; i++) {
  const int r = 2 * i + g / 4;
  if (r < ROWS) {
    #pragma unroll
    for (int k = 0; k < 4 * PIECES; k++) {
      const int d = tqc_value_dim<D, VBITS>(2 * j + k % 2, k / 4, k / 2 % 2 * 4 + g % 4);
      outs[r * D + d] = numbers[1] * acc[i / 2][k / 2][i % 2 * 2 + k % 2];
    }
  }
}
__syncthreads();

const long long unit_index = ((long long)batch * gridDim.y + head) * row_tiles + row_tile;
float4* ends = reinterpret_cast<float4*>(parts + (long long)gridDim.x * gridDim.y * gridDim.z * (ROWS * D));
for (int i = thread_id; i < ROWS * D / 4; i += 32 * WARPS) {
  const int r = i / (D / 4);
  float most = tops[0][r];
  #pragma unroll
  for (int k = 1; k < WARPS; k++) {
    most = fmaxf(most, tops[k][r]);
  }
  float4 x = {0.0f, 0.0f, 0.0f, 0.0f};
  float sum = 0.0f;
  float seen = -INFINITY;
  #pragma unroll
  for (int k = 0; k < WARPS; k++) {
    const float factor = exp2f(tops[k][r] - most);
    const float4 y = reinterpret_cast<const float4*>(space)[k * (ROWS * D / 4) + i];
    x.x = fmaf(factor, y.x, x.x);
    x.y = fmaf(factor, y.y, x.y);
    x.z = fmaf(factor, y.z, x.z);
    x.w = fmaf(factor, y.w, x.w);
    sum = fmaf(factor, totals[k][r], sum);
    seen = fmaxf(seen, scores[k][r]);
  }
  const long long slot = (unit_index * splits + split) * ROWS;
  reinterpret_cast<float4*>(parts + slot * D)[i] = x;
  if (i % (D / 4) == 0) {
    ends[slot + r] = make_float4(most, sum, seen, 0.0f);
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
  // HELPERS warps share a row's splits, or a warp takes several rows.
  constexpr int n = D / 32;
  constexpr int BATCH = KSPAN + VSPAN > 2 ? 17 : 18;  // as many as registers hold
  const int helper = warp % HELPERS;
  for (int r = warp / HELPERS; r < ROWS; r += WARPS / HELPERS) {
    const long long slot = unit_index * splits * ROWS + r;
    const tqc_chunk<n>* part = reinterpret_cast<const tqc_chunk<n>*>(parts + slot * D) + lane;
    constexpr int next = ROWS * D / n;
    // The first outputs travel while the shares are found.
    tqc_chunk<n> held[BATCH];
    #pragma unroll
    for (int b = 0; b < BATCH; b++) {
      const int k = helper + b * HELPERS;
      if (k < splits) {
        held[b] = tqc_load(part + k * next);
      }
    }
    float most = -1e30f;
    float seen = -INFINITY;
    float4 end[4];
    #pragma unroll
    for (int i = 0; i < 4; i++) {
      end[i] = make_float4(-1e30f, 0.0f, -INFINITY, 0.0f);
      if (32 * i + lane < splits) {
        end[i] = __ldcg(&ends[slot + (32 * i + lane) * ROWS]);
      }
      most = fmaxf(most, end[i].x);
      seen = fmaxf(seen, end[i].z);
    }
    #pragma unroll
    for (int o = 1; o < 32; o *= 2) {
      most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
      seen = fmaxf(seen, __shfl_xor_sync(~0u, seen, o));
    }
    float sum = 0.0f;
    __syncwarp();  // the shares of the row before, if any, are read
    #pragma unroll
    for (int i = 0; i < 4; i++) {
      const float share = exp2f(end[i].x - most);
      shares[warp][32 * i + lane] = share;
      sum = fmaf(share, end[i].y, sum);
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
    #pragma unroll
    for (int b = 0; b < BATCH; b++) {
      const int k = helper + b * HELPERS;
      if (k < splits) {
        #pragma unroll
        for (int i = 0; i < n; i++) {
          x[i] = fmaf(shares[warp][k], held[b].x[i], x[i]);
        }
      }
    }
    #pragma unroll 8
    for (int k = helper + BATCH * HELPERS; k < splits; k += HELPERS) {
      const tqc_chunk<n> y = tqc_load(part + k * next);
      #pragma unroll
      for (int i = 0; i < n; i++) {
        x[i] = fmaf(shares[warp][k], y.x[i], x[i]);
      }
    }
    if (HELPERS > 1) {
      float* mine = reinterpret_cast<float*>(space) + warp * D + lane * n;
      #pragma unroll
      for (int i = 0; i < n; i++) {
        mine[i] = x[i];
      }
      __syncthreads();  // every warp comes here once
      if (helper > 0) {
        continue;
      }
      #pragma unroll
      for (int h = 1; h < HELPERS; h++) {
        #pragma unroll
        for (int i = 0; i < n; i++) {
          x[i] += mine[h * D + i];
        }
      }
    }
    tqc_hadamard<n>(x, lane);
    const int row = row_tile * ROWS + r;
    if (row < rows) {
      const long long at = ((long long)batch * gridDim.y * GQA + head * GQA + row / Q_LEN) * Q_LEN + row % Q_LEN;
      #pragma unroll
      for (int i = 0; i < n; i++) {
        x[i] *= value_signs[lane * n + i];
      }
      #if FINISHED
      #ifdef AROUND
      put_around(r, most, sum, x);
      #endif
      const float factor = sum > 0.0f ? 1.0f / sum : 0.0f;
      #pragma unroll
      for (int i = 0; i < n; i++) {
        tqc_write(out + at * D + lane * n + i, x[i] * factor);
      }
      #else
      // In units of the largest score.
      const float factor = seen > -INFINITY ? exp2f(most - seen) : 0.0f;
      #pragma unroll
      for (int i = 0; i < n; i++) {
        o[at * D + lane * n + i] = x[i] * factor;
      }
      if (lane == 0) {
        m_out[at] = seen * (1.0f / LOG2E);
        l_out[at] = sum * factor;
      }
      #endif
    }
  }
}
