// What the generated entry of a kernel is called with; `Ids` in native/state.h.
#pragma once
#include "builtins.h"

struct __msl_thread {
  uint thread_position_in_grid[3], thread_position_in_threadgroup[3], threadgroup_position_in_grid[3];
  uint threadgroups_per_grid[3], threads_per_grid[3], threads_per_threadgroup[3];
  uint dispatch_threads_per_threadgroup[3];
  uint thread_index_in_threadgroup, thread_index_in_simdgroup, simdgroup_index_in_threadgroup;
  uint simdgroups_per_threadgroup, threads_per_simdgroup, dispatch_simdgroups_per_threadgroup;
};
MSL_FN uint3 __msl_uint3(const uint *p) {
  uint3 r;
  r.x = p[0];
  r.y = p[1];
  r.z = p[2];
  return r;
}
