// The functions of tensor_ptx.h in C++, after the PTX manual.

#define TQC_FN inline __attribute__((always_inline))

TQC_FN unsigned tqc_permute(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = (unsigned long long)b << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned digit = selector >> (4 * i) & 15;
    const unsigned byte = bytes >> (8 * (digit & 7)) & 255;
    r |= (digit < 8 ? byte : byte & 128 ? 255 : 0) << (8 * i);
  }
  return r;
}

template <int TABLE>
TQC_FN unsigned tqc_logic(unsigned a, unsigned b, unsigned c) {
  unsigned r = 0;
  for (int i = 0; i < 8; i++) {
    if (TABLE >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  }
  return r;
}

TQC_FN unsigned tqc_multiply(unsigned a, unsigned b, unsigned c) { return a * b + c; }

// mma.m16n8k32 on bytes. Of lane 4 g + j, byte i of register r: A has row g + 8 (r % 2), column
// 4 j + i + 16 (r / 2); B has row 4 j + i + 16 r, column g; number i of C and D is row g + 8 (i / 2),
// column 2 j + i % 2.
struct cpu_operands {
  unsigned a[4], b[2];
};
template <typename A>
CPU_UNWATCHED void cpu_product(int* d, const cpu_operands* lanes, const int* c) {
  const int g = __msl_lane() / 4, j = __msl_lane() % 4;
  for (int i = 0; i < 4; i++) {
    const int row = g + 8 * (i / 2), column = 2 * j + i % 2;
    int sum = c[i];
    for (int k = 0; k < 32; k++) {
      const unsigned a = lanes[row % 8 * 4 + k % 16 / 4].a[row / 8 + k / 16 * 2];
      const unsigned b = lanes[column * 4 + k % 16 / 4].b[k / 16];
      sum += A(a >> (8 * (k % 4))) * (signed char)(b >> (8 * (k % 4)));
    }
    d[i] = sum;
  }
}
template <typename A>
TQC_FN void cpu_multiply(int* d, const cpu_operands& mine, const int* c) {
  cpu_operands lanes[32];
  __msl_exchange(&mine, sizeof mine, CPU_PRODUCT, lanes);
  cpu_product<A>(d, lanes, c);
}
TQC_FN void tqc_score(int* d, unsigned a0, unsigned a1, unsigned a2, unsigned a3, const unsigned* b, const int* c) {
  cpu_multiply<signed char>(d, {{a0, a1, a2, a3}, {b[0], b[1]}}, c);
}
TQC_FN void tqc_mix(int* d, const unsigned* a, unsigned b0, unsigned b1, const int* c) {
  cpu_multiply<unsigned char>(d, {{a[0], a[1], a[2], a[3]}, {b0, b1}}, c);
}

template <typename T>
TQC_FN T tqc_keep(T x) { return x; }

TQC_FN float tqc_exp2(float x) { return exp2f(x); }
TQC_FN float tqc_log2(float x) { return log2f(x); }
TQC_FN float tqc_inverse(float x) { return 1.0f / x; }

// cp.async writes at any time between its start and the wait for its group. Here it spoils its place
// at the start and copies at the wait, as late as it may: who reads before sees what is not his.
template <int WORDS>
using cpu_words = unsigned __attribute__((ext_vector_type(WORDS)));
struct cpu_copy {
  unsigned to;
  const unsigned* from;
  int words, group;
};
struct cpu_copies {
  cpu_copy waiting[32];
  int count, group;
};
static cpu_copies cpu_copies_of[1024];
extern "C" {
int cpu_late_copies;  // that were too many at once, or still on their way at the end
}

CPU_UNWATCHED void cpu_start_copies(unsigned thread) {
  cpu_copies_of[thread].count = cpu_copies_of[thread].group = 0;
}
CPU_UNWATCHED void cpu_end_copies(unsigned thread) { cpu_late_copies += cpu_copies_of[thread].count; }
CPU_UNWATCHED void cpu_send(cpu_copy copy) {
  cpu_copies& mine = cpu_copies_of[cpu_thread()];
  copy.group = mine.group;
  if (mine.count == 32) {
    cpu_late_copies++;
  } else {
    mine.waiting[mine.count++] = copy;
  }
}
CPU_UNWATCHED bool cpu_receive(int pending, cpu_copy* copy) {
  cpu_copies& mine = cpu_copies_of[cpu_thread()];
  if (mine.count == 0 || mine.waiting[0].group >= mine.group - pending) {
    return false;
  }
  *copy = mine.waiting[0];
  mine.count--;
  for (int i = 0; i < mine.count; i++) mine.waiting[i] = mine.waiting[i + 1];
  return true;
}
CPU_UNWATCHED void cpu_commit() { cpu_copies_of[cpu_thread()].group++; }

template <int SIZE>
TQC_FN void tqc_copy(unsigned to, const unsigned* from) {
  *reinterpret_cast<cpu_words<SIZE / 4>*>(cpu_shared_at(to)) = 0x5a5a5a5a;
  cpu_send({to, from, SIZE / 4, 0});
}
TQC_FN void tqc_commit() { cpu_commit(); }
template <int PENDING>
TQC_FN void tqc_wait() {
  cpu_copy copy;
  while (cpu_receive(PENDING, &copy)) {
    char* to = cpu_shared_at(copy.to);
    if (copy.words == 4) {
      *reinterpret_cast<cpu_words<4>*>(to) = *reinterpret_cast<const cpu_words<4>*>(copy.from);
    } else if (copy.words == 1) {
      *reinterpret_cast<unsigned*>(to) = *copy.from;
    } else {
      *reinterpret_cast<cpu_words<2>*>(to) = *reinterpret_cast<const cpu_words<2>*>(copy.from);
    }
  }
}
