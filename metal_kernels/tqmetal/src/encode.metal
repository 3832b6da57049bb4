// Encode: rotate, quantize and pack new keys and values, both in one dispatch.
//
//   keys          [B, H, n, KD]           floats of any type and strides; so are values
//   key_signs     float32 [KD]            signs over sqrt(KD); unused unless KROTATED
//   key_levels    float32 [tables]        of KBITS + 1 bits (if KWIDE > 0), then of KBITS
//   key_bounds    float32 [tables]        boundaries of each table's positive half, then infinity;
//                                         value_* are alike
//   limits        float32 [2]             the largest values of the types of keys and values
//   key_words     uint32 [B, H, n, KW]    u32le/1; key_scale uint16 [B, H, n]; value_* are alike
//   KD, KBITS, KWIDE, KPOLICY, KROTATED, KLANES, KW; VD, ...     see encode.h
//   THREADS                               threads a threadgroup
//
// Grid of threadgroups (vectors over a threadgroup's, 2): keys, then values.

constexpr int KTEAMS = THREADS / KLANES;
constexpr int VTEAMS = THREADS / VLANES;
constexpr int CODES = KTEAMS * KD > VTEAMS * VD ? KTEAMS * KD : VTEAMS * VD;
constexpr int KLEVELS = TQ_LEVELS(KBITS, KWIDE, 0);
constexpr int VLEVELS = TQ_LEVELS(VBITS, VWIDE, 0);
constexpr int LEVELS = KLEVELS > VLEVELS ? KLEVELS : VLEVELS;

TQ_SHARED float levels[LEVELS];
TQ_SHARED float bounds[LEVELS / 2];
TQ_SHARED uint8_t codes[CODES];
TQ_SHARED uint shares[THREADS];

const uint thread_id = thread_index_in_threadgroup;
const bool for_keys = threadgroup_position_in_grid.y == 0;
const int heads = keys_shape[1];
const int tokens = keys_shape[2];
const int count = keys_shape[0] * heads * tokens;

for (int i = int(thread_id); i < (for_keys ? KLEVELS : VLEVELS); i += THREADS) {
  levels[i] = for_keys ? key_levels[i] : value_levels[i];
  if (i < (for_keys ? KLEVELS : VLEVELS) / 2) {
    bounds[i] = for_keys ? key_bounds[i] : value_bounds[i];
  }
}
TQ_BARRIER;

// Every thread reaches the barriers: teams beyond the last vector encode it again.
const uint lanes = for_keys ? KLANES : VLANES;
const uint team = thread_id / lanes;
const uint lane = thread_id % lanes;
const int vector = int(threadgroup_position_in_grid.x * (for_keys ? KTEAMS : VTEAMS) + team);
const int at = vector < count ? vector : count - 1;
const int batch = at / tokens / heads;
const int head = at / tokens % heads;
const int token = at % tokens;
float scale = 0.0f;
if (for_keys) {
  scale = tq_encode<KD, KBITS, KWIDE, KPOLICY, KROTATED, KLANES>(
      keys + (batch * keys_strides[0] + head * keys_strides[1] + token * keys_strides[2]),
      keys_strides[3], key_signs, levels, bounds, limits[0], lane, codes + team * KD,
      shares + team * KLANES);
} else {
  scale = tq_encode<VD, VBITS, VWIDE, VPOLICY, VROTATED, VLANES>(
      values + (batch * values_strides[0] + head * values_strides[1] + token * values_strides[2]),
      values_strides[3], value_signs, levels, bounds, limits[1], lane, codes + team * VD,
      shares + team * VLANES);
}
TQ_BARRIER;

if (vector < count) {
  if (for_keys) {
    for (uint k = lane; k < uint(KW); k += lanes) {
      key_words[int64_t(vector) * KW + k] = TQ_JOINED(KBITS, KWIDE, KD / KLANES)
          ? tq_joined_word<KD, KBITS, KLANES>(shares + team * KLANES, k)
          : tq_word<KD, KBITS, KWIDE>(codes + team * KD, k);
    }
    if (lane == 0) {
      key_scale[vector] = static_cast<uint16_t>(tq_scale_code(scale));
    }
  } else {
    for (uint k = lane; k < uint(VW); k += lanes) {
      value_words[int64_t(vector) * VW + k] = TQ_JOINED(VBITS, VWIDE, VD / VLANES)
          ? tq_joined_word<VD, VBITS, VLANES>(shares + team * VLANES, k)
          : tq_word<VD, VBITS, VWIDE>(codes + team * VD, k);
    }
    if (lane == 0) {
      value_scale[vector] = static_cast<uint16_t>(tq_scale_code(scale));
    }
  }
}
