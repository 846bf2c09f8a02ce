// The GPU's matrix instruction, which a processor's runtime lacks: 8 rows times 16 columns, 16 products each, as the
// sub-group function that Triton's Intel backend calls. Each of 16 lanes holds one column of b and of the sums, and
// one column of a; products and sums are float32, in the order of k.

#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION cl_intel_subgroups : enable

__attribute__((overloadable, noinline)) float8 intel_sub_group_f16_f16_matrix_mad_k16(short8 a, int8 b, float8 sums)
{
    half right[16];
    vstore8(b, 0, (int *)right);
// a loop: unrolled, a kernel with hundreds of these takes minutes to compile
#pragma unroll 1
    for (int k = 0; k < 16; k++) {
        const float8 left = convert_float8(as_half8(sub_group_broadcast(a, k)));
        sums = fma(left, (float8)(right[k]), sums);
    }
    return sums;
}
