// Block dequantize: packed words to vectors in the rotated domain.
//
//   words   uint32  [B, H, T, W]   u32le/1, any strides
//   scales  uint16  [B, H, T, 1]   unsigned float 6+10; GROUP > 0: float16 [B, H, T, groups]
//   biases                         GROUP > 0: float16 [B, H, T, groups]; SIGNS: as scales, that of
//                                  the signs; otherwise unused
//   levels  float32 [tables]       of BITS + 1 bits (if WIDE > 0), then of BITS; or points, SPAN
//                                  values each; GROUP > 0: unused
//   out     float32 [B, H, T, D]   SIGNS: [B, H, T, 2 D], a scaled 1 or -1 for every sign
//   D, BITS, WIDE, GROUP           values a vector, narrow width, codes that are a bit wider,
//                                  codes a group
//   SPAN, STATES                   values a code; of a trellis, else 0 (share.h)
//   SIGNS                          1: a sign of one bit a value follows the codes
//   LANES                          threads a vector
//
// Grid (T * LANES, H, B). A thread takes every LANES-th value of one vector, so that neighbours
// write neighbouring floats. Strides come from the arrays: a block is a slice of the cache's
// buffer along T, and copying it first would move every packed byte twice more.

constexpr int SIZE = (1 + SIGNS) * D;
const uint3 at = thread_position_in_grid;
const uint heads = words_shape[1];
const uint tokens = words_shape[2];
const uint token = at.x / uint(LANES);
const uint lane = at.x % uint(LANES);

// CUDA rounds the grid up to whole blocks.
if (token < tokens) {
  auto row = words + (at.z * words_strides[0] + at.y * words_strides[1] + token * words_strides[2]);
  auto scale = scales + (at.z * scales_strides[0] + at.y * scales_strides[1] + token * scales_strides[2]);
  auto bias = biases + (at.z * biases_strides[0] + at.y * biases_strides[1] + token * biases_strides[2]);
  auto vector = out + (int64_t(at.z * heads + at.y) * tokens + token) * SIZE;
  const int64_t step = words_strides[3];
  const float factor = GROUP == 0 ? tq_side(scale[0]) : 0.0f;
  for (uint i = lane; i < uint(D); i += uint(LANES)) {
    const uint index = tq_point<D, BITS, WIDE, SPAN, STATES>(row, step, i);
    if (GROUP == 0) {
      vector[i] = levels[index * SPAN + i % SPAN] * factor;
    } else {
      const uint group = i / uint(GROUP > 0 ? GROUP : 1);
      vector[i] = tq_float(index) * tq_side(scale[group * scales_strides[3]]) +
                  tq_side(bias[group * biases_strides[3]]);
    }
    if (SIGNS) {
      const uint sign = tq_code(row, step, D * BITS + WIDE + i, 1);
      vector[D + i] = sign != 0 ? tq_side(bias[0]) : -tq_side(bias[0]);
    }
  }
}
