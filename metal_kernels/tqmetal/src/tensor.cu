// Decode on NVIDIA tensor cores: attention of up to 8 rows over packed keys and values in one launch.
//
//   q             [B, Hq, L, D]             floats of any type and strides
//   key_words     uint32  [B, H, T, W]      u32le/1, rows of a head one after the other, any strides of B and H
//   key_scales    uint16  [B, H, T]         any strides
//   value_*                                 the same for values
//   constants     uint32  [16 + 2 D]        three tables of eight levels as bytes for keys, three for values
//                                           (tensor_tables.py); then floats: step of the keys' levels
//                                           times the logits' factor, step of the values' levels, soft-cap,
//                                           signs over sqrt(D) by which q is rotated as keys are, those
//                                           that rotate o back; the logits' factor alone
//                                           PAIRS: then the points of tensor_pairs.h, of keys and of values
//   arrived       int32   [B * H * tiles]   zeros, and zeros again afterwards
//   mask, padding, place                    as in decode.metal; only those that are read
//   AROUND: arrays of tensor_around.cu      what a cache has beside the packed tokens
//   parts         float32                   scratch: [B, H, tiles, S, ROWS, D], then [.., ROWS, 4]
//   FINISHED: out [B, Hq, L, D], normalized, of any floating type
//   otherwise: o float32 [B, Hq, L, D], m_out and l_out float32 [B, Hq, L]
//
//   D                                       64 or 128
//   KBITS, VBITS                            of a code: 2, 3 or 4; of two values 3 to 8
//   KSTATES, VSTATES                        of a trellis, 4 or 8; 0: codes are numbers of levels
//   PAIRS: KSPAN, VSPAN                     values a code, 1 or 2; one of them is 2
//   GQA, Q_LEN                              query heads of a KV head; queries a row
//   ROWS                                    of these GQA * Q_LEN, how many share one unpacking, up to 8
//   WARPS                                   a block
//   MASK, PADDED, CAPPED                    as in decode.metal
//
// Grid of blocks (S * tiles of ROWS, H, B). The body goes on in tensor_loop.cu and tensor_merge.cu.
// A warp takes 32 tokens at a time, whose keys were copied to shared memory while it worked on the values
// before, and so on. Codes become signed bytes by byte permutations (a table of 8 entries is two registers), and
// tensor cores multiply them with queries and weights of 8 bits: the sums are exact integers. The last
// block of a head to arrive merges its splits, so that there is no second launch.

#ifndef PAIRS
constexpr int KSPAN = 1;
constexpr int VSPAN = 1;
#endif
constexpr bool PAIRED = ROWS <= 4;       // columns 4 to 7 of a product repeat 0 to 3
constexpr int GROUPS = PAIRED ? 1 : 2;   // of four rows
constexpr int HELD = PAIRED ? 2 : 4;     // tokens of 32 whose scores a lane holds, of two rows
constexpr int TOKENS = 32;               // that a warp takes at a time
constexpr int STEPS = D / 32;            // a lane's key, eight codes each
constexpr int PIECES = D / 64;           // a lane's value, eight codes each
constexpr int KTABLES = KSPAN == 2 ? 1 : tqc_tables(KBITS, KSTATES);
constexpr int VTABLES = VSPAN == 2 ? 1 : tqc_tables(VBITS, VSTATES);
constexpr int KWORDS = D / 32 * KBITS / KSPAN;
constexpr int VWORDS = D / 32 * VBITS / VSPAN;
constexpr int HELPERS = WARPS % ROWS ? 1 : WARPS / ROWS;  // warps a row when splits are merged
constexpr float LOG2E = 1.4426950408889634f;
#ifndef SINKS
#define SINKS 0  // dense tokens before the packed ones, with which a mask begins
#endif

// After the loop the place of the tokens is taken by the warps' outputs.
constexpr int TILE = TOKENS * (KWORDS + VWORDS);
constexpr int SPACE = TILE > ROWS * D ? TILE : ROWS * D;
__shared__ __align__(1024) unsigned space[WARPS * SPACE];  // pieces of 512 bytes are copied at once
__shared__ __align__(16) unsigned turned[8][D / 4];  // queries, rotated, as bytes
__shared__ float query_steps[8];
__shared__ __align__(16) unsigned weights[WARPS][8 * 8];
__shared__ float tops[WARPS][8];    // log2 of the unit of o and l
__shared__ float totals[WARPS][8];
__shared__ float scores[WARPS][8];  // largest, times log2(e)
__shared__ float shares[WARPS][128];
__shared__ __align__(16) unsigned tables[8][16];
__shared__ int is_last;
#ifdef PAIRS
constexpr int KPOINTS = tqc_point_words(KSPAN, KBITS, KSTATES);
constexpr int VPOINTS = tqc_point_words(VSPAN, VBITS, VSTATES);
__shared__ __align__(512) unsigned points[2][TQC_POINTS / 4];  // so aligned, an offset is ORed in
#endif

const int thread_id = threadIdx.x;
const int warp = thread_id >> 5;
const int lane = thread_id & 31;
const int g = lane >> 2;  // row of a fragment
const int j = lane & 3;   // column group of a fragment
const int head = blockIdx.y;
const int batch = blockIdx.z;

const int tokens = key_words_shape[2];
constexpr int rows = GQA * Q_LEN;
constexpr int row_tiles = (rows + ROWS - 1) / ROWS;
const int splits = gridDim.x / row_tiles;
const int row_tile = blockIdx.x % row_tiles;
const int split = blockIdx.x / row_tiles;

