// The instructions of NVIDIA's machine that C++ has no word for, each a function: all the inline assembly
// there is. tests/kernels/tensor_cpu.h says in C++ what they do, so that the rest runs without a GPU.

#define TQC_FN __device__ __forceinline__

// Four bytes of a and b, those of a first: nibble i of the selector is the number of byte i, and with 8 or
// more copies of that byte's sign.
TQC_FN unsigned tqc_permute(unsigned a, unsigned b, unsigned selector) {
  unsigned r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
  return r;
}

// Any function of three bits, of whole words: TABLE is what it gives for a = 0xf0, b = 0xcc, c = 0xaa. The
// compiler, left to itself, takes two instructions where masks are constants.
template <int TABLE>
TQC_FN unsigned tqc_logic(unsigned a, unsigned b, unsigned c) {
  unsigned r;
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(c), "n"(TABLE));
  return r;
}

// a b + c: multipliers are idle where logic is not.
TQC_FN unsigned tqc_multiply(unsigned a, unsigned b, unsigned c) {
  unsigned r;
  asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}

// A product of 16 x 32 bytes with 32 x 8, plus c: levels of 16 tokens times queries.
TQC_FN void tqc_score(int* d, unsigned a0, unsigned a1, unsigned a2, unsigned a3, const unsigned* b, const int* c) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}

// The same for unsigned weights times levels.
TQC_FN void tqc_mix(int* d, const unsigned* a, unsigned b0, unsigned b1, const int* c) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}

// x itself, of which the compiler knows nothing more: so a loop has it in a register. Much of what does not
// change in a loop is otherwise worked out at every step.
TQC_FN int tqc_keep(int x) {
  asm("" : "+r"(x));
  return x;
}
TQC_FN unsigned tqc_keep(unsigned x) {
  asm("" : "+r"(x));
  return x;
}
TQC_FN const unsigned* tqc_keep(const unsigned* x) {
  asm("" : "+l"(x));
  return x;
}

TQC_FN float tqc_exp2(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

TQC_FN float tqc_log2(float x) {
  float r;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

TQC_FN float tqc_inverse(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// Copies SIZE bytes, 4, 8 or 16, to an address of shared memory without waiting.
template <int SIZE>
TQC_FN void tqc_copy(unsigned to, const unsigned* from) {
  if (SIZE == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(SIZE));
  }
}
TQC_FN void tqc_commit() {
  asm volatile("cp.async.commit_group;");
}
template <int PENDING>
TQC_FN void tqc_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
