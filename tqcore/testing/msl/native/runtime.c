// The emulator's runtime: one threadgroup at a time, simdgroup by simdgroup, lanes in lock step
// at every simdgroup operation.
#include "kernel.h"

static u32 random_below(u32 n) {
  ctx->random = ctx->random * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)((ctx->random >> 33) % n);
}

// 0 .. n-1, in order or, with a seed, shuffled.
static void permute(u32 *order, u32 n) {
  for (u32 i = 0; i < n; i++) order[i] = i;
  if (!ctx->launch->seed) return;
  for (u32 i = n; i > 1; i--) {
    const u32 j = random_below(i), t = order[i - 1];
    order[i - 1] = order[j];
    order[j] = t;
  }
}

static void diverged(u32 kind, const Fibre *a, const Fibre *b) {
  Fault *fault = blame(a, kind, a->site);
  fault->other_site = b->state == DONE ? 0 : b->site;
  fault->other_index = b->index;
}

// Run a simdgroup until every lane is done or at a threadgroup barrier.
static void run_simd(u32 index) {
  Simd *s = &ctx->simds[index];
  Fibre *lanes = &ctx->fibres[s->first];
  for (;;) {
    u32 order[LANES];
    permute(order, s->size);
    for (u32 i = 0; i < s->size; i++) {
      if (lanes[order[i]].state != READY) continue;
      resume(&lanes[order[i]]);
      if (ctx->fault->kind) return;
    }
    Fibre *lead = 0, *other = 0;
    for (u32 i = 0; i < s->size && !lead; i++) {
      if (lanes[i].state == AT_SIMD || lanes[i].state == AT_SIMD_BARRIER) lead = &lanes[i];
    }
    if (!lead) return;
    u32 active = 0;
    for (u32 i = 0; i < s->size; i++) {
      const Fibre *f = &lanes[i];
      if (f->state == DONE) continue;
      active |= 1u << i;
      if (f->state != lead->state || f->site != lead->site || f->operation != lead->operation ||
          f->simd_count != lead->simd_count || f->flags != lead->flags) {
        other = &lanes[i];
      }
    }
    if (other) {
      diverged(SIMD_DIVERGENCE, lead, other);
      return;
    }
    if (lead->state == AT_SIMD) {
      s->active[(lead->simd_count - 1) & 1] = active;
      ctx->counts->simd_operations++;
    } else {
      for (int space = 0; space < 2; space++) s->epoch[space] += lead->flags >> space & 1;
    }
    for (u32 i = 0; i < s->size; i++) {
      if (active >> i & 1) lanes[i].state = READY;
    }
  }
}

static void start_group(const u32 at[3], const u32 size[3], const u32 actual[3], const u32 groups[3]) {
  const Launch *launch = ctx->launch;
  const u32 n = actual[0] * actual[1] * actual[2];
  const u32 full = size[0] * size[1] * size[2];
  ctx->thread_count = n;
  ctx->simd_count = (n + LANES - 1) / LANES;
  ctx->epoch[0] = ctx->epoch[1] = 1;
  memset(ctx->memory, 0xff, ctx->top);
  memset(ctx->live, 0, ctx->top);
  memset(ctx->written, 0, ctx->top);
  memset(ctx->cells, 0, ctx->top * sizeof(Cell));
  ctx->acquired = ctx->variable_count = ctx->top = 0;
  for (u32 i = 0; i < ctx->simd_count; i++) {
    Simd *s = &ctx->simds[i];
    s->first = i * LANES;
    s->size = n - s->first < LANES ? n - s->first : LANES;
    s->epoch[0] = s->epoch[1] = 1;
  }
  for (u32 t = 0; t < n; t++) {
    Fibre *f = &ctx->fibres[t];
    memset(f, 0, sizeof *f);
    f->index = t;
    f->lane = t % LANES;
    f->simd = t / LANES;
    f->stack = ctx->stacks + t * launch->stack_bytes;
    f->sp = new_stack(f->stack + launch->stack_bytes, start_fibre);
    Ids *ids = &f->ids;
    const u32 local[3] = {t % actual[0], t / actual[0] % actual[1], t / (actual[0] * actual[1])};
    for (int d = 0; d < 3; d++) {
      ids->thread_position_in_threadgroup[d] = local[d];
      ids->threadgroup_position_in_grid[d] = at[d];
      ids->thread_position_in_grid[d] = at[d] * size[d] + local[d];
      ids->threadgroups_per_grid[d] = groups[d];
      ids->threads_per_grid[d] = launch->grid[d];
      ids->threads_per_threadgroup[d] = actual[d];
      ids->dispatch_threads_per_threadgroup[d] = size[d];
    }
    ids->thread_index_in_threadgroup = t;
    ids->thread_index_in_simdgroup = f->lane;
    ids->simdgroup_index_in_threadgroup = f->simd;
    ids->simdgroups_per_threadgroup = ctx->simd_count;
    ids->threads_per_simdgroup = LANES;
    ids->dispatch_simdgroups_per_threadgroup = (full + LANES - 1) / LANES;
  }
  ctx->counts->threads += n;
  ctx->counts->threadgroups++;
}

