// Steps in length gauge of an electron in a central potential, in a field along z: many steps, and their observables on request,
// in one launch.  One block holds `rows` points with all l (chunks.cuh).
//
// Per point, l and step: about 24 fused multiply-adds of the radial step, 12 and 25 of the couplings and their angles;
// bytes, where a block has several chunks: 64 of tables, 32 of the state.
//
// qsim-compile: -DREAL=double -DROWS=4
#include "chunks.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    length_steps(cplx* state, cplx* tips, int* flags, const cplx* alpha, const cplx* beta, const cplx* gain, const cplx* keep,
                 const cplx* alpha_part, const cplx* beta_part, const cplx* alpha_chunk, const cplx* beta_chunk,
                 const int* reach, const cplx* more, const int* pairs, const int* counts, const real* coupling, const real* r,
                 const real* mask, const real* moves, const int* samples, const real* weight, const real* force,
                 const real* edge, real* sums, cplx* kept, int lanes, int rows, int chunks, int blocks, int window, int first,
                 int last, int steps, int base, int places, int members) {
    const Radial t = {alpha, beta, gain, keep, alpha_part, beta_part, alpha_chunk, beta_chunk, reach, more};
    const Steps s = {state,   tips,  flags, pairs, counts, coupling, nullptr, r,      mask,   nullptr, moves, samples,
                     weight,  force, edge,  sums,  lanes,  rows,     chunks,  blocks, window, 2,       first, last,
                     steps,   base,  places, members, kept};
    length_sweeps(s, t);
}
