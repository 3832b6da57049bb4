// The sum of x in one dispatch: the threadgroup that is done last adds up everyone's part.
threadgroup bool last;
const uint group = threadgroup_position_in_grid.x;
const float part = simd_sum(x[thread_position_in_grid.x]);
if (thread_index_in_simdgroup == 0) {
  parts[group] = part;
  RELEASE;
  device atomic_uint* done = (device atomic_uint*)counter;
  last = atomic_fetch_add_explicit(done, 1u, memory_order_relaxed) + 1 == threadgroups_per_grid.x;
  ACQUIRE;
}
threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
if (last) {
  float total = 0;
  for (uint i = thread_index_in_simdgroup; i < threadgroups_per_grid.x; i += 32) {
    total += parts[i];
  }
  total = simd_sum(total);
  if (thread_index_in_simdgroup == 0) {
    sum[0] = total;
  }
}
