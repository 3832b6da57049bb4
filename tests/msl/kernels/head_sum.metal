// Sum of x squared over a head, one thread a value: right for heads of 256 values alone.
threadgroup float parts[8];
const uint i = thread_position_in_threadgroup.x;
const float sum = simd_sum(x[i] * x[i]);
if (thread_index_in_simdgroup == 0) {
  parts[simdgroup_index_in_threadgroup] = sum;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
if (i == 0) {
  float total = 0.0f;
  for (uint k = 0; k < 8; k++) {
    total += parts[k];
  }
  out[0] = total;
}
