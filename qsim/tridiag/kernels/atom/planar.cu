// Steps of an electron in a central potential and a field that turns in the xy plane: many steps, and their observables on request,
// in one launch (chunks.cuh).  Lanes are channels (l, m); four families of pairs, two to m + 1 and two to m - 1, with
// the x axis along the field; the frame turns between steps.
//
// qsim-compile: -DREAL=double -DROWS=4
// qsim-compile: may-spill=planar_length_steps
#include "velocity.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    planar_length_steps(cplx* state, cplx* tips, int* flags, const cplx* alpha, const cplx* beta, const cplx* gain,
                        const cplx* keep, const cplx* alpha_part, const cplx* beta_part, const cplx* alpha_chunk,
                        const cplx* beta_chunk, const int* reach, const cplx* more, const int* pairs, const int* counts, const real* coupling,
                        const real* r, const real* mask, const real* momenta, const real* moves, const int* samples,
                        const real* weight, const real* force, const real* edge, real* sums, cplx* kept, int lanes, int rows,
                        int chunks, int blocks, int window, int first, int last, int steps, int base, int places,
                        int members) {
    const Radial t = {alpha, beta, gain, keep, alpha_part, beta_part, alpha_chunk, beta_chunk, reach, more};
    const Steps s = {state,   tips,  flags, pairs, counts, coupling, nullptr, r,      mask,   momenta, moves, samples,
                     weight,  force, edge,  sums,  lanes,  rows,     chunks,  blocks, window, 4,       first, last,
                     steps,   base,  places, members, kept};
    length_sweeps(s, t);
}

extern "C" __global__ void __launch_bounds__(MIX_THREADS) planar_velocity_steps(
    cplx* state, cplx* tips, int* flags, const cplx* alpha, const cplx* beta, const cplx* gain, const cplx* keep,
    const cplx* alpha_part, const cplx* beta_part, const cplx* alpha_chunk, const cplx* beta_chunk, const int* reach, const cplx* more,
    const int* pairs, const int* counts, const real* coupling, const real* r, const real* mask, const real* momenta, const real* moves,
    const int* samples, const real* weight, const real* force, const real* edge, real* sums, cplx* kept, const real* growth,
    const real* inverse_r, const real* inverse_slope, const real* root, const int* felt, int points, const int* kinds,
    const int* actions, real* products, real* wholes, real* lost, const real* inner, int inner_rows, int lanes, int rows, int chunks,
    int blocks, int window, int first, int last, int steps, int base, int places, int members) {
    const Radial t = {alpha, beta, gain, keep, alpha_part, beta_part, alpha_chunk, beta_chunk, reach, more};
    const Steps s = {state,  tips,  flags, pairs, counts, coupling, growth, r,    mask,   momenta, moves, samples,
                     weight, force, edge,  sums,  lanes,  rows,     chunks, blocks, window, 4,       first, last,
                     steps,  base,  places, members, kept};
    const Mix x = {inverse_r, inverse_slope, root, felt, points};
    const Operations o = {kinds, actions, products, wholes, lost, inner, inner_rows};
    velocity_sweeps(s, t, x, o);
}
