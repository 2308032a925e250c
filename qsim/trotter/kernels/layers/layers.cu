// Trotter-Suzuki layers of a spin-1/2 state vector: diagonal phases between global rotations of all spins.
//
// A layer is D_a(tau) = exp(-i tau (sum J^a S^a S^a + sum h^a S^a)), diagonal in the frame of axis a; neighbouring frames differ by
// C or C^dagger on every spin, C = 1/sqrt2 [[1, -i], [1, i]] (C S^z C^dagger = S^x, C S^x C^dagger = S^y).  C is a Hadamard matrix
// after diag(1, -i), C^dagger is one before diag(1, i): the diagonal parts join the phases next to them, the rotations that are left
// are additions only, and their factors 2^(-N/2) go into the phases too.  Nothing but phases is ever rounded.
//
// The state is visited in tiles of 2^BITS amplitudes, 16 in a thread's registers.  Rotations of different bits commute and D needs
// all bits rotated, so the passes go to and fro over the groups of bits: a turning pass does rotation k, phase k and rotation k + 1
// on its group while the tile is on the chip; groups in between need one rotation pass (mid_pass).  Passes per layer: groups - 1.
//
// Phases need no tables of 2^N numbers: with the bits outside of the tile fixed, the energy is a constant, a field on every bit of
// the tile, and the couplings within the tile.  The exponentials of the last are tabulated once a layer (5 * 2^(BITS - 4) + 16
// numbers, phase_factors), the fields of the lower and the upper half of the outside for each of their values (2^((N - BITS) / 2)
// rows); a block makes the exponentials of the fields, and a thread multiplies its 16 phases.
//
// Bytes an amplitude and pass: 32 (double).  FP64 instructions an amplitude and layer: 2 N (additions) + 16.
//
// A multiprocessor holds 16 warps of such threads, which is few: what counts is the number of instructions between loads and stores.
// The shape of a tile is therefore known to the compiler (LOW), and a tile crosses blocks' barriers only where it must.
//
// qsim-compile: may-spill=turn_pass,member_layers
// qsim-compile: -DBITS=12 -DLOW=12 -DRESIDENT=2
// qsim-compile: -DBITS=12 -DLOW=4 -DRESIDENT=2
// qsim-compile: -DBITS=12 -DLOW=2 -DRESIDENT=2
// qsim-compile: -DBITS=12 -DLOW=3 -DRESIDENT=2
// qsim-compile: -DBITS=13 -DLOW=13 -DRESIDENT=1
// qsim-compile: -DBITS=13 -DLOW=2 -DRESIDENT=1
// qsim-compile: -DBITS=12 -DLOW=12 -DRESIDENT=2 -DOVERLAP=1
// qsim-compile: -DBITS=12 -DLOW=4 -DRESIDENT=2 -DOVERLAP=1
// qsim-compile: -DBITS=9 -DLOW=9 -DRESIDENT=2
#include "qsim.cuh"
#include "tile.cuh"

#ifndef RESIDENT
#define RESIDENT 2  // blocks that a multiprocessor must hold
#endif
#ifndef EARLY
#define EARLY (sizeof(real) == 8 && (ALL || LOW > 3))  // whether there are registers for the factors while the tile is on its way
#endif
#ifndef OVERLAP
#define OVERLAP 0  // a pass of a recorded step begins before the one before has ended
#endif

// ------------------------------------------------------------------------------------------------ phases
// Which bits the tables of a tile belong to.

QSIM_DEVICE constexpr int register_bit(int r) {
    return ALL ? r : r == 1 && CROSS8 ? 8 : r == 2 && CROSS2 ? 2 : r == 3 && CROSS3 ? 3 : r + 4;
}
QSIM_DEVICE constexpr int thread_bit(int k) {
    return ALL ? k + 4 : k == 2 && CROSS2 ? 6 : k == 3 && CROSS3 ? 7 : k == 4 && CROSS8 ? 5 : k < 4 ? k : k + 4;
}

