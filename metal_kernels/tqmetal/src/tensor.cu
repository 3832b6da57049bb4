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
// Grid of blocks (S * tiles of ROWS, H, B), WARPS warps each. The body goes on in tensor_loop.cu and
// tensor_merge.cu. A warp takes a tile of 32 tokens at a time, which was copied to shared memory
// while it worked on the tiles before. Codes become unsigned bytes by one byte permutation (a table
// of 8 entries is two registers), and tensor cores multiply them with queries and weights of 8 bits:
// the sums are exact integers. The last block of a head to arrive merges its splits, so that there
// is no second launch.

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
