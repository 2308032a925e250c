// Trotter-Suzuki layers of a spin-1/2 state vector: diagonal phases between global rotations of all spins.
//
// A layer is D_a(tau) = exp(-i tau (sum J^a S^a S^a + sum h^a S^a)), diagonal in the frame of axis a; neighbouring frames differ by
// C or C^dagger on every spin, C = 1/sqrt2 [[1, -i], [1, i]] (C S^z C^dagger = S^x, C S^x C^dagger = S^y).  C is a Hadamard matrix
// after diag(1, -i), C^dagger is one before diag(1, i): the diagonal parts join the phases next to them, the rotations that are left
// are additions only, and their factors 2^(-N/2) go into the phases too.  Nothing but phases is ever rounded.
//
// The state is visited in tiles of 2^BITS amplitudes, 16 in a thread's registers.  Rotations of different bits commute and D needs
// all bits rotated, so the passes go to and fro over the groups of bits: a turning pass does rotation k, phase k and rotation k + 1
// on its group while the tile is on the chip; groups in between need one rotation pass (mid_pass).  Passes a layer: groups - 1.
//
// Phases need no tables of 2^N numbers: with the bits outside of the tile fixed, the energy is a constant, a field on every bit of
// the tile, and the couplings within the tile; the last are tabulated once (2^(BITS - 4) numbers), and a thread multiplies its 16
// phases from five exponentials.
//
// Bytes an amplitude and pass: 32 (double).  FP64 instructions an amplitude and layer: 2 N (additions) + 25.
//
// Rotations of lanes put a few registers out in mid_pass; member_layers spills only with tiles of 13 bits, which it is not used for.
// qsim-compile: may-spill=mid_pass,member_layers
// qsim-compile: -DBITS=12 -DRESIDENT=2
// qsim-compile: -DBITS=13 -DRESIDENT=1
// qsim-compile: -DBITS=9 -DRESIDENT=2
#include "qsim.cuh"

#ifndef BITS
#define BITS 12  // bits of a tile: 8 to 13
#endif
#ifndef RESIDENT
#define RESIDENT 2  // blocks a multiprocessor shall hold
#endif
#define THREADS (1 << (BITS - 4))
#define TOP (BITS - 4)  // lowest register bit of the outer layout

QSIM_DEVICE void rotate_register(cplx (&v)[16], int r) {
#pragma unroll
    for (int j = 0; j < 16; ++j)
        if (!(j >> r & 1)) {
            const cplx a = v[j], b = v[j | 1 << r];
            v[j] = a + b;
            v[j | 1 << r] = a - b;
        }
}

// A bit that numbers lanes: partners exchange their amplitudes.
QSIM_DEVICE void rotate_lanes(cplx (&v)[16], int bit) {
    const real sign = threadIdx.x >> bit & 1 ? real(-1) : real(1);
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        v[j].re = fma(sign, v[j].re, __shfl_xor_sync(QSIM_ALL_LANES, v[j].re, 1 << bit));
        v[j].im = fma(sign, v[j].im, __shfl_xor_sync(QSIM_ALL_LANES, v[j].im, 1 << bit));
    }
}

// Layouts: the registers hold the top bits of the tile (outer), bits 4 to 7 (middle) or bits 0 to 3 (inner).  Index in the tile of
// register 0, and the distance of the registers.
struct outer {
    static constexpr int step = 1 << TOP;
    QSIM_MEMBER static int first(int t) { return t; }
};
struct middle {
    static constexpr int step = 16;
    QSIM_MEMBER static int first(int t) { return (t & 15) | (t >> 4) << 8; }
};
struct inner {
    static constexpr int step = 1;
    QSIM_MEMBER static int first(int t) { return t << 4; }
};

// Rotate the bits from `lowest` on that a layout reaches.
QSIM_DEVICE void rotate_outer(cplx (&v)[16], int lowest) {
#pragma unroll
    for (int r = 0; r < 4; ++r)
        if (TOP + r >= 8 && TOP + r >= lowest) rotate_register(v, r);
}
QSIM_DEVICE void rotate_middle(cplx (&v)[16], int lowest, bool lanes) {
#pragma unroll
    for (int r = 0; r < 4; ++r)
        if (4 + r >= lowest) rotate_register(v, r);
    if (TOP > 8 && lowest <= 8) rotate_lanes(v, 4);  // bit 8 of a tile of 13: bit 4 of the thread
    if (lanes) {
        if (lowest <= 3) rotate_lanes(v, 3);
        if (lowest <= 2) rotate_lanes(v, 2);
    }
}
QSIM_DEVICE void rotate_inner(cplx (&v)[16]) {
#pragma unroll
    for (int r = 0; r < 4; ++r) rotate_register(v, r);
}

// The tile in shared memory, with a gap after every 16 amplitudes: no bank conflicts in any layout.
struct Tile {
    cplx* s;