// Exponentials of the energies of a tile: of the thread's bits with the register bits up, of each register bit down, of the register bits
// among themselves.
extern "C" __global__ void __launch_bounds__(THREADS)
    phase_factors(const double* __restrict__ table, cplx* __restrict__ factors, double turns) {
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < TABLE; i += gridDim.x * THREADS) {
        double angle = table[i];
        if (i < THREADS)
            for (int r = 1; r <= 4; ++r) angle = fma(0.5, table[r * THREADS + i], angle);
        if (i < THREADS || i >= 5 * THREADS) angle = -angle;
        double s, c;
        sincospi(turns * angle, &s, &c);
        factors[i] = {(real)c, (real)s};
    }
}

// What the bits outside of a tile do, for every value of their lower `half` bits and for every value of the others, a row each: fields
// on the bits of the tile (BITS; of the upper half with h), energy; of the upper half also its fields on the lower half.
struct Layer {
    const double *lower, *upper;
    int half;  // bits
    double turns, shift, scale;
};

struct Place {  // of a tile in the state
    uint64 start;  // index of its first amplitude; its bits are 0 .. LOW - 1 and high .. end - 1
    int high, end;

    QSIM_MEMBER Place(uint64 b, int high) : high(high), end(high + BITS - LOW) {
        start = ALL ? b << BITS : (b & ((1ull << (high - LOW)) - 1)) << LOW | b >> (high - LOW) << end;
    }
    // Index of this thread's first amplitude in the outer layout, and the distance to the next.
    QSIM_MEMBER uint64 first() const {
        const int t = threadIdx.x;
        return ALL ? start | t : start | (uint64)(t & ((1 << LOW) - 1)) | (uint64)(t >> (ALL ? 0 : LOW)) << high;
    }
    QSIM_MEMBER uint64 distance() const { return ALL ? 1ull << TOP : 1ull << (TOP - LOW + high); }
};

QSIM_DEVICE double from_lane(double x, int lane) { return __shfl_sync(QSIM_ALL_LANES, x, lane); }
QSIM_DEVICE double lane_sum(double x) {  // in every lane
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(QSIM_ALL_LANES, x, lanes);
    return x;
}

struct Outside {  // exponentials of what the bits outside of the tile do to it
    cplx base;                  // energy of those bits
    cplx low[16];               // fields on the thread's bits 0 to 3, with the register bits up and all factors
    cplx high[1 << (TOP - 4)];  // and on the others
    cplx flip[4];               // fields on the register bits
    cplx inside[16];            // the register bits among themselves

    // Called by every thread before a barrier; two warps work, while the tile is on its way.  number: of the tile in the state.
    QSIM_MEMBER void look(const Layer& layer, unsigned number, const cplx* factors) {
        const int t = threadIdx.x, lane = t % QSIM_WARP, first = number & ((1 << layer.half) - 1);
        const double* lower = layer.lower + first * (BITS + 1);
        const double* upper = layer.upper + (number >> layer.half) * (BITS + 1 + layer.half);
        double s, c;
        if (t < QSIM_WARP) {  // first a lane for each bit of the tile, then 16 for `low` and 16 for `high`
            const double f = lane < BITS ? lower[lane] + upper[lane] : 0.0, up = -0.5 * layer.turns * lane_sum(f);
            const double angle = fma(layer.turns, f, layer.shift);
            double sum = lane < 16 ? up : 0.0;
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const double one = from_lane(angle, thread_bit(k));
                const double two = from_lane(angle, thread_bit(4 + k < TOP ? 4 + k : 4));
                if (lane >> k & 1) sum += lane < 16 ? one : two;
            }
            sincospi(sum, &s, &c);
            if (lane < 16) low[lane] = {(real)(layer.scale * c), (real)(layer.scale * s)};
            else if (lane < 16 + (1 << (TOP < 8 ? TOP - 4 : 4))) high[lane - 16] = {(real)c, (real)s};
            if constexpr (TOP > 8) {
                sincospi(sum + from_lane(angle, thread_bit(8)), &s, &c);
                if (lane >= 16) high[lane] = {(real)c, (real)s};
            }
        }
        if (THREADS == QSIM_WARP || t / QSIM_WARP == 1) {  // a lane for each bit of the lower half outside, and two; then four for `flip`
            double energy = 0;
            if (lane < layer.half) energy = (first >> lane & 1 ? -0.5 : 0.5) * upper[BITS + 1 + lane];
            if (lane == layer.half) energy = lower[BITS];
            if (lane == layer.half + 1) energy = upper[BITS];
            double angle = fma(-layer.turns, lane_sum(energy), layer.shift * (double)__popc(number));
#pragma unroll
            for (int r = 0; r < 4; ++r)
                if (lane == r) angle = fma(layer.turns, lower[register_bit(r)] + upper[register_bit(r)], layer.shift);
            sincospi(angle, &s, &c);
            if (lane < 4) flip[lane] = {(real)c, (real)s};
            if (lane == 4) base = {(real)c, (real)s};
        }
        if (t >= THREADS - 16) inside[t - THREADS + 16] = factors[4 * THREADS + 16 + t];
    }
};