static void run_group(void) {
  for (;;) {
    u32 order[MAX_THREADS / LANES];
    permute(order, ctx->simd_count);
    for (u32 i = 0; i < ctx->simd_count; i++) {
      run_simd(order[i]);
      if (ctx->fault->kind) return;
    }
    const Fibre *first = 0;
    for (u32 t = 0; t < ctx->thread_count && !first; t++) {
      if (ctx->fibres[t].state != DONE) first = &ctx->fibres[t];
    }
    if (!first) return;
    for (u32 t = 0; t < ctx->thread_count; t++) {
      const Fibre *f = &ctx->fibres[t];
      if (f->state == first->state && f->site == first->site &&
          f->barrier_count == first->barrier_count && f->flags == first->flags) {
        continue;
      }
      diverged(BARRIER_DIVERGENCE, first, f);
      return;
    }
    ctx->counts->barriers++;
    for (int space = 0; space < 2; space++) ctx->epoch[space] += first->flags >> space & 1;
    for (u32 t = 0; t < ctx->thread_count; t++) ctx->fibres[t].state = READY;
  }
}

static void run_grid(void) {
  const Launch *launch = ctx->launch;
  u32 size[3], groups[3];
  for (int d = 0; d < 3; d++) {
    size[d] = launch->group[d] < launch->grid[d] ? launch->group[d] : launch->grid[d];
    groups[d] = (launch->grid[d] + size[d] - 1) / size[d];
  }
  const u32 total = groups[0] * groups[1] * groups[2];
  ctx->released = calloc(total, sizeof(u32));
  ctx->releaser = calloc(total, sizeof(u32));
  u32 *order = calloc(total, sizeof(u32));
  permute(order, total);
  for (u32 i = 0; i < total && !ctx->fault->kind; i++) {
    const u32 k = order[i];
    const u32 at[3] = {k % groups[0], k / groups[0] % groups[1], k / (groups[0] * groups[1])};
    u32 actual[3];
    for (int d = 0; d < 3; d++) {  // Metal shrinks the threadgroups at the grid's edge
      const u32 left = launch->grid[d] - at[d] * size[d];
      actual[d] = left < size[d] ? left : size[d];
    }
    ctx->group_index = k;
    start_group(at, size, actual, groups);
    run_group();
    for (u32 t = 0; t < ctx->thread_count; t++) ctx->counts->steps += ctx->fibres[t].steps;
  }
  free(order);
  free(ctx->releaser);
  free(ctx->released);
}

static void find_unwritten(void) {
  for (u32 i = 0; i < ctx->launch->buffer_count && !ctx->fault->kind; i++) {
    const Buffer *b = &ctx->launch->buffers[i];
    if (!b->written) continue;
    u64 count = 0, first = 0;
    for (u64 k = b->bytes; k-- > 0;) {
      if (b->written[k]) continue;
      count++;
      first = k;
    }
    if (!count) continue;
    ctx->fault->kind = UNWRITTEN;
    ctx->fault->buffer = (int)i;
    ctx->fault->offset = (i64)first;
    ctx->fault->value = count;
  }
}

// The one entry point, called by runtime.py.
void msl_launch(const Launch *launch, Fault *fault, Counts *counts) {
  Context context = {0};
  ctx = &context;
  ctx->launch = launch;
  ctx->fault = fault;
  ctx->counts = counts;
  ctx->random = launch->seed;
  Image image;
  if (dladdr((void *)launch->entry, &image)) ctx->image = image.base;
  const u64 threads = (u64)launch->group[0] * launch->group[1] * launch->group[2];
  ctx->capacity = launch->max_threadgroup_bytes + MAX_VARIABLES * 2 * REDZONE;
  ctx->fibres = calloc(MAX_THREADS, sizeof(Fibre));
  ctx->simds = calloc(MAX_THREADS / LANES, sizeof(Simd));
  // One more at the low end: whoever overflows the first stack must hit no one else's memory.
  u8 *stacks = calloc(threads + 1, launch->stack_bytes);
  ctx->stacks = stacks + launch->stack_bytes;
  u8 *memory = calloc(ctx->capacity + 64, 1);
  ctx->memory = (u8 *)(((u64)memory + 63) & ~63ull);
  memset(ctx->memory, 0xff, ctx->capacity);
  ctx->live = calloc(ctx->capacity, 1);
  ctx->written = calloc(ctx->capacity, 1);
  ctx->cells = calloc(ctx->capacity, sizeof(Cell));
  for (u32 i = 0; i < launch->buffer_count; i++) {
    Buffer *b = &launch->buffers[i];
    if (!b->initialized) b->written = calloc(b->bytes + 1, 1);
    if (b->writable) b->cells = calloc(b->bytes + 1, sizeof(Cell));
  }
  run_grid();
  if (!launch->allow_unwritten) find_unwritten();
  for (u32 i = 0; i < launch->buffer_count; i++) {
    free(launch->buffers[i].written);
    free(launch->buffers[i].cells);
  }
  free(ctx->cells);
  free(ctx->written);
  free(ctx->live);
  free(memory);
  free(stacks);
  free(ctx->simds);
  free(ctx->fibres);
  ctx = 0;
}
