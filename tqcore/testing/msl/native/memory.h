// Every access of a kernel comes through here: the compiler calls the __tsan functions, and
// the site (line and column) is added by assembly.py.
#pragma once
#include "race.h"

typedef struct {
  const char *name;
  void *base;
  const char *symbol;
  void *address;
} Image;
int dladdr(const void *p, Image *image);

// The linker is asked once for 16 bytes: it takes longer than everything else about an access.
static int in_kernel_image(const u8 *p) {
  const u64 place = (u64)p / 16 + 1;
  u64 *known = &ctx->in_image[place % 64];
  if (*known == place) return 1;
  Image image;
  if (!dladdr(p, &image) || image.base != ctx->image) return 0;
  *known = place;
  return 1;
}

static void check(u8 *p, u32 n, u32 write, u32 site, u8 *written, Cell *cells, int space) {
  if (n > 1 && !(n & (n - 1)) && (u64)p % n) {
    locate(fail(MISALIGNED, site), p, n, write);
    stop();
  }
  if (written) {
    if (write) {
      memset(written, 1, n);
    } else {
      for (u32 i = 0; i < n; i++) {
        if (written[i]) continue;
        locate(fail(UNINITIALIZED, site), p + i, 1, 0);
        stop();
      }
    }
  }
  if (cells) check_races(p, cells, n, write, space, site);
}

static void access_threadgroup(u8 *p, u32 n, u32 write, u32 site) {
  const u64 offset = (u64)(p - ctx->memory);
  for (u32 i = 0; i < n; i++) {
    if (offset + i < ctx->capacity && ctx->live[offset + i]) continue;
    locate(fail(OUT_OF_BOUNDS, site), p, n, write);
    stop();
  }
  *(write ? &ctx->counts->threadgroup_written_bytes : &ctx->counts->threadgroup_read_bytes) += n;
  check(p, n, write, site, ctx->written + offset, ctx->cells + offset, 1);
}

static void access(u8 *p, u32 n, u32 write, u32 site) {
  if (!ctx || !ctx->current || !n) return;
  resolve_doubt();
  if ((u64)(p - ctx->current->stack) < ctx->launch->stack_bytes) return;  // thread memory
  if ((u64)(p - ctx->memory) < ctx->capacity) {
    access_threadgroup(p, n, write, site);
    return;
  }
  for (u32 i = 0; i < ctx->launch->buffer_count; i++) {
    Buffer *b = &ctx->launch->buffers[i];
    const u64 offset = (u64)(p - b->data);
    if (offset >= b->bytes || n > b->bytes - offset) continue;
    if (write && !b->writable) {
      locate(fail(READ_ONLY, site), p, n, write);
      stop();
    }
    *(write ? &ctx->counts->device_written_bytes : &ctx->counts->device_read_bytes) += n;
    check(p, n, write, site, b->written ? b->written + offset : 0, b->cells ? b->cells + offset : 0, 0);
    return;
  }
  // What is left to be right: the kernel's arguments, and constants at program scope.
  if (!write && (u64)(p - (u8 *)ctx->fibres) < MAX_THREADS * sizeof(Fibre)) return;
  if (!write && (u64)(p - (u8 *)ctx->launch->args) < ctx->launch->buffer_count * sizeof(void *)) return;
  const int image = in_kernel_image(p);
  if (image && !write) return;
  locate(fail(image ? READ_ONLY : OUT_OF_BOUNDS, site), p, n, write);
  stop();
}

#define ACCESS(N)                                                                             \
  void __tsan_read##N(void *p, u32 site) { access(p, N, 0, site); }                           \
  void __tsan_write##N(void *p, u32 site) { access(p, N, 1, site); }                          \
  void __tsan_unaligned_read##N(void *p, u32 site) { access(p, N, 0, site); }                 \
  void __tsan_unaligned_write##N(void *p, u32 site) { access(p, N, 1, site); }                \
  void __tsan_read_write##N(void *p, u32 site) { access(p, N, 0, site), access(p, N, 1, site); } \
  void __tsan_unaligned_read_write##N(void *p, u32 site) { access(p, N, 0, site), access(p, N, 1, site); }
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16)

void __tsan_init(void) {}

void *__tsan_memcpy(void *to, const void *from, u64 n, u32 site) {
  access((u8 *)from, (u32)n, 0, site);
  access(to, (u32)n, 1, site);
  return memcpy(to, from, n);
}
void *__tsan_memmove(void *to, const void *from, u64 n, u32 site) {
  access((u8 *)from, (u32)n, 0, site);
  access(to, (u32)n, 1, site);
  return memmove(to, from, n);
}
void *__tsan_memset(void *to, int c, u64 n, u32 site) {
  access(to, (u32)n, 1, site);
  return memset(to, c, n);
}

// Once a basic block.
void __sanitizer_cov_trace_pc(u32 site) {
  Fibre *f = ctx->current;
  if (++f->steps > ctx->launch->max_steps) {
    fail(ENDLESS_LOOP, site)->value = ctx->launch->max_steps;
    stop();
  }
  if ((u8 *)__builtin_frame_address(0) < f->stack + 8192) {
    fail(STACK_OVERFLOW, site)->value = ctx->launch->stack_bytes;
    stop();
  }
}
