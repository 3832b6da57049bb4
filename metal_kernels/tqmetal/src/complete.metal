// The end of attention in one launch: splits are merged and rotated back, what a cache has around its
// packed tokens is put back, and the output is normalized.
//
//   parts, tops, sums        of all splits, as decode.metal leaves them: [rows, S, D] and [rows, S]
//   signs        float32 [D] signs over sqrt(D), to rotate o back: signs * H o (if ROTATED)
//   q            [B, Hq, L, KD]      floats of any type and strides, as the model has them: of sinks
//                                    and the keys' mean (SINKS > 0)
//   key_mean     [B, H, 1, KD]       floats of any type and strides, as are all of these; what packed
//                                    keys are stored without (KMEAN)
//   value_mean   [B, H, 1, D]        the same of values (VMEAN)
//   sink_keys    [B, H, SINKS, KD]   dense tokens: the last ones before the first of a row that its
//   sink_values  [B, H, SINKS, D]    padding leaves, or before its end where none is left
//   mask         [B, Hq, L, SINKS + T]  as in decode.metal, but it begins with the sinks
//   padding, place                   as in decode.metal
//   factors      float32 [3]         scale of the logits, soft-cap (if CAPPED), largest output
//   out          T [B, Hq, L, D]     0 where a row sees nothing
//   D, KD, SINKS, KMEAN, VMEAN, ROTATED, MASK, PADDED, CAPPED, THREADS, T
//                                    SINKS up to 8; THREADS and ROTATED as in merge.metal
//
// Grid of threadgroups (rows of a KV head, H, B). A row is a query as in decode.metal.
//
// Packed are g (k - mu) and v - nu. What q . mu adds to all logits of packed tokens alike tells only
// beside sinks; nu is added once for the sum of all their weights.

constexpr int SLICES = THREADS / D;

TQ_SHARED float weights[THREADS];
TQ_SHARED float outs[THREADS];
TQ_SHARED float logits[SINKS + 1];  // of the sinks, then what packed tokens share

const int thread_id = int(thread_index_in_threadgroup);
const int lane = int(thread_index_in_simdgroup);
const int splits = tops_shape[1];
const int64_t head = threadgroup_position_in_grid.y;
const int64_t batch = threadgroup_position_in_grid.z;
const int64_t rows = threadgroups_per_grid.x;
const int64_t row =
    (batch * threadgroups_per_grid.y + head) * rows + threadgroup_position_in_grid.x;

// They travel while logits and weights are found.
float values[SINKS + 1];
if (thread_id < D) {
  if (SINKS > 0) {
    auto column = sink_values +
        (batch * sink_values_strides[0] + head * sink_values_strides[1] +
         thread_id * sink_values_strides[3]);
    TQ_UNROLL
    for (int s = 0; s < SINKS; s++) {
      values[s] = static_cast<float>(column[s * sink_values_strides[2]]);
    }
  }
  values[SINKS] = 0.0f;
  if (VMEAN) {
    values[SINKS] = static_cast<float>(value_mean[
        batch * value_mean_strides[0] + head * value_mean_strides[1] +
        thread_id * value_mean_strides[3]]);
  }
}

if (SINKS > 0) {
  const int q_len = q_shape[2];
  const int query = int(threadgroup_position_in_grid.x) % q_len;
  const int64_t q_head = head * (rows / q_len) + int(threadgroup_position_in_grid.x) / q_len;
  auto asked = q + (batch * q_strides[0] + q_head * q_strides[1] + query * q_strides[2]);
  // A simdgroup takes a product.
  for (int s = thread_id / 32; s <= SINKS; s += THREADS / 32) {
    float x = 0.0f;
    if (s < SINKS) {
      auto key = sink_keys +
          (batch * sink_keys_strides[0] + head * sink_keys_strides[1] + s * sink_keys_strides[2]);
      for (int d = lane; d < KD; d += 32) {
        x += static_cast<float>(asked[d * q_strides[3]]) *
            static_cast<float>(key[d * sink_keys_strides[3]]);
      }
    } else if (KMEAN) {
      auto key = key_mean + (batch * key_mean_strides[0] + head * key_mean_strides[1]);
      for (int d = lane; d < KD; d += 32) {
        x += static_cast<float>(asked[d * q_strides[3]]) *
            static_cast<float>(key[d * key_mean_strides[3]]);
      }
    }
    x = factors[0] * tq_team_sum<32>(x);
    if (s < SINKS) {
      if (CAPPED) {
        x = factors[1] * tanh(x / factors[1]);
      }
      // The first key of the segment that the row is left is 0, and sinks are before it.
      const int t = s - SINKS + (PADDED ? padding[batch] : 0);
      if (MASK == 1) {
        x = t <= place[0] + query ? x : -INFINITY;
      }
      if (MASK >= 2) {
        const auto entry = mask[
            batch * mask_strides[0] + q_head * mask_strides[1] + query * mask_strides[2] +
            (t + SINKS) * mask_strides[3]];
        if (MASK == 2) {
          x = static_cast<float>(entry) != 0.0f ? x : -INFINITY;
        } else {
          x += static_cast<float>(entry);
        }
      }
    }
    if (lane == 0) {
      logits[s] = x;
    }
  }
}

const tq_row packed = tq_merge<D, THREADS>(
    parts + row * splits * D, tops + row * splits, sums + row * splits, splits, thread_id, weights,
    outs);
if (ROTATED) {
  constexpr int N = D >= 32 ? D / 32 : 1;
  if (thread_id < 32) {
    float y[N];
    tq_rotated_back<D, SLICES>(outs, signs, lane, y);
    TQ_UNROLL
    for (int i = 0; i < N; i++) {
      outs[lane * N + i] = y[i];
    }
  }
  TQ_BARRIER;
}

if (thread_id < D) {
  float x = tq_merged<D, ROTATED ? 1 : SLICES>(outs, thread_id);
  float sum = packed.sum;
  if (SINKS > 0) {
    float top = packed.top + logits[SINKS];
    TQ_UNROLL
    for (int s = 0; s < SINKS; s++) {
      top = logits[s] > top ? logits[s] : top;
    }
    // A row that sees nothing has top = -inf, and -inf - -inf is not a number.
    const float finite = top == -INFINITY ? 0.0f : top;
    const float kept = tq_exp(packed.top + logits[SINKS] - finite);
    sum *= kept;
    x = kept * x + sum * values[SINKS];
    TQ_UNROLL
    for (int s = 0; s < SINKS; s++) {
      const float weight = tq_exp(logits[s] - finite);
      sum += weight;
      x += weight * values[s];
    }
  } else {
    x += sum * values[SINKS];
  }
  x = sum > 0.0f ? x / sum : 0.0f;
  const float most = factors[2];
  x = x > most ? most : x < -most ? -most : x;
  out[row * D + thread_id] = static_cast<T>(x);
}
