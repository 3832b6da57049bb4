// Data races: two accesses to a byte, one a write, not both atomic, with nothing between that
// orders them. What orders: a barrier that names the memory, within a threadgroup; such a
// simdgroup barrier, within a simdgroup; fence, atomic, atomic, fence, between threadgroups.
#pragma once
#include "fault.h"

// Has the current fibre acquired what that access's threadgroup has released since?
static int released(const Access *old) {
  const Fibre *f = ctx->current;
  if (!f->acquired && !(ctx->acquired && ctx->acquired <= ctx->epoch[0])) return 0;
  const u32 epoch = ctx->released[old->group];  // 0: never, else epoch + 1
  return epoch && (old->epoch + 1 < epoch || (old->epoch + 1 == epoch && old->thread == ctx->releaser[old->group]));
}

static int ordered(const Access *old, int space) {
  const Fibre *f = ctx->current;
  if (old->group != ctx->group_index) return space == 0 && released(old);
  if (old->thread == f->index || old->epoch < ctx->epoch[space]) return 1;
  return old->thread / LANES == f->simd && old->simd_epoch < ctx->simds[f->simd].epoch[space];
}

// Reads of a byte are merged into one record, so a write asks about all of them.
static int all_ordered(const Access *reads, int space) {
  const Fibre *f = ctx->current;
  if (!ordered(reads, space)) return 0;
  if (reads->state == 1 || reads->group != ctx->group_index || reads->epoch < ctx->epoch[space]) return 1;
  return reads->state == 2 && reads->thread / LANES == f->simd &&
         reads->simd_epoch < ctx->simds[f->simd].epoch[space];
}

// Whether a store changes anything is known once it is done, at whatever the thread does next.
static void resolve_doubt(void) {
  u8 *at = ctx->doubt.at;
  if (!at) return;
  ctx->doubt.at = 0;
  if (!memcmp(at, ctx->doubt.before, ctx->doubt.bytes)) return;
  *ctx->fault = ctx->doubt.fault;
  stop();
}

static void describe_conflict(const Access *old, u32 other_write, const u8 *p, u32 write, u32 site) {
  Fault *fault = fail(RACE, site);
  locate(fault, p, 1, write);
  fault->other_site = old->site;
  fault->other_index = old->thread;
  fault->other_group = old->group == ctx->group_index;
  fault->other_write = other_write;
}

static void conflict(const Access *old, u32 other_write, const u8 *p, u32 write, u32 site) {
  describe_conflict(old, other_write, p, write, site);
  stop();
}

static void check_races(u8 *p, Cell *cell, u32 n, u32 write, int space, u32 site) {
  const Fibre *f = ctx->current;
  const u32 simd_epoch = ctx->simds[f->simd].epoch[space];
  const Access now = {ctx->group_index, ctx->epoch[space], simd_epoch, site, (u16)f->index, 1};
  for (u32 i = 0; i < n; i++, cell++) {
    const Access *w = &cell->write;
    if (w->state && !(ctx->atomic && w->state == 2) && !ordered(w, space)) {
      if (!write || !ctx->launch->allow_equal_writes || n > sizeof ctx->doubt.before) {
        conflict(w, 1, p + i, write, site);
      } else if (!ctx->doubt.at) {
        describe_conflict(w, 1, p + i, write, site);
        ctx->doubt.fault = *ctx->fault;
        ctx->fault->kind = 0;
        ctx->doubt.at = p;
        ctx->doubt.bytes = n;
        memcpy(ctx->doubt.before, p, n);
      }
    }
    if (write) {
      if (cell->read.state && !all_ordered(&cell->read, space)) conflict(&cell->read, 0, p + i, write, site);
      cell->write = now;
      cell->write.state = ctx->atomic ? 2 : 1;
    } else if (!ctx->atomic) {
      const Access r = cell->read;
      u8 state = 1;
      if (r.state && r.group != now.group) {
        state = 3;
      } else if (r.state && r.epoch == now.epoch && (r.state > 1 || r.thread != now.thread)) {
        state = r.state == 3 || r.thread / LANES != f->simd ? 3 : 2;
      }
      cell->read = now;
      cell->read.state = state;
    }
  }
}
