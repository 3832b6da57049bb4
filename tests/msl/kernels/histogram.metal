// How often each of BINS values occurs in x: counted in threadgroup memory, then added up.
threadgroup atomic_uint bins[BINS];
const uint index = thread_index_in_threadgroup;
for (uint i = index; i < uint(BINS); i += threads_per_threadgroup.x) {
  atomic_store_explicit(&bins[i], 0u, memory_order_relaxed);
}
threadgroup_barrier(mem_flags::mem_threadgroup);
atomic_fetch_add_explicit(&bins[x[thread_position_in_grid.x]], 1u, memory_order_relaxed);
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint i = index; i < uint(BINS); i += threads_per_threadgroup.x) {
  const uint count = atomic_load_explicit(&bins[i], memory_order_relaxed);
  if (count > 0) {
    atomic_fetch_add_explicit(&out[i], count, memory_order_relaxed);
  }
}
