// Block dequantize: packed words to vectors in the rotated domain.
//
//   words   uint32  [B, H, T, W]   u32le/1, any strides
//   scale   uint16  [B, H, T]      unsigned float 6+10, any strides
//   levels  float32 [tables]       of BITS + 1 bits (if WIDE > 0), then of BITS
//   out     float32 [B, H, T, D]
//   D, BITS, WIDE                  codes a vector, narrow width, codes that are a bit wider
//   LANES                          threads a vector
//
// Grid (T * LANES, H, B). A thread takes every LANES-th code of one vector, so that neighbours
// write neighbouring floats. Strides come from the arrays: a block is a slice of the cache's
// buffer along T, and copying it first would move every packed byte twice more.

const uint3 at = thread_position_in_grid;
const uint heads = words_shape[1];
const uint tokens = words_shape[2];
const uint token = at.x / uint(LANES);
const uint lane = at.x % uint(LANES);

// CUDA rounds the grid up to whole blocks.
if (token < tokens) {
  auto row = words + (at.z * words_strides[0] + at.y * words_strides[1] + token * words_strides[2]);
  const float factor = tq_scale(
      scale[at.z * scale_strides[0] + at.y * scale_strides[1] + token * scale_strides[2]]);
  auto vector = out + (int64_t(at.z * heads + at.y) * tokens + token) * D;
  for (uint i = lane; i < uint(D); i += uint(LANES)) {
    vector[i] = levels[tq_level<BITS, WIDE>(row, words_strides[3], i)] * factor;
  }
}
