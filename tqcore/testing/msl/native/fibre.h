// Fibres: every Metal thread has a stack of its own and runs until it must wait for others.
#pragma once
#include "state.h"

#if defined(__x86_64__)
__attribute__((naked, noinline)) static void switch_to(void **from, void *to) {
  asm("pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
      "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
      "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret");
}
static void *new_stack(u8 *top, void (*start)(void)) {
  u64 *sp = (u64 *)((u64)top & ~63ull);
  *--sp = 0;  // the return address of `start`, which never returns
  *--sp = (u64)start;
  for (int i = 0; i < 6; i++) *--sp = 0;
  return sp;
}
#elif defined(__aarch64__)
__attribute__((naked, noinline)) static void switch_to(void **from, void *to) {
  asm("sub sp, sp, #160\n"
      "stp x19, x20, [sp, #0]\n stp x21, x22, [sp, #16]\n stp x23, x24, [sp, #32]\n"
      "stp x25, x26, [sp, #48]\n stp x27, x28, [sp, #64]\n stp x29, x30, [sp, #80]\n"
      "stp d8, d9, [sp, #96]\n stp d10, d11, [sp, #112]\n stp d12, d13, [sp, #128]\n"
      "stp d14, d15, [sp, #144]\n"
      "mov x9, sp\n str x9, [x0]\n mov sp, x1\n"
      "ldp x19, x20, [sp, #0]\n ldp x21, x22, [sp, #16]\n ldp x23, x24, [sp, #32]\n"
      "ldp x25, x26, [sp, #48]\n ldp x27, x28, [sp, #64]\n ldp x29, x30, [sp, #80]\n"
      "ldp d8, d9, [sp, #96]\n ldp d10, d11, [sp, #112]\n ldp d12, d13, [sp, #128]\n"
      "ldp d14, d15, [sp, #144]\n"
      "add sp, sp, #160\n ret");
}
static void *new_stack(u8 *top, void (*start)(void)) {
  u64 *sp = (u64 *)((u64)top & ~63ull) - 20;
  memset(sp, 0, 160);
  sp[11] = (u64)start;  // x30
  return sp;
}
#else
#error "the emulator runs on x86-64 and AArch64"
#endif

static void resolve_doubt(void);

static void yield(void) {
  resolve_doubt();
  switch_to(&ctx->current->sp, ctx->main_sp);
}

static void resume(Fibre *fibre) {
  ctx->current = fibre;
  switch_to(&ctx->main_sp, fibre->sp);
  ctx->current = 0;
}

static void start_fibre(void) {
  Fibre *self = ctx->current;
  ctx->launch->entry(ctx->launch->args, &self->ids);
  resolve_doubt();
  self->state = DONE;
  for (;;) yield();
}
