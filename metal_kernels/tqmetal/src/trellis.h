// Codes of a trellis: of BITS bits a symbol t, the low bit u_t on top.
//
// The number of a symbol's point, in the order of tqplugins.trellis.layout.by_window, has BITS + 1
// bits: b, the other bits of the code, a; with
//
//   STATES = 4:  a = u_t ^ u_(t-2),            b = u_(t-1)
//   STATES = 8:  a = u_t ^ u_(t-1) ^ u_(t-3),  b = u_(t-2)
//
// and indices modulo T, the symbols of a vector (Ungerboeck 1982). u_(t-1) is the bit before code t
// in the stream: a number is what lies there once earlier low bits have been added to u_t. The
// stream n codes before is the stream shifted by n codes, so all codes of a word get theirs
// together; two copies, for even and odd codes, since a number takes the place of a neighbour's bit.

// The places of u in word k of a stream: of the codes with an even number, or an odd one.
template <int BITS, int ODD>
TQ_FN constexpr uint tq_tops(int k) {
  uint tops = 0;
  for (int bit = 0; bit < 32; bit++) {
    const int place = 32 * k + bit;
    if (place % BITS == BITS - 1 && place / BITS % 2 == ODD) {
      tops |= 1u << bit;
    }
  }
  return tops;
}

// The 32 bits before code `first`, a multiple of N; before code 0 are the last ones.
template <int T, int BITS, int N, typename Words>
TQ_FN uint tq_before(Words words, int64_t stride, uint first) {
  if (T * BITS % 32 == 0) {
    const uint word = first * BITS / 32;
    const uint last = words[(word > 0 ? word - 1 : T * BITS / 32 - 1) * stride];
    return N * BITS % 32 == 0 ? last : tq_funnel(last, words[word * stride], first * BITS % 32);
  }
  // Three codes are enough.
  constexpr int three = 3 * BITS;
  if (N >= 3) {
    return tq_code(words, stride, (first > 0 ? first : T) * BITS - three, three) << (32 - three);
  }
  uint before = 0;
  TQ_UNROLL
  for (uint back = 1; back <= 3; back++) {
    const uint code = tq_code(words, stride, (first + T - back) % T * BITS, BITS);
    before |= code << (32 - back * BITS);
  }
  return before;
}

// A lane's share of a vector of DIM values, of any kind; of a trellis, what comes before it and the
// codes.
template <
    int DIM, int BITS, int WIDE, int SPAN, int STATES, int N, typename Words, typename Share>
TQ_FN void tq_load_share(Words words, int64_t stride, uint lane, Share share) {
  const uint first = lane * (N / SPAN);
  if (STATES > 0) {
    share[0] = tq_before<DIM / SPAN, BITS, N / SPAN>(words, stride, first);
  }
  tq_load<BITS, WIDE, 0, N / SPAN>(words, stride, first, share + (STATES > 0 ? 1 : 0));
}

// Word K of SIZE and those before it: numbers in the place of codes.
template <int STATES, int BITS, int SIZE, int K, typename Share>
TQ_FN void tq_label_words(Share share) {
  constexpr uint even = tq_tops<BITS, 0>(K);
  constexpr uint odd = tq_tops<BITS, 1>(K);
  const uint codes = share[1 + K];
  if (STATES == 4) {
    const uint two = tq_funnel(share[K], codes, 32 - 2 * BITS);
    share[1 + K] = codes ^ (two & even);
    share[1 + SIZE + K] = codes ^ (two & odd);
  } else {
    const uint one = tq_funnel(share[K], codes, 32 - BITS);
    const uint flips = one ^ tq_funnel(share[K], codes, 32 - 3 * BITS);
    share[1 + K] = ((codes & ~odd) | (one & odd)) ^ (flips & even);
    share[1 + SIZE + K] = ((codes & ~even) | (one & even)) ^ (flips & odd);
  }
  if (K > 0) {
    tq_label_words<STATES, BITS, SIZE, (K > 0 ? K - 1 : 0)>(share);
  }
}

// Makes numbers of the N codes that tq_load_share read, in their place.
template <int STATES, int BITS, int N, typename Share>
TQ_FN void tq_label(Share share) {
  if (STATES > 0) {
    tq_label_words<STATES, (STATES > 0 ? BITS : 1), TQ_WORDS(BITS, N), TQ_WORDS(BITS, N) - 1>(share);
    share[0] = STATES == 4 ? share[0] : share[0] << BITS;
  }
}

// Number of the point of symbol t alone, of T.
template <int T, int BITS, int STATES, typename Words>
TQ_FN uint tq_symbol(Words words, int64_t stride, uint t) {
  constexpr uint back = STATES == 4 ? 2 : 3;
  // The code and what is before, down to the oldest bit that is added; only the first few codes
  // have it in two parts.
  constexpr uint size = back * BITS + 1;
  uint bits;
  if (t >= back) {
    bits = tq_code(words, stride, (t + 1) * BITS - size, size);
  } else {
    const uint tail = size - (t + 1) * BITS;
    bits = tq_code(words, stride, 0, (t + 1) * BITS) << tail;
    bits |= tq_code(words, stride, T * BITS - tail, tail);
  }
  const uint number = bits >> ((back - 1) * BITS);
  const uint oldest = (bits & 1) << BITS;
  if (STATES == 4) {
    return number ^ oldest;
  }
  return ((number & ~1u) | ((bits >> BITS) & 1)) ^ oldest ^ ((number & 1) << BITS);
}

// Number of the point that value i of a vector belongs to.
template <int DIM, int BITS, int WIDE, int SPAN, int STATES, typename Words>
TQ_FN uint tq_point(Words words, int64_t stride, uint i) {
  if (STATES > 0) {
    return tq_symbol<DIM / SPAN, BITS, STATES>(words, stride, i / SPAN);
  }
  return tq_level<BITS, WIDE>(words, stride, i / SPAN);
}
