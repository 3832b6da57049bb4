// Recording the first fault; the fibre that met it never runs again.
#pragma once
#include "fibre.h"

static Fault *blame(const Fibre *fibre, u32 kind, u32 site) {
  Fault *fault = ctx->fault;
  fault->kind = kind;
  fault->site = site;
  fault->index = fibre->index;
  fault->buffer = -1;
  for (int d = 0; d < 3; d++) {
    fault->thread[d] = fibre->ids.thread_position_in_threadgroup[d];
    fault->group[d] = fibre->ids.threadgroup_position_in_grid[d];
  }
  return fault;
}

// The current fibre's own fault: fill in what the result points to, then call stop().
static Fault *fail(u32 kind, u32 site) { return blame(ctx->current, kind, site); }

__attribute__((noreturn)) static void stop(void) {
  for (;;) yield();
}

// The buffer or threadgroup variable nearest to an address.
static void locate(Fault *fault, const u8 *p, u32 bytes, u32 write) {
  const i64 guard = 1ll << 29;  // half of what memory.py leaves between buffers
  fault->bytes = bytes;
  fault->write = write;
  for (u32 i = 0; i < ctx->launch->buffer_count; i++) {
    const Buffer *b = &ctx->launch->buffers[i];
    i64 offset = p - b->data;
    if (offset >= -guard && offset < (i64)b->bytes + guard) {
      fault->buffer = (int)i;
      fault->offset = offset;
      return;
    }
  }
  if ((u64)(p - ctx->memory) >= ctx->capacity) return;
  i64 nearest = 1ll << 40;
  for (u32 i = 0; i < ctx->variable_count; i++) {
    const Variable *v = &ctx->variables[i];
    i64 offset = p - (ctx->memory + v->offset);
    i64 distance = offset < 0 ? -offset : offset >= v->bytes ? offset - v->bytes + 1 : 0;
    if (distance >= nearest) continue;
    nearest = distance;
    fault->buffer = -2;
    fault->offset = offset;
    fault->text = v->name;
    fault->variable_bytes = v->bytes;
    fault->variable_site = v->site;
  }
}
