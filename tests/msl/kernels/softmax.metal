// Softmax of the rows of x [rows, N]; one threadgroup a row, as MLX's own.
threadgroup float local_max[32];
threadgroup float local_sum[32];

const uint row = threadgroup_position_in_grid.x;
const uint index = thread_index_in_threadgroup;
const uint lane = thread_index_in_simdgroup;
const uint group = simdgroup_index_in_threadgroup;
const device T* values = x + row * N;

float largest = -INFINITY;
for (uint i = index; i < uint(N); i += threads_per_threadgroup.x) {
  largest = metal::max(largest, float(values[i]));
}
largest = simd_max(largest);
if (lane == 0) {
  local_max[group] = largest;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
largest = simd_max(lane < simdgroups_per_threadgroup ? local_max[lane] : -INFINITY);

float total = 0;
for (uint i = index; i < uint(N); i += threads_per_threadgroup.x) {
  total += fast::exp(float(values[i]) - largest);
}
total = simd_sum(total);
if (lane == 0) {
  local_sum[group] = total;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
total = simd_sum(lane < simdgroups_per_threadgroup ? local_sum[lane] : 0.0f);

for (uint i = index; i < uint(N); i += threads_per_threadgroup.x) {
  out[row * N + i] = T(fast::exp(float(values[i]) - largest) / total);
}
