// Steps of an electron in a central potential, in a field along z, of runs that fit into the registers of the device: many steps, and
// their observables on request, in one launch (warps.cuh).
//
// Per point, l and step: about 26 fused multiply-adds of the radial step, 20 of the couplings of length gauge; in velocity gauge
// about 45 of each of three families of pairs.
//
// qsim-compile: -DREAL=double -DROWS=4
// qsim-compile: may-spill=warp_velocity_steps
#include "warps_velocity.cuh"

extern "C" __global__ void __launch_bounds__(LAUNCHED, 1) warp_length_steps(
    cplx* state, cplx* tips, int* flags, const cplx* alpha, const cplx* beta, const cplx* gain, const cplx* keep,
    const cplx* alpha_part, const cplx* beta_part, const cplx* alpha_chunk, const cplx* beta_chunk, const int* reach, const cplx* more,
    const int* pairs, const int* counts, const real* coupling, const real* r, const real* mask, const real* moves,
    const int* samples, const real* weight, const real* force, const real* edge, real* sums, cplx* kept, const int* waits, uint4* mail,
    int lanes, int rows, int chunks, int blocks, int window, int first, int last, int steps, int base, int places, int members) {
    const Radial t = {alpha, beta, gain, keep, alpha_part, beta_part, alpha_chunk, beta_chunk, reach, more};
    const Steps s = {state,  tips,  flags, pairs, counts, coupling, nullptr, r,    mask,   nullptr, moves, samples,
                     weight, force, edge,  sums,  lanes,  rows,     chunks, blocks, window, 2,       first, last,
                     steps,  base,  places, members, kept};
    warp_length_sweeps(s, t, waits, mail);
}

extern "C" __global__ void __launch_bounds__(LAUNCHED, 1) warp_velocity_steps(
    cplx* state, cplx* tips, int* flags, const cplx* alpha, const cplx* beta, const cplx* gain, const cplx* keep,
    const cplx* alpha_part, const cplx* beta_part, const cplx* alpha_chunk, const cplx* beta_chunk, const int* reach, const cplx* more,
    const int* pairs, const int* counts, const real* coupling, const real* r, const real* mask, const real* moves,
    const int* samples, const real* weight, const real* force, const real* edge, real* sums, cplx* kept, const int* waits, uint4* mail,
    const real* growth, const real* inverse_r, const real* inverse_slope, const real* root, const int* felt, int points,
    const int* kinds, const int* actions, real* products, real* wholes, real* lost, const real* inner, int inner_rows, int lanes,
    int rows, int chunks, int blocks, int window, int first, int last, int steps, int base, int places, int members) {
    const Radial t = {alpha, beta, gain, keep, alpha_part, beta_part, alpha_chunk, beta_chunk, reach, more};
    const Steps s = {state,  tips,  flags, pairs, counts, coupling, growth, r,    mask,   nullptr, moves, samples,
                     weight, force, edge,  sums,  lanes,  rows,     chunks, blocks, window, 2,       first, last,
                     steps,  base,  places, members, kept};
    const Mix x = {inverse_r, inverse_slope, root, felt, points};
    const Operations o = {kinds, actions, products, wholes, lost, inner, inner_rows};
    warp_velocity_sweeps(s, t, x, o, waits, mail);
}