struct Own {  // a thread's exponentials from the couplings within its tile
    cplx up, flip[4];

    QSIM_MEMBER void load(const cplx* __restrict__ factors) {
        up = factors[threadIdx.x];
#pragma unroll
        for (int r = 0; r < 4; ++r) flip[r] = factors[(1 + r) * THREADS + threadIdx.x];
    }
};

// Multiply by scale exp(-i pi turns E) and by exp(i pi shift) for every spin down.
QSIM_DEVICE void apply_phase(cplx (&v)[16], Own& own, const Outside& o) {
    const int t = threadIdx.x;
    const cplx w = (o.low[t & 15] * o.high[t >> 4]) * (o.base * own.up);
#pragma unroll
    for (int r = 0; r < 4; ++r) own.flip[r] = o.flip[r] * own.flip[r];
    multiply<3, 0>(v, own.flip, o.inside, w);
}

// ------------------------------------------------------------------------------------------------ passes

QSIM_DEVICE complex_of<double> fetched(const complex_of<double>* at) { return *at; }
QSIM_DEVICE complex_of<float> fetched(const complex_of<float>* at) {  // past the first-level cache, which these would fill
    const float2 x = __ldcg((const float2*)at);
    return {x.x, x.y};
}

QSIM_DEVICE void load(const cplx* psi, const Place& tile, cplx (&v)[16]) {
    psi += tile.first();
    const uint64 step = tile.distance();
#pragma unroll
    for (int j = 0; j < 16; ++j) v[j] = fetched(psi + j * step);
}

QSIM_DEVICE void store(cplx* psi, const Place& tile, const cplx (&v)[16]) {
    psi += tile.first();
    const uint64 step = tile.distance();
#pragma unroll
    for (int j = 0; j < 16; ++j) psi[j * step] = v[j];
}

// Passes that wait for launches more than for memory: tables are read while the pass before ends.
QSIM_DEVICE void let_the_next_begin() {
#if OVERLAP && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
QSIM_DEVICE void wait_for_the_last() {
#if OVERLAP && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Rotation (if `in`), phase and rotation (if `out`) of tiles: bits 0 .. LOW - 1 and high .. high + BITS - LOW - 1, of which the first
// are rotated only if LOW == BITS.  turns: tau / pi; shift: +1/2 for C^dagger before the phase, -1/2 for C after it, in units of pi;
// scale: factor of the phase; lower, upper: see Layer; factors: (TABLE).  Tiles start, start + 1, ..., one a block.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    turn_pass(cplx* psi, const double* __restrict__ lower, const double* __restrict__ upper, const cplx* __restrict__ factors,
              int half, int high, int in, int out, double turns, double shift, double scale, unsigned start) {
    extern __shared__ __align__(16) char raw[];
    __shared__ Outside o;
    const Tile shared = {(cplx*)raw};
    const unsigned number = blockIdx.x + start;
    const Place tile(number, high);
    const Layer layer = {lower, upper, half, turns, shift, scale};
    cplx v[16];
    Own own;
    // Tables are read while the pass before may still write: they do not depend on psi. psi itself is read
    // after it has ended.
    let_the_next_begin();
    if constexpr (OVERLAP) o.look(layer, number, factors);
    if constexpr (OVERLAP && EARLY) own.load(factors);
    wait_for_the_last();
    // The loads of the tile are under way while exponentials are made.
    load(psi, tile, v);
    if constexpr (!OVERLAP && EARLY) own.load(factors);
    if constexpr (!OVERLAP) o.look(layer, number, factors);
    // Rotation of the layer before, as far as its bits are in this tile; then the phase, which needs all
    // bits rotated; then the rotation to the next frame.
    if (in) go_in<true>(shared, v);
    else go_in<false>(shared, v);
    if constexpr (!EARLY) own.load(factors);
    apply_phase(v, own, o);
    if (out) go_out<true>(shared, v);
    else go_out<false>(shared, v);
    store(psi, tile, v);
}

#if LOW < BITS
// Rotation alone, of a group between the turning ones.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) mid_pass(cplx* psi, int high) {
    extern __shared__ __align__(16) char raw[];
    const Tile shared = {(cplx*)raw};
    const Place tile(blockIdx.x, high);
    cplx v[16];
    let_the_next_begin();
    wait_for_the_last();
    load(psi, tile, v);
    rotate_outer(v);
    shared.put<outer>(v);
    __syncthreads();
    shared.get<middle>(v);
    cross_over<true>(v);
    shared.put<crossed>(v);
    __syncthreads();
    shared.get<outer>(v);
    store(psi, tile, v);
}
#else
// ------------------------------------------------------------------------------------------------ small systems

