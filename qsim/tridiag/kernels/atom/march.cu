// Sweeps of steps along z of states that do not fit on the chip (march.cuh): one launch each.
//
// Per point and sweep: 32 bytes of the state, 4 of pivots; fused multiply-adds: 85 to 95 in length gauge (all of a step), 30 to 60 in velocity
// gauge (one of four operations of a step), all times the rows in which marches begin before their chunks.
//
// qsim-compile: -DREAL=double -DROWS=4
#include "march.cuh"

extern "C" __global__ void __launch_bounds__(MARCH_THREADS, MARCH_BLOCKS) march_length(
    const cplx* from, cplx* to, const cplx* down, const cplx* up, const Row* rows, const real* of_lanes, const real* of_columns,
    const real* edge, const int* begins, const int* alike, const real* moves, const real* inner, const real* pivots_from, real* pivots_to,
    real* sums, real* lost, int lanes, int length, int chunks, int strips, int blocks, int members, int sweeps, int places, int inner_rows,
    int direction, int sweep, int place, int what) {
    const March m = {from,  to,   down,   up,    rows,   of_lanes, of_columns, edge,    begins, alike,  moves,      inner,     pivots_from, pivots_to, sums,
                     lost,  lanes, length, chunks, strips, blocks,  members,    sweeps, places, inner_rows, direction, sweep, place,       what};
    if (what / KIND)
        length_sweep<true>(m);
    else
        length_sweep<false>(m);
}

// Kinds: an operation of velocity gauge and the next, as in VELOCITY of march.py.
extern "C" __global__ void __launch_bounds__(MARCH_THREADS, MARCH_BLOCKS) march_velocity(
    const cplx* from, cplx* to, const cplx* down, const cplx* up, const Row* rows, const real* of_lanes, const real* of_columns,
    const real* edge, const int* begins, const int* alike, const real* moves, const real* inner, const real* pivots_from, real* pivots_to,
    real* sums, real* lost, int lanes, int length, int chunks, int strips, int blocks, int members, int sweeps, int places, int inner_rows,
    int direction, int sweep, int place, int what) {
    const March m = {from,  to,   down,   up,    rows,   of_lanes, of_columns, edge,    begins, alike,  moves,      inner,     pivots_from, pivots_to, sums,
                     lost,  lanes, length, chunks, strips, blocks,  members,    sweeps, places, inner_rows, direction, sweep, place,       what};
    switch (what / KIND) {
    case 0: velocity_sweep<0, 1>(m); break;
    case 1: velocity_sweep<1, RADIAL_STEP>(m); break;
    case 2: velocity_sweep<RADIAL_STEP, 1>(m); break;
    case 3: velocity_sweep<1, 0>(m); break;
    default: velocity_sweep<0, 0>(m);
    }
}
