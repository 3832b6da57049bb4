// Decode on NVIDIA tensor cores: attention of up to 8 rows over packed keys and values in one launch.
//
//   q             [B, Hq, L, D]             floats of any type and strides
//   key_signs     float32 [D]               signs over sqrt(D), to rotate q as keys are
//   key_words     uint32  [B, H, T, W]      u32le/1, whole rows, any strides of B and H and T
//   key_scales    uint16  [B, H, T, 1]
//   value_*                                 the same for values; value_signs rotate the output back
//   tables        uint32  [8]               levels as bytes: keys 0-7, keys 8-15, values alike
//   affine        float32 [4]               level = step * byte + low: key step, low, value step, low
//   mask, padding, place, factors           as in decode.metal
//   arrived       int32   [B * H * tiles]   zeros, and zeros again afterwards
//   parts         float32 [B, H, tiles, S, ROWS, D], and parts_ml [.., ROWS, 2]: scratch
//   o             float32 [B, Hq, L, D], m and l float32 [B, Hq, L]
//
//   D                                       64 or 128
//   KBITS, VBITS                            2, 3 or 4
//   ROWS                                    queries of a KV head that share one unpacking, up to 8
//   STAGES                                  tiles of 32 tokens that a warp has on their way
//   MASK, PADDED, CAPPED                    as in decode.metal
//
// Grid of blocks (S * tiles of ROWS, H, B), WARPS warps each. A warp takes a tile of 32 tokens at a
// time, which was copied to shared memory while it worked on the tiles before. Codes become unsigned bytes by one byte permutation (a table of 8 entries is two registers), and tensor
// cores multiply them with queries and weights of 8 bits: the sums are exact integers. The last
// block of a head to arrive merges its splits, so that there is no second launch.

constexpr int WARPS = 4;
constexpr int STEPS = D / 32;
constexpr int HALVES = D / 64;
constexpr int KWORDS = D / 32 * KBITS;
constexpr int VWORDS = D / 32 * VBITS;
constexpr int KSHARE = (D / 4 * KBITS + 31) / 32;
constexpr int RING = STAGES * 32 * (KWORDS + VWORDS);  // words of a warp's ring
constexpr int WEIGHTS = 12;                            // words a row of 32 bytes: no two lanes meet in a bank
constexpr float LOG2E = 1.4426950408889634f;

// After the loop the rings' place is taken by the warps' outputs.
constexpr int SPACE = RING > ROWS * D ? RING : ROWS * D;
__shared__ __align__(16) unsigned space[WARPS * SPACE];
__shared__ float turned[ROWS][D];
__shared__ __align__(16) unsigned weights[WARPS][8 * WEIGHTS];
__shared__ float maxima[WARPS][8];
__shared__ float totals[WARPS][8];
__shared__ float shares[ROWS][128];
__shared__ int is_last;

const int thread_id = threadIdx.x;
const int warp = thread_id >> 5;
const int lane = thread_id & 31;
const int g = lane >> 2;  // row of a fragment
const int j = lane & 3;   // column group of a fragment
const int head = blockIdx.y;
const int batch = blockIdx.z;

const int tokens = key_words_shape[2];
const int q_len = q_shape[2];
const int gqa = q_shape[1] / key_words_shape[1];
const int rows = gqa * q_len;
const int row_tiles = (rows + ROWS - 1) / ROWS;
const int splits = gridDim.x / row_tiles;
const int row_tile = blockIdx.x % row_tiles;
const int split = blockIdx.x / row_tiles;

// Tiles of 32 tokens travel while the queries are prepared.
const unsigned key_table[4] = {tables[0], tables[1], tables[2], tables[3]};
const unsigned value_table[4] = {tables[4], tables[5], tables[6], tables[7]};
const auto keys = key_words + (batch * key_words_strides[0] + head * key_words_strides[1]);
const auto values = value_words + (batch * value_words_strides[0] + head * value_words_strides[1]);
const auto kscales = key_scales + (batch * key_scales_strides[0] + head * key_scales_strides[1]);
const auto vscales = value_scales + (batch * value_scales_strides[0] + head * value_scales_strides[1]);
unsigned* ring = space + warp * SPACE;
const int chunks = (tokens + 31) / 32;
const int first_chunk = (long long)chunks * split / splits;
const int end_chunk = (long long)chunks * (split + 1) / splits;
auto fetch = [&](int chunk, int stage) {
  if (chunk < end_chunk) {
    unsigned* slot = ring + stage * (RING / STAGES);
    tqc_fetch<KWORDS, false>(slot, keys, chunk * 32, tokens, lane);
    tqc_fetch<VWORDS, true>(slot + 32 * KWORDS, values, chunk * 32, tokens, lane);
  }
  tqc_commit();  // an empty group keeps the count
};
#pragma unroll
for (int i = 0; i < STAGES; i++) {
  fetch(first_chunk + warp + i * WARPS, i);
}

// Queries: rotated, times scale and log2(e), as signed bytes with one step a row.
for (int r = warp; r < ROWS; r += WARPS) {
  constexpr int n = D / 32;
  const int row = row_tile * ROWS + r;
  float x[n];
  #pragma unroll
  for (int i = 0; i < n; i++) {
    const int d = lane * n + i;
    x[i] = 0.0f;
    if (row < rows) {
      x[i] = static_cast<float>(q[
          batch * q_strides[0] + (head * gqa + row / q_len) * q_strides[1] +
          (row % q_len) * q_strides[2] + d * q_strides[3]]) * key_signs[d];
    }
  }
  tq_hadamard<n, 32>(x, (uint)lane);
  #pragma unroll
  for (int i = 0; i < n; i++) {
    turned[r][lane * n + i] = x[i] * factors[0] * (CAPPED ? 1.0f : LOG2E);
  }
}
__syncthreads();

unsigned queries[STEPS][2];
float query_step = 0.0f;
float query_sum = 0.0f;
{
  float most = 0.0f;
  if (g < ROWS) {
    for (int i = 0; i < D / 4; i++) {
      most = fmaxf(most, fabsf(turned[g < ROWS ? g : 0][j * (D / 4) + i]));
    }
  }
  most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
  most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
  const float inverse = most > 0.0f ? 127.0f / most : 0.0f;
  query_step = most / 127.0f;
  int sum = 0;
  #pragma unroll
  for (int s = 0; s < STEPS; s++) {
    #pragma unroll
    for (int h = 0; h < 2; h++) {
      unsigned bytes = 0;
      #pragma unroll
      for (int e = 0; e < 4; e++) {
        const int d = tqc_key_dim<D, KBITS>(j, s, 4 * h + e);
        const int x = g < ROWS ? __float2int_rn(turned[g < ROWS ? g : 0][d] * inverse) : 0;
        sum += x;
        bytes |= (unsigned)(x & 255) << (8 * e);
      }
      queries[s][h] = bytes;
    }
  }
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  query_sum = (float)sum;
}
// Scores come out in lanes that hold two rows, 2j and 2j + 1: score = scale * (slope * dot + base).
float slope[2];
float base[2];
#pragma unroll
for (int c = 0; c < 2; c++) {
  const float step = __shfl_sync(~0u, query_step, (2 * j + c) * 4);
  slope[c] = step * affine[0];
  base[c] = step * affine[1] * __shfl_sync(~0u, query_sum, (2 * j + c) * 4);
}
__syncthreads();

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