    template <typename Layout> QSIM_MEMBER void put(const cplx (&v)[16]) const {
        const int i = Layout::first(threadIdx.x);
        cplx* at = s + i + (i >> 4);
#pragma unroll
        for (int j = 0; j < 16; ++j) at[j * Layout::step + j * Layout::step / 16] = v[j];
    }
    template <typename Layout> QSIM_MEMBER void get(cplx (&v)[16]) const {
        const int i = Layout::first(threadIdx.x);
        const cplx* at = s + i + (i >> 4);
#pragma unroll
        for (int j = 0; j < 16; ++j) v[j] = at[j * Layout::step + j * Layout::step / 16];
    }
};

// ------------------------------------------------------------------------------------------------ phases

struct Couplings {
    const double* pairs;   // (spins, spins), symmetric, zero diagonal: J of the axis
    const double* fields;  // (spins): h of the axis
    const double* table;   // tile: (THREADS) energies of the thread's bits, (4, THREADS) their fields on the register bits, (16)
                           // energies of the register bits, all from couplings within the tile
};

struct Outside {  // what the bits outside of the tile do to it
    double energy[2];
    double field[BITS];
    cplx inside[16];  // phases of the register bits among themselves
};

QSIM_DEVICE double spin(uint64 n, int bit) { return 0.5 - (double)(n >> bit & 1); }

// Sums over the bits outside; called by every thread before a barrier.  start: index of the tile's first amplitude.
QSIM_DEVICE void look_outside(const Couplings& c, uint64 start, int spins, int low, int high, double turns, Outside& o) {
    const int t = threadIdx.x, end = high + BITS - low;
    if (t < 64) {
        double energy = 0;
        if (t < spins) {
            double f = 0;
            for (int k = low; k < high; ++k) f = fma(c.pairs[k * spins + t], spin(start, k), f);
            for (int k = end; k < spins; ++k) f = fma(c.pairs[k * spins + t], spin(start, k), f);
            const double h = c.fields[t];
            if (t < low) o.field[t] = f + h;
            else if (t < high || t >= end) energy = spin(start, t) * (h + 0.5 * f);
            else o.field[t - high + low] = f + h;
        }
        energy = warp_sum(energy);
        if (t % QSIM_WARP == 0) o.energy[t / QSIM_WARP] = energy;
    }
    for (int j = t; j < 16; j += THREADS) {
        double s, co;
        sincospi(turns * c.table[5 * THREADS + j], &s, &co);
        o.inside[j] = {(real)co, (real)-s};
    }
}

// Multiply amplitude j by the product of w, of flip[r] for every set bit r of j, and of inside[j]; depth first, so that only
// one product a level is alive.
template <int R, int J> QSIM_DEVICE void multiply(cplx (&v)[16], const cplx (&flip)[4], const cplx* inside, cplx w) {
    if constexpr (R < 0) {
        v[J] = v[J] * (w * inside[J]);
    } else {
        multiply<R - 1, J>(v, flip, inside, w);
        multiply<R - 1, J | 1 << R>(v, flip, inside, w * flip[R]);
    }
}

// Multiply by exp(-i pi turns E) and by exp(i pi shift) for every spin down; FIRST: lowest of the four register bits, 4 (middle
// layout) or 0 (inner).  start: index of the tile's first amplitude.
template <int FIRST> QSIM_DEVICE void apply_phase(cplx (&v)[16], const Couplings& c, const Outside& o, double turns, double shift,
                             double scale, uint64 start) {
    const int t = threadIdx.x;
    const int index = FIRST == 4 ? middle::first(t) : inner::first(t);
    double e = o.energy[0] + (THREADS > QSIM_WARP ? o.energy[1] : 0.0) + c.table[t];
#pragma unroll
    for (int b = 0; b < BITS; ++b)
        if (b < FIRST || b >= FIRST + 4) e = fma(o.field[b], spin(index, b), e);
    cplx flip[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        const double f = o.field[FIRST + r] + c.table[(1 + r) * THREADS + t];
        e = fma(0.5, f, e);
        double s, co;
        sincospi(fma(turns, f, shift), &s, &co);
        flip[r] = {(real)co, (real)s};
    }
    double s, co;
    sincospi(fma(turns, e, -shift * (double)(__popcll(start) + __popc(index))), &s, &co);
    multiply<3, 0>(v, flip, o.inside, {(real)(scale * co), (real)(-scale * s)});
}

// ------------------------------------------------------------------------------------------------ passes

// Start of block b's tile: its bits are low .. high - 1 and those from high + BITS - low on.
QSIM_DEVICE uint64 tile_start(uint64 b, int low, int high) {
    return (b & ((1ull << (high - low)) - 1)) << low | b >> (high - low) << (high + BITS - low);
}
// Place of this thread's first amplitude in the outer layout, and the distance to the next; low is BITS or at most TOP.
QSIM_DEVICE uint64 place(uint64 start, int low, int high) {
    const int t = threadIdx.x;
    return low == BITS ? start | t : start | (uint64)(t & ((1 << low) - 1)) | (uint64)(t >> low) << high;
}
QSIM_DEVICE uint64 distance(int low, int high) { return 1ull << (low == BITS ? TOP : TOP - low + high); }