struct Stage {
    double turns, shift, scale;  // as for turn_pass
    int axis, rotate;            // rotation before the phase
};

// Multiply the amplitudes of a whole small system by scale exp(-i pi turns E) and by exp(i pi shift) for every spin down.  table:
// energies (TABLE); inside: exponentials of the register bits; inner layout.
QSIM_DEVICE void apply_energy(cplx (&v)[16], const double* fields, const double* table, const cplx* inside, const Stage& stage) {
    const int t = threadIdx.x;
    double e = table[t];
#pragma unroll
    for (int b = 4; b < BITS; ++b) e = fma(fields[b], t >> (b - 4) & 1 ? -0.5 : 0.5, e);
    cplx flip[4];
    double s, c;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        const double f = fields[r] + table[(1 + r) * THREADS + t];
        e = fma(0.5, f, e);
        sincospi(fma(stage.turns, f, stage.shift), &s, &c);
        flip[r] = {(real)c, (real)s};
    }
    sincospi(fma(stage.turns, e, -stage.shift * (double)__popc(t)), &s, &c);
    multiply<3, 0>(v, flip, inside, {(real)(stage.scale * c), (real)(-stage.scale * s)});
}

// One block a member of an ensemble: all layers of `stages`, layers first .. last - 1 `repeats` times, without leaving the chip.
// psi: (members, 2^BITS); fields: (members, 3, BITS); tables: (members, 3, TABLE), energies of every member.
extern "C" __global__ void __launch_bounds__(THREADS)
    member_layers(cplx* __restrict__ psi, const double* __restrict__ fields, const double* __restrict__ tables,
                  const Stage* __restrict__ stages, int count, int first, int last, int repeats) {
    extern __shared__ __align__(16) char raw[];
    __shared__ double field[BITS];
    __shared__ cplx inside[16];
    const Tile shared = {(cplx*)raw};
    const int t = threadIdx.x;
    cplx v[16];
    psi += (uint64)blockIdx.x << BITS;
#pragma unroll
    for (int j = 0; j < 16; ++j) v[j] = psi[j << TOP | t];
    // Members share nothing: a block needs no other block from the first layer to the last.
    for (int i = 0, left = repeats; i < count; ++i) {
        const Stage stage = stages[i];
        const uint64 member = (uint64)blockIdx.x * 3 + stage.axis;
        const double* table = tables + member * TABLE;
        // Fields and exponentials of this layer; the barriers of go_in make them visible to all threads.
        if (t < BITS) field[t] = fields[member * BITS + t];
        if (t < 16) {
            double s, c;
            sincospi(stage.turns * table[5 * THREADS + t], &s, &c);
            inside[t] = {(real)c, (real)-s};
        }
        if (stage.rotate) go_in<true>(shared, v);
        else go_in<false>(shared, v);
        // Phases in the inner layout, where a thread's registers are the lowest bits; then back to the
        // layout of memory.
        apply_energy(v, field, table, inside, stage);
        go_out<false>(shared, v);
        // Layers first ... last - 1 again, without leaving the chip.
        if (i == last - 1 && --left > 0) i = first - 1;
    }
#pragma unroll
    for (int j = 0; j < 16; ++j) psi[j << TOP | t] = v[j];
}
#endif
