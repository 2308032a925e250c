// Sweeps of steps along z of states that do not fit on the chip (march.cuh): one launch each.
//
// Per point and sweep: 32 bytes of the state, 4 of pivots; fused multiply-adds: 85 to 95 in length gauge (all of a step), 45 to 65 in velocity
// gauge (one of four operations of a step), all times the rows in which marches begin before their chunks.
//
// qsim-compile: -DREAL=double -DROWS=4
#include "march.cuh"

#define MARCH_KERNEL(name, body)                                                                                                      \
    extern "C" __global__ void __launch_bounds__(MARCH_THREADS, MARCH_BLOCKS) name(                                                  \
        const cplx* from, cplx* to, const cplx* down, const cplx* up, const Row* rows, const real* of_lanes, const real* of_columns,  \
        const real* edge, const int* begins, const int* alike, const real* moves, const real* inner, const real* pivots_from,         \
        real* pivots_to, real* sums, real* lost, int lanes, int length, int chunks, int strips, int blocks, int members, int sweeps,  \
        int places, int inner_rows, int direction, int sweep, int place, int what) {                                                  \
        const March m = {from, to, down, up, rows, of_lanes, of_columns, edge, begins, alike, moves, inner, pivots_from, pivots_to,   \
                         sums, lost, lanes, length, chunks, strips, blocks, members, sweeps, places, inner_rows, direction, sweep,    \
                         place, what};                                                                                                \
        body(m);                                                                                                                      \
    }

// all of a step between two radial steps; the same where the state is needed whole, and at the ends of a run
MARCH_KERNEL(march_length_sweep, march_length<false>)
MARCH_KERNEL(march_length_whole, march_length<true>)
// an operation of velocity gauge and the next: E even pairs, O odd pairs, R radial step
MARCH_KERNEL(march_even_odd, (march_velocity<0, 1>))
MARCH_KERNEL(march_odd_radial, (march_velocity<1, RADIAL_STEP>))
MARCH_KERNEL(march_radial_odd, (march_velocity<RADIAL_STEP, 1>))
MARCH_KERNEL(march_odd_even, (march_velocity<1, 0>))
MARCH_KERNEL(march_even_even, (march_velocity<0, 0>))
