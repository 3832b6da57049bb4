// What the runtime keeps of a launch. No header of a C library is needed to compile it.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

enum { LANES = 32, SLOT = 64, MAX_THREADS = 1024, MAX_VARIABLES = 64, REDZONE = 64 };

// The attributes of a thread, in the order of `struct __msl_thread` in metal/entry.h.
typedef struct {
  u32 thread_position_in_grid[3], thread_position_in_threadgroup[3], threadgroup_position_in_grid[3];
  u32 threadgroups_per_grid[3], threads_per_grid[3], threads_per_threadgroup[3];
  u32 dispatch_threads_per_threadgroup[3];
  u32 thread_index_in_threadgroup, thread_index_in_simdgroup, simdgroup_index_in_threadgroup;
  u32 simdgroups_per_threadgroup, threads_per_simdgroup, dispatch_simdgroups_per_threadgroup;
} Ids;

typedef void (*Entry)(void *const *args, const Ids *ids);

// Kinds of fault, in the order of faults.py.
enum {
  OUT_OF_BOUNDS = 1,
  MISALIGNED,
  READ_ONLY,
  UNINITIALIZED,
  UNWRITTEN,
  RACE,
  BARRIER_DIVERGENCE,
  SIMD_DIVERGENCE,
  INACTIVE_LANE,
  THREADGROUP_MEMORY,
  ENDLESS_LOOP,
  STACK_OVERFLOW,
  UNDEFINED,
};

// A byte's last accesses: enough to tell whether the next one is ordered after them.
typedef struct {
  u32 group, epoch, simd_epoch, site;
  u16 thread;
  u8 state;  // writes: 1 plain, 2 atomic; reads: 1 one thread, 2 one simdgroup, 3 more
} Access;
typedef struct {
  Access write, read;
} Cell;

typedef struct {  // shared with ctypes
  u8 *data;
  u64 bytes;
  u32 writable, initialized;
  u8 *written;  // from here on the runtime's own
  Cell *cells;
} Buffer;

typedef struct {
  u32 offset, bytes, site;
  const char *name;
} Variable;

typedef struct {  // shared with ctypes
  Entry entry;
  void *const *args;
  Buffer *buffers;
  u32 buffer_count, grid[3], group[3], max_threadgroup_bytes, seed, allow_unwritten, allow_equal_writes;
  u64 max_steps, stack_bytes;
} Launch;

typedef struct {  // shared with ctypes
  u32 kind, site, other_site, thread[3], group[3], index, other_index, other_group, write, other_write;
  int buffer;  // -1: none, -2: a threadgroup variable
  u32 bytes, variable_bytes, variable_site;
  i64 offset;
  u64 value;
  const char *text;
} Fault;

typedef struct {  // shared with ctypes
  u64 threads, threadgroups, simd_operations, barriers, atomics, steps;
  u64 device_read_bytes, device_written_bytes, threadgroup_read_bytes, threadgroup_written_bytes;
  u64 threadgroup_bytes;
} Counts;

enum State { READY, AT_SIMD, AT_SIMD_BARRIER, AT_BARRIER, DONE };

typedef struct {
  void *sp;
  u8 *stack;
  Ids ids;
  u32 index, lane, simd, site, operation, flags;
  enum State state;
  u64 simd_count, barrier_count, steps;
  u32 loaded;    // did an atomic since its last fence: the next fence acquires
  u32 fenced;    // fenced, at this device epoch + 1: the next atomic releases
  u32 acquired;  // sees what other threadgroups have released
} Fibre;

typedef struct {
  u32 size, first, epoch[2];
  u32 active[2];
  u8 slots[2][LANES * SLOT];
} Simd;

typedef struct {
  const Launch *launch;
  Fault *fault;
  Counts *counts;
  void *main_sp;
  Fibre *current, *fibres;
  Simd *simds;
  u32 thread_count, simd_count, group_index, epoch[2];  // epochs: device, threadgroup
  u8 *stacks, *memory, *live, *written;                  // threadgroup memory and its shadows
  Cell *cells;
  u32 capacity, top, atomic, acquired;
  u32 *released, *releaser;  // a threadgroup: device epoch + 1 of its last release, and by whom
  Variable variables[MAX_VARIABLES];
  u32 variable_count;
  u64 random;
  u8 *image;
  u64 in_image[64];  // 16 bytes each that were found to be the kernel's constants
  struct {  // two threads wrote here: the same value?
    u8 *at;
    u32 bytes;
    u8 before[16];
    Fault fault;
  } doubt;
} Context;

static __thread Context *ctx;

void *calloc(u64 count, u64 size);
void free(void *p);
void *memcpy(void *to, const void *from, u64 n);
void *memmove(void *to, const void *from, u64 n);
void *memset(void *to, int c, u64 n);
int memcmp(const void *a, const void *b, u64 n);
int strcmp(const char *a, const char *b);
