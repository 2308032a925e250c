// Rotation of the top bits of a part of a state, with phases, on the way to other processes or from them.
//
// A process has 2^GLOBAL parts, one for each value of the top bits of its index; part b is exchanged with process b, its own stays.
// One pass reads the amplitudes of a column from all parts, multiplies each by the factor of its part, acts on the GLOBAL bits, and
// writes them: what leaves goes to the buffer that is sent from, what has arrived comes from the buffer that was received into.  The
// copies out of and into these buffers thus cost nothing.
//
// A thread has the 2^GLOBAL amplitudes of a column in registers.  Bytes per amplitude: 32 (double).
//
// qsim-compile: -DGLOBAL=1
// qsim-compile: -DGLOBAL=2
// qsim-compile: -DGLOBAL=3
// qsim-compile: -DGLOBAL=4
#include "qsim.cuh"

#ifndef GLOBAL
#define GLOBAL 1  // bits: 1 to 4
#endif
#define PARTS (1 << GLOBAL)

// What is done to the bits, as `Act` of top.py.
#define MOVE 0    // nothing
#define ROTATE 1  // Hadamard rotation without its factor 2^(-1/2) per bit
#define GATES 2   // a matrix for each bit

// psi: first amplitude of the columns in part 0, of which the next lies `part` further; buffer: (PARTS - 1, width), rows of partner
// rank ^ 1, rank ^ 2, ..., or none; arrived: the buffer holds what came, and is read; otherwise it is written; factors: (PARTS), of
// each part; gates: (GLOBAL, 2, 2), from the lowest bit on.
extern "C" __global__ void __launch_bounds__(256)
    rotate_top(cplx* psi, cplx* buffer, const cplx* __restrict__ factors, const cplx* __restrict__ gates, uint64 part, uint64 width,
               int rank, int arrived, int act) {
    const uint64 i = (uint64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= width) return;
    cplx v[PARTS];
    // All loads of a column are on their way together.
#pragma unroll
    for (int b = 0; b < PARTS; ++b) {
        const bool from_buffer = buffer && arrived && b != rank;
        v[b] = from_buffer ? buffer[(uint64)((b ^ rank) - 1) * width + i] : psi[b * part + i];
    }
#pragma unroll
    for (int b = 0; b < PARTS; ++b) v[b] = v[b] * factors[b];
#pragma unroll
    for (int k = 0; k < GLOBAL; ++k)
#pragma unroll
        for (int b = 0; b < PARTS; ++b)
            if (!(b >> k & 1)) {
                const cplx up = v[b], down = v[b | 1 << k];
                if (act == ROTATE) {
                    v[b] = up + down;
                    v[b | 1 << k] = up - down;
                } else if (act == GATES) {
                    const cplx* m = gates + 4 * k;
                    v[b] = cfma(m[1], down, m[0] * up);
                    v[b | 1 << k] = cfma(m[3], down, m[2] * up);
                }
            }
#pragma unroll
    for (int b = 0; b < PARTS; ++b) {
        const bool to_buffer = buffer && !arrived && b != rank;
        (to_buffer ? buffer + (uint64)((b ^ rank) - 1) * width : psi + b * part)[i] = v[b];
    }
}
