// Walkers: moves, local energies, weights, T-moves, and everything anew from the positions.  Without CRYSTAL those of molecules, whose
// moves have a module of their own (MOVES), with as many lanes as suits them.  A group of LANES lanes of a warp carries a walker: one
// lane where there are few electrons, which leave the others nothing to do.
//
// Energies and T-moves are kernels of their own: they wait for dependent double-precision operations, so what counts is how
// many warps a multiprocessor holds, and together they would need twice the registers of each.
//
// The random numbers are those of the CPU: a counter is (generation, walker, purpose, section).  State stays in global memory (1 to
// 40 kB per walker, in cache between launches); shared memory holds what the lanes of a walker exchange.
//
// qsim-compile: may-spill=walk,energies,weigh,nonlocal_steps
// qsim-compile: -DWARPS=4
// qsim-compile: -DWARPS=1 -DLANES=1
// qsim-compile: -DWARPS=4 -DLANES=8
// qsim-compile: -DWARPS=4 -DLANES=16 -DELECTRONS=8 -DELECTRONS_UP=4 -DATOMS=3 -DORBITALS=4 -DFILLED=4 -DBASIS=57 -DSHELLS=21 -DQUADRATURE=12
// qsim-compile: -DMOVES -DWARPS=4
// qsim-compile: -DMOVES -DWARPS=1 -DLANES=1
// qsim-compile: -DMOVES -DWARPS=4 -DLANES=8 -DELECTRONS=8 -DELECTRONS_UP=4 -DATOMS=3 -DORBITALS=4 -DFILLED=4 -DBASIS=57 -DSHELLS=21 -DQUADRATURE=12
// qsim-compile: -DWARPS=4 -DLANES=8 -DEXPANSION=1 -DREAL=float
// qsim-compile: -DMOVES -DWARPS=4 -DLANES=8 -DEXPANSION=1
// qsim-compile: -DMOVES -DWARPS=1 -DLANES=1 -DEXPANSION=1
// qsim-compile: -DCRYSTAL -DWARPS=4 -DVEC=2 -DNEAR_PAIRS=3
// qsim-compile: -DCRYSTAL -DWARPS=4 -DVEC=2 -DCOMPLEX=1
// qsim-compile: -DCRYSTAL -DWARPS=4 -DLANES=8 -DROW_LANES=8
// qsim-compile: -DCRYSTAL -DWARPS=4 -DPART=2 -DCHUNKS=2 -DWINDOW=4 -DREAL=double
// qsim-compile: -DCRYSTAL -DWARPS=4 -DTINS=1
// qsim-compile: -DCRYSTAL -DWARPS=4 -DCLOCKS=1 -DREAL=float
//
// The headers bring `Tables` (the record of launch.py), `ENTER`, and `move`, `refresh`, `local_energy`, `nonlocal_moves`.
// What both have in common comes first: a header is written into the text once, where it is first included, and that must not be in a
// part that the compiler leaves out.
#include "../common/functions.cuh"
#include "../common/walkers.cuh"
#ifdef CRYSTAL
#include "../crystal/energies.cuh"
#else
#include "../molecule/curves.cuh"
#include "../molecule/molecules.cuh"
#ifdef MOVES
#include "../molecule/moves.cuh"
#else
#include "../molecule/energies.cuh"
#endif
#endif

// One launch for all kernels: blocks of WARPS warps, dynamic shared memory for 32 WARPS / LANES walkers.

#ifndef MOVES
// Rows, inverses and log psi; error: (W,).
extern "C" __global__ void recompute(Tables m, State s, double* error) {
    ENTER
    const double worst = refresh(m, s, w, local);
    if (lane_of() == 0) error[w] = worst;
}
#endif

#if defined(CRYSTAL) || defined(MOVES)
extern "C" __global__ void BOUNDS
    walk(Tables m, State s, double tau, int mode, int sweeps, uint32 k0, uint32 k1, uint32 stream, uint32 step, uint32 offset) {
    ENTER
    move(m, s, w, local, tau, mode, sweeps, {make_uint2(k0, k1), stream, step, offset});
}
#endif

#ifndef MOVES
// sums: (W, 8): components, square of the total, generations; or none.
extern "C" __global__ void BOUNDS
    energies(Tables m, State s, uint32 k0, uint32 k1, uint32 stream, uint32 step, uint32 offset, double* sums) {
    ENTER
    CLOCK(WHOLE_KERNEL);
    const double total = local_energy(m, s, w, {make_uint2(k0, k1), stream, step, offset + (uint32)w}, local);
    if (sums && lane_of() == 0) {
        for (int c = 0; c < 6; ++c) sums[8 * w + c] += s.energy[6 * w + c];
        sums[8 * w + 6] += total * total;
        sums[8 * w + 7] += 1;
    }
}

// New energies, and the weights of a generation of diffusion; the old energies are those before its moves.
extern "C" __global__ void BOUNDS
    weigh(Tables m, State s, double tau, double reference, double trial, double window, uint32 k0, uint32 k1, uint32 stream, uint32 step,
          uint32 offset) {
    ENTER
    CLOCK(WHOLE_KERNEL);
    const double before = clipped(s.energy[6 * w + 5], reference, window);
    join();  // all lanes have read it before one of them writes the new one
    const double energy = local_energy(m, s, w, {make_uint2(k0, k1), stream, step, offset + (uint32)w}, local);
    const double after = clipped(energy, reference, window);
    if (lane_of() == 0) s.weight[w] *= exp(-tau * (0.5 * (before + after) - trial));
}

// T-moves by the values that `weigh` left in scratch.
extern "C" __global__ void BOUNDS
    nonlocal_steps(Tables m, State s, double tau, uint32 k0, uint32 k1, uint32 stream, uint32 step, uint32 offset) {
    ENTER
    CLOCK(WHOLE_KERNEL);
    nonlocal_moves(m, s, w, tau, {make_uint2(k0, k1), stream, step, offset + (uint32)w}, local);
}
#endif
