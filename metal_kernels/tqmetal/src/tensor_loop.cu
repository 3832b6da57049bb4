// The loop over a warp's tokens: scores, the online softmax (Milakov and Gimelshein 2018), weights times
// values. It follows tensor.cu and leaves top, l, seen_top and acc to tensor_merge.cu.
//
// A weight is exp(score) times the value's scale. The weights of a step are bytes of its largest, and
// what is kept as o and l is in units of 2^top, which is within 2^16 of the largest weight so far: the
// scale is part of the exponent, so that one maximum serves both.

float top[2] = {-1e30f, -1e30f};
float l[2] = {0.0f, 0.0f};
float seen_top[2] = {-INFINITY, -INFINITY};
float acc[GROUPS][2 * PIECES][4];
#pragma unroll
for (int q4 = 0; q4 < GROUPS; q4++) {
  #pragma unroll
  for (int i = 0; i < 8 * PIECES; i++) {
    acc[q4][i / 4][i % 4] = 0.0f;
  }
}

// Token i of the lane, of 32.
const int first_token = tqc_keep((PAIRED ? j / 2 * 16 : 0) + g);
const auto kscales = key_scales + (batch * key_scales_strides[0] + head * key_scales_strides[1]);
const auto vscales = value_scales + (batch * value_scales_strides[0] + head * value_scales_strides[1]);
const int key_step = (int)key_scales_strides[2] * 2;
const int value_step = (int)value_scales_strides[2] * 2;
unsigned key_sides[HELD];
unsigned value_sides[HELD];
auto load_sides = [&](int chunk) {
  const int start = min(chunk * TOKENS, last_start) + first_token;
  #pragma unroll
  for (int i = 0; i < HELD; i++) {
    const int t = min(start + 8 * i, tokens - 1);
    key_sides[i] = tqc_keep(tqc_side(kscales, t, key_step));
    value_sides[i] = tqc_keep(tqc_side(vscales, t, value_step));
  }
};
load_sides(chunk);
using Keys = tqc_reading<KSPAN>::keys<D, KBITS, KSTATES>;
using Values = tqc_reading<VSPAN>::values<D, VBITS, VSTATES>;
const int values_at = tqc_keep(warp * SPACE + TOKENS * KWORDS + Values::first(g, j));  // in space
const int weights_to = two_rows * 8 + g;
// As an operand has them: rows g and g + 8 of tokens j, then of tokens j + 4.
const int weights_at = tqc_keep(g / 4 * 8 + j);
const int first_row = tqc_keep(4 * g);
// A row of the second product is a query's weight in one byte of four: byte g % 4 of a word is byte u.
const unsigned next_place = tqc_keep(1u << (4 * (g % 4)));
const unsigned first_place = tqc_keep(0x4444u - 4 * next_place);
for (; chunk < end_chunk; chunk += WARPS) {
  const int start = min(chunk * TOKENS, last_start);
  tqc_wait<1>();
  __syncwarp();

  // Scores, then log2 of the weights.
  float w[HELD][2];
  int c[2][4];
  #pragma unroll
  for (int u = 0; u < 2; u++) {
    Keys x;
    Keys y;
    const unsigned* row = key_tile + (16 * u + g) * KWORDS;
    x.read(row, lane);
    y.read(row + 8 * KWORDS, lane);
    #pragma unroll
    for (int k = 0; k < STEPS; k++) {
      unsigned a[KTABLES][2];
      unsigned b[KTABLES][2];
      x.expand(k, key_table, a);
      y.expand(k, key_table, b);
      #pragma unroll
      for (int t = 0; t < KTABLES; t++) {
        tqc_score(c[u], a[t][0], b[t][0], a[t][1], b[t][1], queries[k], k + t ? c[u] : zeros);
      }
    }
  }
  #pragma unroll
  for (int i = 0; i < HELD; i++) {
    #pragma unroll
    for (int e = 0; e < 2; e++) {
      w[i][e] = tqc_float(PAIRED ? (j < 2 ? c[0][2 * i + e] : c[1][2 * i + e]) : c[i / 2][i % 2 * 2 + e]);
    }
  }
  __syncwarp();  // the keys are read: the next ones travel
  fetch_keys(chunk + WARPS);
  float inverse[HELD];
  #pragma unroll
  for (int i = 0; i < HELD; i++) {
    const int t = start + 8 * i + first_token;
    const float key_scale = tqc_scale(key_sides[i]);
    const float value_scale = tqc_scale(value_sides[i]);
    const float log_scale = tqc_log2(value_scale);
    inverse[i] = tqc_inverse(value_scale);
    #pragma unroll
    for (int e = 0; e < 2; e++) {
      float x = key_scale * (slope[e] * w[i][e]);
      if (CAPPED) {
        x = numbers[2] * LOG2E * tanhf(x / numbers[2]);
      }
      bool seen = true;
      #if PADDED
      seen = seen && t >= padding[batch];
      #endif
      #if MASK
      const int row = row_tile * ROWS + two_rows + e;
      #if MASK == 1
      seen = seen && t <= place[0] + row % Q_LEN;
      #else
      if (seen && t < tokens && two_rows + e < ROWS && row < rows) {
        const auto entry = mask[
            batch * mask_strides[0] + (head * GQA + row / Q_LEN) * mask_strides[1] +
            (row % Q_LEN) * mask_strides[2] + (t + SINKS) * mask_strides[3]];
        #if MASK == 2
        seen = static_cast<float>(entry) != 0.0f;
        #else
        x += LOG2E * static_cast<float>(entry);
        #endif
      }
      #endif
      #endif
      seen = seen && (unsigned)(t - chunk * TOKENS) < (unsigned)(tokens - chunk * TOKENS);
      if (!FINISHED) {
        seen_top[e] = fmaxf(seen_top[e], seen ? x : -INFINITY);
      }
      w[i][e] = seen ? x + log_scale : -INFINITY;
    }
  }
  load_sides(chunk + WARPS);

  // The largest weight of the step, and all of them as bytes of it.
  float step_top[2];
  #pragma unroll
  for (int e = 0; e < 2; e++) {
    float most = w[0][e];
    #pragma unroll
    for (int i = 1; i < HELD; i++) {
      most = fmaxf(most, w[i][e]);
    }
    #pragma unroll
    for (int o = PAIRED ? 2 : 4; o < 32; o *= 2) {
      most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
    }
    step_top[e] = most;
  }
  // Units may be exceeded by far: this is rarely needed again after the first step.
  if (__any_sync(~0u, step_top[0] > top[0] + 16.0f || step_top[1] > top[1] + 16.0f)) {
    float kept[2];
    #pragma unroll
    for (int e = 0; e < 2; e++) {
      const float risen = fmaxf(top[e], step_top[e]);
      kept[e] = tqc_exp2(top[e] - risen);
      top[e] = risen;
      l[e] *= kept[e];
    }
    const float mine = g < 4 ? kept[0] : kept[1];
    #pragma unroll
    for (int i = 0; i < 2 * GROUPS; i++) {
      const float row_kept = __shfl_sync(~0u, mine, first_row + i);
      #pragma unroll
      for (int k = 0; k < 4 * PIECES; k++) {
        acc[i / 2][k / 2][i % 2 * 2 + k % 2] *= row_kept;
      }
    }
  }
  float unit[2];
  #pragma unroll
  for (int e = 0; e < 2; e++) {
    // Where nothing is seen, all weights are 0.
    const float one = fmaxf(step_top[e], -1e30f) - 7.9943534368588579f;  // log2(255)
    unit[e] = tqc_exp2(one - top[e]);
    float sum = 0.0f;
    unsigned bytes[HELD];
    #pragma unroll
    for (int i = 0; i < HELD; i++) {
      const float weight = tqc_exp2(w[i][e] - one);
      sum = fmaf(weight, inverse[i], sum);
      bytes[i] = __float_as_int(weight + TQC_LARGE);
    }
    // Byte u of word t: token 8 u + t.
    unsigned* word = &weights[warp][weights_to + 8 * e];
    const unsigned low = tqc_permute(bytes[0], bytes[1], 0x0040u);
    if (PAIRED) {
      reinterpret_cast<unsigned short*>(word)[j / 2] = (unsigned short)low;
    } else {
      *word = tqc_permute(low, tqc_permute(bytes[HELD - 2], bytes[HELD - 1], 0x0040u), 0x5410u);
    }
    l[e] = fmaf(unit[e], sum, l[e]);
  }
  tqc_wait<1>();
  __syncwarp();

  // Weights times values. Four rows by the bytes of a word of levels are the 16 rows of a product, so
  // that a word's four dimensions, of one token, are summed apart and nothing is transposed.
  int sums[GROUPS][2 * PIECES][4];
  unsigned held[GROUPS][4];
  #pragma unroll
  for (int i = 0; i < 4 * GROUPS; i++) {
    held[i / 4][i % 4] = weights[warp][weights_at + i / 4 * 32 + i % 2 * 16 + i % 4 / 2 * 4];
  }
  unsigned place = first_place;
  #pragma unroll
  for (int u = 0; u < 4; u++) {
    unsigned a[GROUPS][4];
    #pragma unroll
    for (int i = 0; i < 4 * GROUPS; i++) {
      a[i / 4][i % 4] = tqc_permute(held[i / 4][i % 4], 0u, place);
    }
    place += next_place;
    const unsigned* at = space + values_at + 8 * u * VWORDS;
    Values x;
    Values y;
    x.read(at, lane);
    y.read(at + 4 * VWORDS, lane);
    #pragma unroll
    for (int k = 0; k < PIECES; k++) {
      unsigned b0[VTABLES][2];
      unsigned b1[VTABLES][2];
      x.expand(k, lane, value_table, b0);
      y.expand(k, lane, value_table, b1);
      #pragma unroll
      for (int t = 0; t < 2 * VTABLES; t++) {
        #pragma unroll
        for (int q4 = 0; q4 < GROUPS; q4++) {
          int* sum = sums[q4][2 * k + t % 2];
          tqc_mix(sum, a[q4], b0[t / 2][t % 2], b1[t / 2][t % 2], u + t / 2 ? sum : zeros);
        }
      }
    }
  }
  const float mine = g < 4 ? unit[0] : unit[1];
  #pragma unroll
  for (int i = 0; i < 2 * GROUPS; i++) {
    const float row_unit = __shfl_sync(~0u, mine, first_row + i);
    #pragma unroll
    for (int k = 0; k < 4 * PIECES; k++) {
      float& out = acc[i / 2][k / 2][i % 2 * 2 + k % 2];
      out = fmaf(row_unit, tqc_float(sums[i / 2][k / 2][i % 2 * 2 + k % 2]), out);
    }
  }
  __syncwarp();  // the values and the weights are read
  fetch_values(chunk + WARPS);
}
