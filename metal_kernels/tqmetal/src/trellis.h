// Codes of a trellis: a low bit u_t of every symbol t, all of them first, then its other bits.
//
// The number of a symbol's point is 4 * other bits + label, and the label of two bits is
//
//   STATES = 4:  2 (u_t ^ u_(t-2)) + u_(t-1)
//   STATES = 8:  2 (u_t ^ u_(t-1) ^ u_(t-3)) + u_(t-2)
//
// with indices modulo T, the symbols of a vector (Ungerboeck 1982; tqplugins.trellis.layout).
// Labels of a share are made together: low bits are spread to every other bit of a word, and
// shifts and exclusive ors of words make 16 labels at once.

// Bits 0 to 15 of x at the even bits of a word.
TQ_FN uint tq_spread(uint x) {
  x = (x & 0xffu) | ((x << 8) & 0xff0000u);
  x = (x | (x << 4)) & 0x0f0f0f0fu;
  x = (x | (x << 2)) & 0x33333333u;
  return (x | (x << 1)) & 0x55555555u;
}

// Low bits of the N symbols from `first`, a multiple of N, on, and of the three before, the last in
// bit 2.
template <int T, int N, typename Words, typename Share>
TQ_FN void tq_load_low(Words words, int64_t stride, uint first, Share share) {
  uint low[TQ_REGISTERS(1, 0, N, 0)];
  tq_load<1, 0, 0, N>(words, stride, first, low);
  share[0] = low[0];
  if (N >= 3) {
    const uint at = first > 0 ? first - 3 : T - 3;
    // Behind a multiple of four no word ends within three bits.
    share[1] = N % 4 == 0 ? (words[at / 32 * stride] >> (at % 32)) & 7 : tq_code(words, stride, at, 3);
  } else {
    share[1] = 0;
    TQ_UNROLL
    for (uint back = 1; back <= 3; back++) {
      share[1] |= tq_code(words, stride, (first + T - back) % T, 1) << (3 - back);
    }
  }
}

// Labels of N symbols, 16 a register, from what tq_load_low read, in its place.
template <int STATES, int N, typename Share>
TQ_FN void tq_label(Share share) {
  if (STATES == 0) {
    return;
  }
  const uint low = share[0];
  const uint before = share[1];
  if (N <= 13) {
    // The three before take the place of the first.
    const uint x = tq_spread((low << 3) | before);
    share[0] = STATES == 4 ? ((x >> 5) ^ (x >> 1)) | (x >> 4)
                           : ((x >> 5) ^ (x >> 3) ^ (x << 1)) | (x >> 2);
    return;
  }
  uint last = ((before << 28) & 0x40000000u) | ((before << 27) & 0x10000000u) |
              ((before << 26) & 0x04000000u);
  TQ_UNROLL
  for (int k = 0; k < (N + 15) / 16; k++) {
    const uint x = tq_spread(low >> (16 * k));
    share[k] = STATES == 4
        ? ((x << 1) ^ tq_funnel(last, x, 27)) | tq_funnel(last, x, 30)
        : ((x << 1) ^ tq_funnel(last, x, 29) ^ tq_funnel(last, x, 25)) | tq_funnel(last, x, 28);
    last = x;
  }
}

// A lane's share of a vector of DIM values, of any kind; labels are still to be made.
template <
    int DIM, int BITS, int WIDE, int SPAN, int STATES, int N, typename Words, typename Share>
TQ_FN void tq_load_share(Words words, int64_t stride, uint lane, Share share) {
  const uint first = lane * (N / SPAN);
  if (STATES > 0) {
    tq_load_low<DIM / SPAN, N / SPAN>(words, stride, first, share);
  }
  tq_load<BITS, WIDE, TQ_FIRST(DIM, SPAN, STATES), N / SPAN>(
      words, stride, first, share + TQ_LABELS(STATES));
}

// Number of the point of symbol t alone, of T.
template <int T, int BITS, int STATES, typename Words>
TQ_FN uint tq_symbol(Words words, int64_t stride, uint t) {
  // u_(t-3) to u_t; only the first three are read in two parts.
  const uint past = t < 3 ? 3 - t : 0;
  uint bits = tq_code(words, stride, t + past - 3, 4 - past) << past;
  if (past > 0) {
    bits |= tq_code(words, stride, T - past, past);
  }
  const uint label = STATES == 4
      ? ((((bits >> 3) ^ (bits >> 1)) & 1) << 1) | ((bits >> 2) & 1)
      : ((((bits >> 3) ^ (bits >> 2) ^ bits) & 1) << 1) | ((bits >> 1) & 1);
  return label | (BITS > 0 ? tq_code(words, stride, T + t * BITS, BITS) << 2 : 0u);
}

// Number of the point that value i of a vector belongs to.
template <int DIM, int BITS, int WIDE, int SPAN, int STATES, typename Words>
TQ_FN uint tq_point(Words words, int64_t stride, uint i) {
  if (STATES > 0) {
    return tq_symbol<DIM / SPAN, BITS, STATES>(words, stride, i / SPAN);
  }
  return tq_level<BITS, WIDE>(words, stride, i / SPAN);
}
