// The loop over a warp's tiles: scores, the online softmax (Milakov and Gimelshein 2018), weights times
// values. It follows tensor.cu and leaves m, l, acc and weight_sum to tensor_merge.cu.

float m[2] = {-1e30f, -1e30f};
float l[2] = {0.0f, 0.0f};
float acc[HALVES][8][2];
float weight_sum = 0.0f;
#pragma unroll
for (int h = 0; h < HALVES; h++) {
  #pragma unroll
  for (int i = 0; i < 8; i++) {
    acc[h][i][0] = acc[h][i][1] = 0.0f;
  }
}

unsigned key_side = 0;
unsigned value_side = 0;
auto load_sides = [&](int chunk) {
  const long long t = min(chunk * 32 + lane, tokens - 1);
  key_side = kscales[t * key_scales_strides[2]];
  value_side = vscales[t * value_scales_strides[2]];
};
if (first_chunk + warp < end_chunk) {
  load_sides(first_chunk + warp);
}
int value_word[HALVES];
#pragma unroll
for (int h = 0; h < HALVES; h++) {
  value_word[h] = tqc_value_word<D, VBITS>(g, j, h);
}
int stage = 0;
for (int chunk = first_chunk + warp; chunk < end_chunk; chunk += WARPS) {
  const int start = chunk * 32;
  const float key_scale = tqc_scale(key_side);
  const float value_scale = tqc_scale(value_side);
  if (chunk + WARPS < end_chunk) {
    load_sides(chunk + WARPS);
  }
  tqc_wait<STAGES - 1>();
  __syncwarp();
  const unsigned* key_tile = ring + stage * (RING / STAGES);
  const unsigned* value_tile = key_tile + 32 * KWORDS;

  float s[4][2];
  #pragma unroll
  for (int u = 0; u < 2; u++) {
    unsigned share[2][KSHARE];
    tqc_read_key<D, KBITS, KSHARE>(key_tile + (16 * u + g) * KWORDS, j, share[0]);
    tqc_read_key<D, KBITS, KSHARE>(key_tile + (16 * u + 8 + g) * KWORDS, j, share[1]);
    int c[4] = {TQC_ZERO, TQC_ZERO, TQC_ZERO, TQC_ZERO};
    #pragma unroll
    for (int k = 0; k < STEPS; k++) {
      unsigned a[4];
      tqc_expand<KBITS>(tqc_key_codes<D, KBITS>(share[0], k), key_table, a[0], a[2]);
      tqc_expand<KBITS>(tqc_key_codes<D, KBITS>(share[1], k), key_table, a[1], a[3]);
      tqc_score(c, a, queries[k]);
    }
    #pragma unroll
    for (int i = 0; i < 2; i++) {
      const int h = 2 * u + i;
      const int t = start + h * 8 + g;
      const float scale = __shfl_sync(~0u, key_scale, h * 8 + g);
      #pragma unroll
      for (int e = 0; e < 2; e++) {
        float x = scale * fmaf(slope[e], tqc_float(c[2 * i + e]), base[e]);
        if (CAPPED) {
          x = factors[1] * LOG2E * tanhf(x / factors[1]);
        }
        bool seen = true;
        const int row = row_tile * ROWS + 2 * j + e;
        if (PADDED) {
          seen = seen && t >= padding[batch];
        }
        if (MASK == 1) {
          seen = seen && t <= place[0] + row % q_len;
        }
        if (MASK >= 2 && seen && t < tokens && 2 * j + e < ROWS && row < rows) {
          const auto entry = mask[
              batch * mask_strides[0] + (head * gqa + row / q_len) * mask_strides[1] +
              (row % q_len) * mask_strides[2] + t * mask_strides[3]];
          if (MASK == 2) {
            seen = static_cast<float>(entry) != 0.0f;
          } else {
            x += LOG2E * static_cast<float>(entry);
          }
        }
        s[h][e] = seen ? x : -INFINITY;
      }
    }
  }
  if (start + 32 > tokens) {
    #pragma unroll
    for (int h = 0; h < 4; h++) {
      s[h][0] = start + h * 8 + g < tokens ? s[h][0] : -INFINITY;
      s[h][1] = start + h * 8 + g < tokens ? s[h][1] : -INFINITY;
    }
  }

  // Online softmax, and weights times value scales as bytes of the tile's largest.
  float scales[4];
  #pragma unroll
  for (int h = 0; h < 4; h++) {
    scales[h] = __shfl_sync(~0u, value_scale, h * 8 + g);
  }
  float kept[2];
  float unit[2];
  #pragma unroll
  for (int e = 0; e < 2; e++) {
    float top = s[0][e];
    #pragma unroll
    for (int h = 1; h < 4; h++) {
      top = fmaxf(top, s[h][e]);
    }
    #pragma unroll
    for (int o = 4; o < 32; o *= 2) {
      top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
    }
    top = fmaxf(m[e], top);
    kept[e] = tqc_exp2(m[e] - top);
    m[e] = top;
    float sum = 0.0f;
    float most = 0.0f;
    #pragma unroll
    for (int h = 0; h < 4; h++) {
      const float p = tqc_exp2(s[h][e] - top);
      sum += p;
      s[h][e] = p * scales[h];
      most = fmaxf(most, s[h][e]);
    }
    l[e] = l[e] * kept[e] + sum;
    #pragma unroll
    for (int o = 4; o < 32; o *= 2) {
      most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
    }
    unit[e] = most * (1.0f / 255.0f);
    const float inverse = most > 0.0f ? __fdividef(255.0f, most) : 0.0f;
    unsigned char* row = reinterpret_cast<unsigned char*>(&weights[warp][(2 * j + e) * WEIGHTS]);
    #pragma unroll
    for (int h = 0; h < 4; h++) {
      row[h * 8 + g] = (unsigned char)__float_as_int(fmaf(s[h][e], inverse, TQC_LARGE));
    }
  }
  __syncwarp();
  const int source = g >> 1;
  const float kept_a = __shfl_sync(~0u, kept[0], source);
  const float kept_b = __shfl_sync(~0u, kept[1], source);
  const float unit_a = __shfl_sync(~0u, unit[0], source);
  const float unit_b = __shfl_sync(~0u, unit[1], source);
  const float row_kept = g & 1 ? kept_b : kept_a;
  const float row_unit = g & 1 ? unit_b : unit_a;

  const unsigned a0 = weights[warp][g * WEIGHTS + j];
  const unsigned a2 = weights[warp][g * WEIGHTS + 4 + j];
  const unsigned total = __dp4a(a0, 0x01010101u, __dp4a(a2, 0x01010101u, 0u));
  weight_sum = fmaf(row_unit, (float)total, weight_sum * row_kept);
  const bool rose = __any_sync(~0u, row_kept != 1.0f);
  // One half of the dimensions after the other: fewer registers, more warps.
  #pragma unroll
  for (int h = 0; h < HALVES; h++) {
    int sums[8][2];
    unsigned b[2][8];
    #pragma unroll
    for (int half = 0; half < 2; half++) {
      unsigned x[4];
      #pragma unroll
      for (int e = 0; e < 4; e++) {
        x[e] = tqc_value_codes<D, VBITS>(value_tile + value_word[h] + (16 * half + e) * VWORDS, g, h);
      }
      tqc_transpose(x);
      tqc_expand<VBITS>(x[0], value_table, b[half][0], b[half][2]);
      tqc_expand<VBITS>(x[1], value_table, b[half][4], b[half][6]);
      tqc_expand<VBITS>(x[2], value_table, b[half][1], b[half][3]);
      tqc_expand<VBITS>(x[3], value_table, b[half][5], b[half][7]);
    }
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      tqc_mix(sums[i], a0, a2, b[0][i], b[1][i]);
    }
    if (rose) {
      #pragma unroll
      for (int i = 0; i < 8; i++) {
        acc[h][i][0] *= row_kept;
        acc[h][i][1] *= row_kept;
      }
    }
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      acc[h][i][0] = fmaf(row_unit, tqc_float(sums[i][0]), acc[h][i][0]);
      acc[h][i][1] = fmaf(row_unit, tqc_float(sums[i][1]), acc[h][i][1]);
    }
  }
  __syncwarp();  // the tile and the weights are read
  fetch(chunk + STAGES * WARPS, stage);
  stage = stage + 1 == STAGES ? 0 : stage + 1;
}
