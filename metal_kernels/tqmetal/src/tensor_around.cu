// What a cache has around its packed tokens, put back in the same launch: tensor.cu and tensor_merge.cu call this.
//
//   key_gain, key_mean, value_mean   [B, H, 1, D]      floats of any strides; only those that are read
//   sink_keys, sink_values           [B, H, SINKS, D]  dense tokens, the last ones before the first of a row
//                                                      that the padding leaves; a mask begins with them
//
// Packed are g (k - mu) and v - nu. So queries are divided by g; q . mu moves all logits of a row alike, which
// only tells beside sinks; nu is added once for the sum of all weights.

__shared__ float around_logits[8][SINKS + 1];  // times log2(e): of the sinks, then what packed tokens share
__shared__ float around_values[SINKS + 1][D];  // of the sinks, then the mean

// Before the loop, while tokens travel: only the last block of a head needs it, but that one would wait.
auto look_around = [&](const float* numbers, int batch, int head, int row_tile) {
  constexpr int n = D / 32;
  constexpr float log2e = 1.4426950408889634f;
  const int lane = threadIdx.x % 32;
  auto key = [&](int s, int d) {
    #if SINKS
    if (s < SINKS) {
      return static_cast<float>(sink_keys[
          batch * sink_keys_strides[0] + head * sink_keys_strides[1] + s * sink_keys_strides[2] +
          d * sink_keys_strides[3]]);
    }
    #endif
    #ifdef KEY_MEAN
    return static_cast<float>(key_mean[
        batch * key_mean_strides[0] + head * key_mean_strides[1] + d * key_mean_strides[3]]);
    #else
    return 0.0f;
    #endif
  };
  auto value = [&](int s, int d) {
    #if SINKS
    if (s < SINKS) {
      return static_cast<float>(sink_values[
          batch * sink_values_strides[0] + head * sink_values_strides[1] + s * sink_values_strides[2] +
          d * sink_values_strides[3]]);
    }
    #endif
    #ifdef VALUE_MEAN
    return static_cast<float>(value_mean[
        batch * value_mean_strides[0] + head * value_mean_strides[1] + d * value_mean_strides[3]]);
    #else
    return 0.0f;
    #endif
  };
  // Warps without a query to turn come first.
  for (int r = (threadIdx.x / 32 + WARPS / 2) % WARPS; r < ROWS; r += WARPS) {
    const int row = row_tile * ROWS + r;
    if (row >= GQA * Q_LEN) {
      break;
    }
    const int q_head = head * GQA + row / Q_LEN;
    const int query = row % Q_LEN;
    float asked[n];
    #pragma unroll
    for (int i = 0; i < n; i++) {
      asked[i] = static_cast<float>(q[
          batch * q_strides[0] + q_head * q_strides[1] + query * q_strides[2] + (lane * n + i) * q_strides[3]]);
    }
    #pragma unroll 4
    for (int s = 0; s <= SINKS; s++) {
      float x = 0.0f;
      #pragma unroll
      for (int i = 0; i < n; i++) {
        x = fmaf(asked[i], key(s, lane * n + i), x);
      }
      #pragma unroll
      for (int o = 1; o < 32; o *= 2) {
        x += __shfl_xor_sync(~0u, x, o);
      }
      x *= numbers[3 + 2 * D];
      if (CAPPED && s < SINKS) {
        x = numbers[2] * tanhf(x / numbers[2]);
      }
      x *= log2e;
      #if MASK
      if (s < SINKS) {
        int t = s - SINKS;
        #if PADDED
        t += padding[batch];
        #endif
        #if MASK == 1
        x = t <= place[0] + query ? x : -INFINITY;
        #else
        const auto entry = mask[
            batch * mask_strides[0] + q_head * mask_strides[1] + query * mask_strides[2] +
            (t + SINKS) * mask_strides[3]];
        #if MASK == 2
        x = static_cast<float>(entry) != 0.0f ? x : -INFINITY;
        #else
        x += log2e * static_cast<float>(entry);
        #endif
        #endif
      }
      #endif
      if (lane == 0) {
        around_logits[r][s] = x;
      }
    }
  }
  for (int i = threadIdx.x; i < (SINKS + 1) * D; i += 32 * WARPS) {
    around_values[i / D][i % D] = value(i / D, i % D);
  }
};

// Adds it to a lane's share x of the output of packed tokens, and to the sum of their weights, both in units
// of 2^most; then in units of the largest weight of all.
auto put_around = [&](int r, float most, float& sum, float* x) {
  constexpr int n = D / 32;
  const int lane = threadIdx.x % 32;
  const float* logits = around_logits[r];
  float top = most + logits[SINKS];
  #pragma unroll
  for (int s = 0; s < SINKS; s++) {
    top = fmaxf(top, logits[s]);
  }
  const float kept = exp2f(most + logits[SINKS] - top);
  sum *= kept;
  #pragma unroll
  for (int i = 0; i < n; i++) {
    x[i] = fmaf(sum, around_values[SINKS][lane * n + i], kept * x[i]);
  }
  #pragma unroll 4
  for (int s = 0; s < SINKS; s++) {
    const float weight = exp2f(logits[s] - top);
    sum += weight;
    #pragma unroll
    for (int i = 0; i < n; i++) {
      x[i] = fmaf(weight, around_values[s][lane * n + i], x[i]);
    }
  }
};