// Tokens travel while the queries are prepared. The last ones are taken together with some before them.
const unsigned* key_tile = space + warp * SPACE;
const unsigned* value_tile = key_tile + TOKENS * KWORDS;
const int chunks = (tokens + TOKENS - 1) / TOKENS;
const int end_chunk = (long long)chunks * (split + 1) / splits;
int chunk = (long long)chunks * split / splits + warp;
const int last_start = max(tokens - TOKENS, 0);
using KeyRows = tqc_rows<TOKENS, KWORDS, false>;
using ValueRows = tqc_rows<TOKENS, VWORDS, VWORDS == 16>;
const unsigned* keys = key_words + (batch * key_words_strides[0] + head * key_words_strides[1]);
const unsigned* values = value_words + (batch * value_words_strides[0] + head * value_words_strides[1]);
const unsigned keys_to = (unsigned)__cvta_generic_to_shared(key_tile) + KeyRows::place(lane);
const unsigned values_to = (unsigned)__cvta_generic_to_shared(value_tile) + ValueRows::place(lane);
if (tokens < TOKENS) {
  if (chunk < end_chunk) {
    KeyRows::copy_few(keys_to, keys, tokens, lane);
    ValueRows::copy_few(values_to, values, tokens, lane);
  }
  tqc_commit();
  tqc_commit();
}
keys = tqc_keep(keys + lane * KeyRows::PIECE);
values = tqc_keep(values + lane * ValueRows::PIECE);
auto fetch_keys = [&](int chunk) {
  if (chunk < end_chunk) {
    KeyRows::copy(keys_to, keys + (long long)min(chunk * TOKENS, last_start) * KWORDS);
  }
  tqc_commit();  // an empty group keeps the count
};
auto fetch_values = [&](int chunk) {
  if (chunk < end_chunk) {
    ValueRows::copy(values_to, values + (long long)min(chunk * TOKENS, last_start) * VWORDS);
  }
  tqc_commit();
};
if (tokens >= TOKENS) {
  fetch_keys(chunk);
  fetch_values(chunk);
}

const float* numbers = reinterpret_cast<const float*>(constants) + 12;
const float* key_signs = numbers + 3;
const float* value_signs = key_signs + D;
#ifdef AROUND
look_around(numbers, batch, head, row_tile);
#endif
// Queries: rotated, as signed bytes with one step a row.
for (int r = warp; r < (PAIRED ? 4 : 8); r += WARPS) {
  constexpr int n = D / 32;
  const int row = row_tile * ROWS + r;
  float x[n];
  float most = 0.0f;
  #pragma unroll
  for (int i = 0; i < n; i++) {
    x[i] = 0.0f;
    if (r < ROWS && row < rows) {
      const int d = lane * n + i;
      x[i] = static_cast<float>(q[
          batch * q_strides[0] + (head * GQA + row / Q_LEN) * q_strides[1] +
          (row % Q_LEN) * q_strides[2] + d * q_strides[3]]) * key_signs[d];
      #ifdef KEY_GAIN
      x[i] /= static_cast<float>(key_gain[
          batch * key_gain_strides[0] + head * key_gain_strides[1] + d * key_gain_strides[3]]);
      #endif
    }
  }
  tqc_hadamard<n>(x, lane);
  #pragma unroll
  for (int i = 0; i < n; i++) {
    most = fmaxf(most, fabsf(x[i]));
  }
  #pragma unroll
  for (int o = 1; o < 32; o *= 2) {
    most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
  }
  const float inverse = most > 0.0f ? 127.0f / most : 0.0f;
  #pragma unroll
  for (int i = 0; i < n; i++) {
    reinterpret_cast<signed char*>(turned[r])[tqc_key_place<D, KBITS>(lane * n + i)] =
        (signed char)__float2int_rn(x[i] * inverse);
  }
  if (lane == 0) {
    query_steps[r] = most * (1.0f / 127.0f);
  }
}
#ifdef PAIRS
for (int i = thread_id; i < KPOINTS + VPOINTS; i += 32 * WARPS) {
  points[i >= KPOINTS][i < KPOINTS ? i : i - KPOINTS] = constants[16 + 2 * D + i];
}
#endif
if (thread_id < 8 * 16) {
  const int i = thread_id % 16;
  tables[thread_id / 16][i] = i < 12 ? constants[i] : TQC_ZERO;
}
__syncthreads();

// Every lane has its tables from elsewhere: what is known to be one value for all is held as such, and
// each permutation would copy it first.
unsigned key_table[6];
unsigned value_table[6];
int zeros[4];
#pragma unroll
for (int i = 0; i < 6; i++) {
  key_table[i] = tables[g][i];
  value_table[i] = tables[g][6 + i];
}
#ifdef PAIRS
if (KSPAN == 2) {
  key_table[0] = (unsigned)__cvta_generic_to_shared(points);
}
if (VSPAN == 2) {
  value_table[0] = (unsigned)__cvta_generic_to_shared(points);
}
#endif
#pragma unroll
for (int i = 0; i < 4; i++) {
  zeros[i] = tables[g][12 + i];
}
unsigned queries[STEPS][2];
#pragma unroll
for (int s = 0; s < STEPS; s++) {
  queries[s][0] = turned[PAIRED ? g % 4 : g][j * (D / 16) + 2 * s];
  queries[s][1] = turned[PAIRED ? g % 4 : g][j * (D / 16) + 2 * s + 1];
}
// Scores come out in lanes that hold two rows, 2j and 2j + 1.
const int two_rows = PAIRED ? 2 * (j % 2) : 2 * j;
float slope[2];
#pragma unroll
for (int e = 0; e < 2; e++) {
  slope[e] = query_steps[two_rows + e] * numbers[0] * (CAPPED ? 1.0f : LOG2E);
}
