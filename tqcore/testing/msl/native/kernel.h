// What the Metal library of metal/ calls.
#pragma once
#include "memory.h"

// Give this lane's value, get those of all 32 lanes; returns the mask of the lanes that took part.
u32 __msl_exchange(const void *mine, u32 bytes, u32 operation, void *all, u32 site) {
  Fibre *f = ctx->current;
  Simd *s = &ctx->simds[f->simd];
  const u32 turn = f->simd_count++ & 1;  // the next exchange may begin before all have read this
  memcpy(s->slots[turn] + f->lane * SLOT, mine, bytes);
  f->operation = operation;
  f->site = site;
  f->state = AT_SIMD;
  yield();
  for (u32 i = 0; i < LANES; i++) memcpy((u8 *)all + i * bytes, s->slots[turn] + i * SLOT, bytes);
  return s->active[turn];
}

u32 __msl_lane(void) { return ctx->current->lane; }

void __msl_inactive(u32 lane, u32 site) {
  fail(INACTIVE_LANE, site)->value = lane;
  stop();
}

void __msl_barrier(u32 simd, u32 flags, u32 site) {
  Fibre *f = ctx->current;
  f->flags = flags;
  f->site = site;
  f->operation = 0;
  if (simd) {
    f->simd_count++;
    f->state = AT_SIMD_BARRIER;
  } else {
    f->barrier_count++;
    f->state = AT_BARRIER;
  }
  yield();
}

// Accesses between these two are atomic. A release or an acquire needs a fence beside it.
void __msl_atomic_begin(u32 site) {
  (void)site;
  Fibre *f = ctx->current;
  ctx->counts->atomics++;
  ctx->atomic = 1;
  f->loaded = 1;
  if (!f->fenced) return;
  ctx->released[ctx->group_index] = f->fenced;
  ctx->releaser[ctx->group_index] = f->index;
}
void __msl_atomic_end(void) { ctx->atomic = 0; }

void __msl_fence(u32 flags, u32 scope) {
  Fibre *f = ctx->current;
  if (!(flags & 1) || scope < 3) return;  // mem_device at thread_scope_device
  f->fenced = ctx->epoch[0] + 1;
  if (!f->loaded) return;
  f->acquired = 1;
  ctx->acquired = ctx->epoch[0] + 1;  // for the others, after the next barrier
}

void *__msl_threadgroup(const char *name, u64 bytes, u64 align, u32 site) {
  for (u32 i = 0; i < ctx->variable_count; i++) {
    const Variable *v = &ctx->variables[i];
    if (v->site == site && v->bytes == bytes && !strcmp(v->name, name)) return ctx->memory + v->offset;
  }
  if (align < 16) align = 16;
  const u64 offset = (ctx->top + REDZONE + align - 1) / align * align;
  u64 total = bytes;
  for (u32 i = 0; i < ctx->variable_count; i++) total += ctx->variables[i].bytes;
  if (total > ctx->launch->max_threadgroup_bytes || ctx->variable_count == MAX_VARIABLES ||
      offset + bytes + REDZONE > ctx->capacity) {
    Fault *fault = fail(THREADGROUP_MEMORY, site);
    fault->value = total;
    fault->text = name;
    stop();
  }
  if (total > ctx->counts->threadgroup_bytes) ctx->counts->threadgroup_bytes = total;
  ctx->variables[ctx->variable_count++] = (Variable){(u32)offset, (u32)bytes, site, name};
  ctx->top = (u32)(offset + bytes);
  memset(ctx->live + offset, 1, bytes);
  return ctx->memory + offset;
}

// Undefined behaviour: clang's handlers, whose data begins with where it happened.
typedef struct {
  const char *file;
  u32 line, column;
} Place;
static void undefined(const Place *place, const char *what) {
  fail(UNDEFINED, place->line << 8)->text = what;
  stop();
}
#define UNDEFINED_1(NAME, WHAT) \
  void __ubsan_handle_##NAME(Place *place) { undefined(place, WHAT); }
#define UNDEFINED_2(NAME, WHAT) \
  void __ubsan_handle_##NAME(Place *place, void *a) { undefined(place, WHAT); }
#define UNDEFINED_3(NAME, WHAT) \
  void __ubsan_handle_##NAME(Place *place, void *a, void *b) { undefined(place, WHAT); }
void __ubsan_handle_out_of_bounds(Place *place, void *index) {
  (void)index;
  fail(OUT_OF_BOUNDS, place->line << 8)->text = "array index out of bounds";
  stop();
}
UNDEFINED_3(shift_out_of_bounds, "shift by a negative amount or by the width or more")
UNDEFINED_3(divrem_overflow, "integer division by zero, or whose result does not fit")
UNDEFINED_3(add_overflow, "signed integer overflow in +")
UNDEFINED_3(sub_overflow, "signed integer overflow in -")
UNDEFINED_3(mul_overflow, "signed integer overflow in *")
UNDEFINED_2(negate_overflow, "signed integer overflow in unary -")
UNDEFINED_2(float_cast_overflow, "conversion to an integer that cannot hold the value")
UNDEFINED_1(builtin_unreachable, "code that cannot be reached was reached")
UNDEFINED_1(missing_return, "a function without its return")

// float32 to bfloat16, round to nearest even: clang calls a function for it.
__bf16 __truncsfbf2(float x) {
  u32 bits = __builtin_bit_cast(u32, x);
  u32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  if ((bits & 0x7fffffff) > 0x7f800000) rounded = (bits >> 16) | 0x40;
  return __builtin_bit_cast(__bf16, (u16)rounded);
}
