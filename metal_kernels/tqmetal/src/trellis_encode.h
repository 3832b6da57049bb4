// Viterbi's algorithm for one vector: what branches cost, a step of all paths, the way back.
//
// Before symbol t a path is in the state of the low bits before it, the newest in bit 0. Of STATES
// states, `state` is reached from state / 2 and from that + STATES / 2, the older one; the label of
// the second way is that of the first with bit 1 flipped (tqplugins.trellis.layout).

// A cost above that of any path.
#define TQ_FAR 1e30f

template <int STATES>
TQ_FN uint tq_step_label(uint history, uint low) {
  return STATES == 4 ? ((low ^ (history >> 1)) << 1) | (history & 1)
                     : ((low ^ history ^ (history >> 2)) & 1) << 1 | ((history >> 1) & 1);
}

// Number of a point in the table (trellis.h).
template <int BITS>
TQ_FN uint tq_number(uint upper, uint label) {
  return ((label >> 1) << BITS) | (upper << 1) | (label & 1);
}

// Squared distance of a symbol, `size` times x, to the nearest point of each of the 4 labels.
template <int BITS, int SPAN, typename Values, typename Points, typename Costs>
TQ_FN void tq_branch_costs(Values x, float size, Points points, Costs cost) {
  float symbol[SPAN];
  TQ_UNROLL
  for (int j = 0; j < SPAN; j++) {
    symbol[j] = x[j] * size;
  }
  TQ_UNROLL
  for (int label = 0; label < 4; label++) {
    cost[label] = TQ_FAR;
  }
  for (uint upper = 0; upper < (1u << (BITS - 1)); upper++) {
    TQ_UNROLL
    for (uint label = 0; label < 4; label++) {
      float gap = 0.0f;
      TQ_UNROLL
      for (int j = 0; j < SPAN; j++) {
        const float part = symbol[j] - points[tq_number<BITS>(upper, label) * SPAN + j];
        gap = fma(part, part, gap);
      }
      cost[label] = gap < cost[label] ? gap : cost[label];
    }
  }
}

// Which of the points of a label is nearest to the symbol; the first of equals.
template <int BITS, int SPAN, typename Values, typename Points>
TQ_FN uint tq_nearest_point(Values x, float size, Points points, uint label) {
  float least = TQ_FAR;
  uint nearest = 0;
  for (uint upper = 0; upper < (1u << (BITS - 1)); upper++) {
    float gap = 0.0f;
    TQ_UNROLL
    for (int j = 0; j < SPAN; j++) {
      const float part = x[j] * size - points[tq_number<BITS>(upper, label) * SPAN + j];
      gap = fma(part, part, gap);
    }
    nearest = gap < least ? upper : nearest;
    least = gap < least ? gap : least;
  }
  return nearest;
}

// Carries the least cost of a path to each state over a symbol. Bit `state` of what is returned:
// whether the older of the two states before it is the better.
template <int STATES, typename Totals, typename Costs>
TQ_FN uint tq_step(Totals total, Costs cost) {
  float after[STATES];
  uint came = 0;
  TQ_UNROLL
  for (int state = 0; state < STATES; state++) {
    const int before = state / 2;
    const uint label = tq_step_label<STATES>(before, state & 1);
    const float one = total[before] + cost[label];
    const float two = total[before + STATES / 2] + cost[label ^ 2];
    came |= two < one ? 1u << state : 0u;
    after[state] = two < one ? two : one;
  }
  TQ_UNROLL
  for (int state = 0; state < STATES; state++) {
    total[state] = after[state];
  }
  return came;
}

// Least cost of any path over T symbols, whatever states it starts and ends in.
template <int T, int BITS, int SPAN, int STATES, typename Values, typename Points>
TQ_FN float tq_least_cost(Values x, float size, Points points) {
  float total[STATES];
  float cost[4];
  TQ_UNROLL
  for (int state = 0; state < STATES; state++) {
    total[state] = 0.0f;
  }
  for (int t = 0; t < T; t++) {
    tq_branch_costs<BITS, SPAN>(x + t * SPAN, size, points, cost);
    tq_step<STATES>(total, cost);
  }
  float least = total[0];
  TQ_UNROLL
  for (int state = 1; state < STATES; state++) {
    least = total[state] < least ? total[state] : least;
  }
  return least;
}

// Least cost of a path from `home` to `home`; `came` [T, STATES] gets what tq_step returns.
//
//   costs   [T, 4]
template <int T, int STATES, typename Costs, typename Came>
TQ_FN float tq_walk_home(Costs costs, uint home, Came came) {
  float total[STATES];
  float cost[4];
  TQ_UNROLL
  for (uint state = 0; state < uint(STATES); state++) {
    total[state] = state == home ? 0.0f : TQ_FAR;
  }
  for (int t = 0; t < T; t++) {
    TQ_UNROLL
    for (int label = 0; label < 4; label++) {
      cost[label] = costs[4 * t + label];
    }
    came[t * STATES + home] = static_cast<uint8_t>(tq_step<STATES>(total, cost));
  }
  float end = TQ_FAR;
  TQ_UNROLL
  for (uint state = 0; state < uint(STATES); state++) {
    end = state == home ? total[state] : end;
  }
  return end;
}

// Of the team's lanes, `of` the one whose error is least, the smallest of equals.
template <int LANES>
TQ_FN float tq_least_of_team(float error, float of) {
  TQ_UNROLL
  for (uint lanes = LANES / 2; lanes > 0; lanes /= 2) {
    const float other_error = simd_shuffle_xor(error, lanes);
    const float other_of = simd_shuffle_xor(of, lanes);
    const bool better = other_error < error || (other_error == error && other_of < of);
    error = better ? other_error : error;
    of = better ? other_of : of;
  }
  return of;
}