QSIM_DEVICE void rotate_in(const Tile& tile, cplx (&v)[16], int lowest, bool all, bool rotate) {
    if (rotate) rotate_outer(v, lowest);
    tile.put<outer>(v);
    __syncthreads();
    tile.get<middle>(v);
    if (rotate) rotate_middle(v, lowest, !all);
    if (all) {
        tile.put<middle>(v);
        __syncthreads();
        tile.get<inner>(v);
        if (rotate) rotate_inner(v);
    }
}

QSIM_DEVICE void rotate_out(const Tile& tile, cplx (&v)[16], int lowest, bool all, bool rotate) {
    if (all) {
        if (rotate) rotate_inner(v);
        tile.put<inner>(v);
        __syncthreads();
        tile.get<middle>(v);
    }
    if (rotate) rotate_middle(v, lowest, !all);
    tile.put<middle>(v);
    __syncthreads();
    tile.get<outer>(v);
    if (rotate) rotate_outer(v, lowest);
}

// Rotation (if `in`), phase and rotation (if `out`) of tiles: bits 0 .. low - 1 and high .. high + BITS - low - 1, of which the first
// are rotated only if low == BITS; else low is 2 .. TOP.  turns: tau / pi; shift: +1/2 for C^dagger before the phase, -1/2 for C after
// it, in units of pi; scale: factor of the phase.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    turn_pass(cplx* __restrict__ psi, const double* __restrict__ pairs, const double* __restrict__ fields,
              const double* __restrict__ table, int spins, int low, int high, int in, int out, double turns, double shift,
              double scale) {
    extern __shared__ char raw[];
    __shared__ Outside o;
    const Tile tile = {(cplx*)raw};
    const Couplings c = {pairs, fields, table};
    cplx v[16];
    const bool all = low == BITS;
    const int lowest = all ? 0 : low;
    const uint64 start = tile_start(blockIdx.x, low, high), step = distance(low, high);
    psi += place(start, low, high);
#pragma unroll
    for (int j = 0; j < 16; ++j) v[j] = psi[j * step];
    look_outside(c, start, spins, low, high, turns, o);
    rotate_in(tile, v, lowest, all, in);
    if (all) apply_phase<0>(v, c, o, turns, shift, scale, start);
    else apply_phase<4>(v, c, o, turns, shift, scale, start);
    rotate_out(tile, v, lowest, all, out);
#pragma unroll
    for (int j = 0; j < 16; ++j) psi[j * step] = v[j];
}

// Rotation alone, of a group between the turning ones.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    mid_pass(cplx* __restrict__ psi, int low, int high) {
    extern __shared__ char raw[];
    const Tile tile = {(cplx*)raw};
    cplx v[16];
    const uint64 start = tile_start(blockIdx.x, low, high), step = distance(low, high);
    psi += place(start, low, high);
#pragma unroll
    for (int j = 0; j < 16; ++j) v[j] = psi[j * step];
    rotate_outer(v, low);
    tile.put<outer>(v);
    __syncthreads();
    tile.get<middle>(v);
    rotate_middle(v, low, true);
    tile.put<middle>(v);
    __syncthreads();
    tile.get<outer>(v);
#pragma unroll
    for (int j = 0; j < 16; ++j) psi[j * step] = v[j];
}

struct Stage {
    double turns, shift, scale;  // as for turn_pass
    int axis, rotate;            // rotation before the phase
};

// Small systems, one block a member of an ensemble: all layers of `stages`, those of first .. last - 1 `repeats` times, without
// leaving the chip.
// psi: (members, 2^BITS); fields: (members, 3, BITS); tables: (members, 3, 5 THREADS + 16), Couplings::table of every member.
extern "C" __global__ void __launch_bounds__(THREADS)
    member_layers(cplx* __restrict__ psi, const double* __restrict__ fields, const double* __restrict__ tables,
                  const Stage* __restrict__ stages, int count, int first, int last, int repeats) {
    extern __shared__ char raw[];
    __shared__ Outside o;
    const Tile tile = {(cplx*)raw};
    const int t = threadIdx.x;
    cplx v[16];
    psi += (uint64)blockIdx.x << BITS;
#pragma unroll
    for (int j = 0; j < 16; ++j) v[j] = psi[j << TOP | t];
    for (int i = 0, left = repeats; i < count; ++i) {
        const Stage stage = stages[i];
        const uint64 member = (uint64)blockIdx.x * 3 + stage.axis;
        const Couplings c = {nullptr, nullptr, tables + member * (5 * THREADS + 16)};
        if (t < BITS) o.field[t] = fields[member * BITS + t];
        if (t < 2) o.energy[t] = 0;
        if (t < 16) {
            double s, co;
            sincospi(stage.turns * c.table[5 * THREADS + t], &s, &co);
            o.inside[t] = {(real)co, (real)-s};
        }
        rotate_in(tile, v, 0, true, stage.rotate);
        apply_phase<0>(v, c, o, stage.turns, stage.shift, stage.scale, 0);
        rotate_out(tile, v, 0, true, false);
        if (i == last - 1 && --left > 0) i = first - 1;
    }
#pragma unroll
    for (int j = 0; j < 16; ++j) psi[j << TOP | t] = v[j];
}
