// Steps of an electron in a central potential along z on a GPU for runs that fit into the registers of the device: up to 64 lanes, and
// 32 rows per block.  What counts is the latency of a step, not the work.
//
// A warp holds PAIRS pairs of lanes in all rows of the block, a thread one pair in ROWS rows.  Hence all that goes along r stays within
// a warp, and a warp deals with its likes of other blocks by itself: it sends the ends of its sums once per operation, by
// numbers that carry the count of the operation in their own 16 bytes.  Whoever finds the count has the number, and no fence or flag is
// needed.  While a message is under way, what the next operation needs is made.
//
// Pairs are even, lanes (a_t, b_t), or odd, (b_t, a_(t+1)); the radial step, which couples no lanes, is made on odd ones.  From one to
// the other a lane goes to the next thread, by a shuffle, or to the next warp, through shared memory: there alone the warps of a block wait
// for each other.  a_0, which has no odd partner, goes to where the last b has none; such a pair is not turned.
#ifndef QSIM_ATOM_WARPS_CUH
#define QSIM_ATOM_WARPS_CUH
#include "chunks.cuh"

#define PAIRS 4                        // of a warp
#define TEAMS (QSIM_WARP / PAIRS)      // threads of a warp along r
#define BLOCK_ROWS (TEAMS * ROWS)
#define CHAINS (4 * PAIRS)             // sums of a warp along r: two directions, two members of each pair
#define STRIDE (CHAINS + PAIRS)        // between those of the threads along r: free of bank conflicts
#define MAIL 3                         // numbers of a message: a sum (complex), and in velocity gauge the product over the block
#ifndef WARPS
#define WARPS 8  // of a block: its pairs over PAIRS, rounded up
#endif
#define LAUNCHED (WARPS * QSIM_WARP)
#define PLACES 36                      // complex numbers per thread in shared memory: see `table`
#define AROUND 64                      // rows before and after the block whose 1 / r' it keeps

struct Warps {
    int at, chunks, lanes, pairs, warp;
    int team, slot, pair;        // of this thread: place along r, pair of its warp, pair of all
    int row, first;              // its first row, of the block and of the grid
    bool active;                 // whether it has a pair
    // as one of the CHAINS threads that add up a sum, and as one of as many more that look at messages from a block farther away
    int direction, chain;
    bool adds;
    int64 box;                   // place of the chain's messages among those of a block
    cplx* all_parts;             // shared: (2, TEAMS, lanes): products of alpha and of beta over the rows of each thread
    const cplx* parts;           // those of the chain's direction and lane
    cplx* sums;                  // shared: (TEAMS, STRIDE): sums of the threads of this warp, then of all before
    real* products;              // shared: (TEAMS, STRIDE): of velocity gauge: products over the same
    real* pivots;                // shared: (TEAMS, STRIDE): of velocity gauge
    cplx* edges;                 // shared: (2, WARPS, BLOCK_ROWS): lanes that go to another warp
    cplx* kept;                  // shared: (2, BLOCK_ROWS): the pair that is not turned
    cplx* table;                 // shared: (PLACES, LAUNCHED), from this thread on: alpha, beta, gain, keep of ROWS rows of its two lanes
    cplx* spare;                 // shared: (ROWS, threads of a warp): of velocity gauge
    real* slopes;                // shared: (AROUND + BLOCK_ROWS + AROUND): of velocity gauge: 1 / r', from the first row of the block on
    real* radii;                 // shared: (3, BLOCK_ROWS): of velocity gauge: 1 / r, sqrt(r'), r' / 2
    cplx* f;                     // shared: (BLOCK_ROWS, lanes), over `sums` and what follows: the state where it is looked at
    uint4* mail;                 // (2, 2, chunks, lanes, MAIL): by the parity of the count and the direction
};

// -------------------------------------------------------------------------------------------- exchange

QSIM_DEVICE void send(uint4* to, real value, uint32 tag) {
    const uint64 a = (uint64)__double_as_longlong((double)value);
#ifdef __CUDACC__
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"((uint32)a), "r"(tag),
                 "r"((uint32)(a >> 32)), "r"(tag)
                 : "memory");
#else
    *to = make_uint4((uint32)a, tag, (uint32)(a >> 32), tag);
#endif
}

QSIM_DEVICE uint4 look(const uint4* from) {
    uint4 v;
#ifdef __CUDACC__
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from)
                 : "memory");
#else
    v = *from;
#endif
    return v;
}

QSIM_DEVICE real number(uint4 v) { return (real)__longlong_as_double((int64)(((uint64)v.z << 32) | v.x)); }

QSIM_DEVICE uint4* mailbox(const Warps& w, int chunk, uint32 tag) {
    return w.mail + ((int64)((tag & 1) * 2 + w.direction) * w.chunks + chunk) * w.lanes * MAIL + w.box;
}

// What a block some way off has sent along the chain, its COUNT numbers when all are there; all threads of the warp look together,
// those without a block to look at find zeros.
template <int COUNT> QSIM_DEVICE void receive(const Warps& w, int away, bool there, uint32 tag, real (&x)[MAIL]) {
    const uint4* from = mailbox(w, w.direction ? w.at + away : w.at - away, tag);
    uint4 found[COUNT];
    uint32 wrong;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) found[i] = make_uint4(0, tag, 0, tag);
    do {
        wrong = 0;
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            if (there) found[i] = look(from + i);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) wrong |= (found[i].y ^ tag) | (found[i].w ^ tag);
    } while (__any_sync(QSIM_ALL_LANES, wrong != 0));
#pragma unroll
    for (int i = 0; i < COUNT; ++i) x[i] = number(found[i]);
}

QSIM_DEVICE cplx from_thread(cplx a, int thread) {
    return {__shfl_sync(QSIM_ALL_LANES, a.re, thread), __shfl_sync(QSIM_ALL_LANES, a.im, thread)};
}
QSIM_DEVICE cplx from_next(cplx a) { return {__shfl_down_sync(QSIM_ALL_LANES, a.re, 1), __shfl_down_sync(QSIM_ALL_LANES, a.im, 1)}; }
QSIM_DEVICE cplx from_last(cplx a) { return {__shfl_up_sync(QSIM_ALL_LANES, a.re, 1), __shfl_up_sync(QSIM_ALL_LANES, a.im, 1)}; }
QSIM_DEVICE cplx from_across(cplx a) {
    return {__shfl_xor_sync(QSIM_ALL_LANES, a.re, CHAINS), __shfl_xor_sync(QSIM_ALL_LANES, a.im, CHAINS)};
}

// What comes to the block along the chain, to the first CHAINS threads: from blocks up to `wait` away, which are waited for as they wait
// for this one, summed as far as `reach`.  Over: (chunk, third number of the message) -> product over that block.
template <int COUNT, typename Over>
QSIM_DEVICE cplx receive_all(const Warps& w, int wait, int reach, int farthest, uint32 tag, const Over& over) {
    cplx come = {0, 0};
    const bool adds = threadIdx.x % QSIM_WARP < CHAINS;
#pragma unroll 1
    // two blocks per round, the farther by the upper half of the warp: half as many waits one after the other
    for (int even = (farthest + 1) / 2 * 2; even > 0; even -= 2) {
        const int away = adds ? even - 1 : even, chunk = w.direction ? w.at + away : w.at - away;
        const bool there = w.active && away <= wait && chunk >= 0 && chunk < w.chunks;
        real x[MAIL] = {0, 0, 0};
        receive<COUNT>(w, away, there, tag, x);
        const bool felt = there && away <= reach;
        const cplx own = felt ? make_cplx(x[0], x[1]) : make_cplx(0, 0);
        const auto across = over(felt ? chunk : w.at, felt ? x[2] : real(0));
        // the farther sum first, then the nearer: each takes what came before times the product over its block
        const cplx before = from_across(come), far = felt ? cfma(across, before, own) : own;
        const cplx beyond = from_across(far);
        come = felt ? cfma(across, beyond, own) : own;
    }
    return come;
}

// ----------------------------------------------------------------------------------------------- state

// Lane of the lower (0) or upper (1) member of an odd pair.
QSIM_DEVICE int odd_lane(const Warps& w, int side) {
    if (side == 0) return w.pairs + w.pair;
    return w.pair + 1 < w.pairs ? w.pair + 1 : 0;
}

QSIM_DEVICE void load_rows(const Warps& w, const cplx* from, cplx (&lower)[ROWS], cplx (&upper)[ROWS]) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int place = (w.row + r) * w.lanes + w.pair;
        lower[r] = w.active ? from[place] : make_cplx(0, 0);
        upper[r] = w.active ? from[place + w.pairs] : make_cplx(0, 0);
    }
}

QSIM_DEVICE void store_rows(const Warps& w, cplx* to, const cplx (&lower)[ROWS], const cplx (&upper)[ROWS]) {
    if (!w.active) return;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int place = (w.row + r) * w.lanes + w.pair;
        to[place] = lower[r], to[place + w.pairs] = upper[r];
    }
}

// Where the warp after that of a pair has its first lane: that of a_0 for the last pair.
QSIM_DEVICE cplx* edge(const Warps& w, int family, int warp) { return w.edges + (family * WARPS + warp) * BLOCK_ROWS + w.row; }
QSIM_DEVICE bool last_of_warp(const Warps& w) { return w.active && (w.slot == PAIRS - 1 || w.pair == w.pairs - 1); }
QSIM_DEVICE int warp_after(const Warps& w) { return w.pair < w.pairs - 1 ? w.warp + 1 : 0; }

QSIM_DEVICE void make_odd(const Warps& w, cplx (&lower)[ROWS], cplx (&upper)[ROWS]) {
    if (w.slot == 0) {
        cplx* to = edge(w, 0, w.warp);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) to[r] = lower[r];
    }
    // other warps read the edge only when it is written
    __syncthreads();
    cplx next[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) next[r] = from_next(lower[r]), lower[r] = upper[r];
    if (last_of_warp(w)) {
        const cplx* from = edge(w, 0, warp_after(w));
#pragma unroll
        for (int r = 0; r < ROWS; ++r) next[r] = from[r];
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) upper[r] = w.active ? next[r] : make_cplx(0, 0);
}

QSIM_DEVICE void make_even(const Warps& w, cplx (&lower)[ROWS], cplx (&upper)[ROWS]) {
    if (last_of_warp(w)) {
        cplx* to = edge(w, 1, warp_after(w));
#pragma unroll
        for (int r = 0; r < ROWS; ++r) to[r] = upper[r];
    }
    __syncthreads();
    cplx before[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) before[r] = from_last(upper[r]), upper[r] = lower[r];
    if (w.slot == 0) {
        const cplx* from = edge(w, 1, w.warp);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) before[r] = from[r];
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) lower[r] = w.active ? before[r] : make_cplx(0, 0);
}

// ----------------------------------------------------------------------------------------- radial step

// Tables of the radial step, as the odd pair of a thread needs them; alpha and beta of a row, then gain and keep, of each lane.
QSIM_DEVICE cplx& entry(const Warps& w, int side, int row, int which) { return w.table[((side * ROWS + row) * 4 + which) * LAUNCHED]; }

// Products of alpha over the rows before those of the thread, and of beta over those after: what comes to the block times these comes to it.
struct Prefix {
    cplx down[2], up[2];
};

QSIM_DEVICE Prefix radial_prefix(const Warps& w, const Radial& t) {
    const int64 all = (int64)w.chunks * TEAMS * w.lanes, at = ((int64)w.at * TEAMS + w.team) * w.lanes;
    Prefix p;
#pragma unroll
    for (int side = 0; side < 2; ++side) {
        const int lane = w.active ? odd_lane(w, side) : 0;
        p.down[side] = t.more[at + lane], p.up[side] = t.more[all + at + lane];
    }
    return p;
}

QSIM_DEVICE void load_tables(const Warps& w, const Radial& t) {
    const int64 own = (int64)w.at * TEAMS * w.lanes;
#pragma unroll
    for (int side = 0; side < 2; ++side) {
        const int lane = w.active ? odd_lane(w, side) : 0;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const int64 from = (int64)(w.first + r) * w.lanes + lane;
            entry(w, side, r, 0) = t.alpha[from], entry(w, side, r, 1) = t.beta[from];
            entry(w, side, r, 2) = t.gain[from], entry(w, side, r, 3) = t.keep[from];
        }
    }
    for (int i = threadIdx.x; i < TEAMS * w.lanes; i += blockDim.x)
        w.all_parts[i] = t.alpha_part[own + i], w.all_parts[TEAMS * w.lanes + i] = t.beta_part[own + i];
}

// Sums along the rows of the block: from those of the threads' rows, the sum of all, for the others, and in `sums` what comes to each
// thread from the others of its warp.
QSIM_DEVICE void radial_chain(const Warps& w, uint32 tag) {
    if (w.adds) {
        // into registers first: the loads do not wait for each other, the chain of sums alone does
        cplx own[TEAMS], sum = {0, 0};
        const int begin = w.direction ? TEAMS - 1 : 0, step = w.direction ? -1 : 1;
        cplx* ends = w.sums + begin * STRIDE;
#pragma unroll
        for (int i = 0; i < TEAMS; ++i) own[i] = ends[i * step * STRIDE];
#pragma unroll
        for (int i = 0; i < TEAMS; ++i) {
            const cplx here = own[i];
            own[i] = sum;
            sum = cfma(w.parts[(begin + i * step) * w.lanes], sum, here);
        }
        uint4* to = mailbox(w, w.at, tag);
        send(to, sum.re, tag), send(to + 1, sum.im, tag);
#pragma unroll
        for (int i = 0; i < TEAMS; ++i) ends[i * step * STRIDE] = own[i];
    }
    __syncwarp();
}

QSIM_DEVICE int chain_of(const Warps& w, int direction, int side) { return (2 * direction + side) * PAIRS + w.slot; }
QSIM_DEVICE cplx& sum_of(const Warps& w, int direction, int side) {
    return (w.sums - threadIdx.x % CHAINS)[w.team * STRIDE + chain_of(w, direction, side)];
}

// Sums of the rows of the thread from zero.
QSIM_DEVICE void radial_begin(const Warps& w, const cplx (&f)[ROWS], int side) {
    cplx down = f[0], up = f[ROWS - 1];
#pragma unroll
    for (int r = 1; r < ROWS; ++r) {
        down = cfma(entry(w, side, r, 0), down, f[r]);
        up = cfma(entry(w, side, ROWS - 1 - r, 1), up, f[ROWS - 1 - r]);
    }
    sum_of(w, 0, side) = down, sum_of(w, 1, side) = up;
}

// f' in place of f, from what comes to the rows.
QSIM_DEVICE void radial_rows(const Warps& w, cplx (&f)[ROWS], int side, cplx down, cplx up) {
    cplx z[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) z[r] = down = cfma(entry(w, side, r, 0), down, f[r]);
#pragma unroll
    for (int r = ROWS - 1; r >= 0; --r) {
        const cplx beyond = entry(w, side, r, 1) * up;
        up = f[r] + beyond;
        f[r] = cfma(entry(w, side, r, 2), z[r] + beyond, -(entry(w, side, r, 3) * f[r]));
    }
}

// How far a chain is felt, and for how many blocks it is waited.
struct Reach {
    int felt, wait, farthest;
};

QSIM_DEVICE void radial_finish(const Warps& w, const Radial& t, const Reach& reach, uint32 tag, cplx (&lower)[ROWS], cplx (&upper)[ROWS]) {
    const cplx* products = (w.direction ? t.beta_chunk : t.alpha_chunk) + w.chain;
    const auto over = [&](int chunk, real) { return products[(int64)chunk * w.lanes]; };
    const Prefix prefix = radial_prefix(w, t);
    cplx down[2], up[2];
#pragma unroll
    for (int side = 0; side < 2; ++side) down[side] = sum_of(w, 0, side), up[side] = sum_of(w, 1, side);
    const cplx come = receive_all<2>(w, reach.wait, reach.felt, reach.farthest, tag, over);
#pragma unroll
    for (int side = 0; side < 2; ++side) {
        down[side] = cfma(prefix.down[side], from_thread(come, chain_of(w, 0, side)), down[side]);
        up[side] = cfma(prefix.up[side], from_thread(come, chain_of(w, 1, side)), up[side]);
    }
    radial_rows(w, lower, 0, down[0], up[0]);
    radial_rows(w, upper, 1, down[1], up[1]);
}

// ------------------------------------------------------------------------------------------ couplings

// Cosines (re) and sines of the pair of the thread, by the Cayley form of the tangent.
QSIM_DEVICE void find_turns(const real (&r)[ROWS], real angle, cplx (&turns)[ROWS]) {
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const real t = tangent(real(0.5) * angle * r[k]);
        const real s = inverse(fma(t, t, real(1)));
        turns[k] = {fma(-t, t, real(1)) * s, real(2) * t * s};
    }
}

QSIM_DEVICE void turn(const cplx (&turns)[ROWS], cplx (&lower)[ROWS], cplx (&upper)[ROWS]) {
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const real c = turns[k].re, s = turns[k].im;
        const cplx x = lower[k], y = upper[k];
        lower[k] = {fma(c, x.re, s * y.im), fma(c, x.im, -s * y.re)};
        upper[k] = {fma(c, y.re, s * x.im), fma(c, y.im, -s * x.re)};
    }
}

QSIM_DEVICE void mask_rows(const Warps& w, const real* mask, cplx (&lower)[ROWS], cplx (&upper)[ROWS]) {
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const real factor = mask[w.first + k];
        lower[k] = factor * lower[k], upper[k] = factor * upper[k];
    }
}

// Sums of the state, whose pairs are even.
QSIM_DEVICE void warp_sums(const Warps& w, const Steps& s, const Family* families, int member, int sample, real* scratch,
                           const cplx (&lower)[ROWS], const cplx (&upper)[ROWS]) {
    __syncthreads();  // all have read what lies there
    store_rows(w, w.f, lower, upper);
    __syncthreads();
    Chunk m;
    m.f = w.f, m.lanes = w.lanes, m.rows = BLOCK_ROWS, m.parts = TEAMS, m.chunks = w.chunks, m.at = w.at;
    m.magic = 0xffffffffu / (uint32)w.lanes + 1u;
    const int first = w.at * BLOCK_ROWS;
    chunk_sums(m, families, s.families, s.r + first, s.weight + first, s.force + first, s.edge, scratch,
               s.sums + (((int64)member * s.places + sample) * w.chunks + w.at) * SUMS);
    __syncthreads();
}

QSIM_DEVICE Warps warps_of(const Steps& s, char* raw, uint4* mail) {
    Warps w;
    const int member = blockIdx.x / s.blocks, thread = threadIdx.x % QSIM_WARP;
    w.at = blockIdx.x - member * s.blocks, w.chunks = s.chunks, w.lanes = s.lanes, w.pairs = s.lanes / 2;
    w.warp = threadIdx.x / QSIM_WARP;
    w.team = thread / PAIRS, w.slot = thread % PAIRS, w.pair = w.warp * PAIRS + w.slot;
    w.row = w.team * ROWS, w.first = w.at * BLOCK_ROWS + w.row;
    w.active = w.pair < w.pairs;
    const int chain = thread % CHAINS, side = chain / PAIRS % 2;
    w.direction = chain / PAIRS / 2;
    w.adds = thread < CHAINS && w.active;
    w.chain = w.active ? odd_lane(w, side) : 0;
    w.box = (int64)(w.active ? side * w.pairs + w.pair : 0) * MAIL;
    // shared memory, in this order: tables per thread, sums of the chains, products and pivots beside them, edges between warps,
    // rows kept of pairs that are not turned, slopes and radii of the block and around it, products over its parts
    w.table = (cplx*)raw + threadIdx.x;
    w.spare = (cplx*)raw + (PLACES - ROWS) * LAUNCHED + w.warp * ROWS * QSIM_WARP;
    cplx* sums = (cplx*)raw + PLACES * LAUNCHED;
    w.f = sums, w.sums = sums + w.warp * TEAMS * STRIDE + chain;
    real* products = (real*)(sums + WARPS * TEAMS * STRIDE);
    w.products = products + w.warp * TEAMS * STRIDE + chain;
    real* pivots = products + WARPS * TEAMS * STRIDE;
    w.pivots = pivots + w.warp * TEAMS * STRIDE + chain;
    w.edges = (cplx*)(pivots + WARPS * TEAMS * STRIDE);
    cplx* kept = w.edges + 2 * WARPS * BLOCK_ROWS;
    w.kept = kept + w.row;
    w.slopes = (real*)(kept + 2 * BLOCK_ROWS) + AROUND;
    w.radii = w.slopes + BLOCK_ROWS + AROUND + w.row;
    w.all_parts = (cplx*)(w.slopes + 4 * BLOCK_ROWS + AROUND);
    w.parts = w.all_parts + w.direction * TEAMS * w.lanes + w.chain;
    w.mail = mail + (int64)member * 2 * 2 * w.chunks * w.lanes * MAIL;
    return w;
}

// ---------------------------------------------------------------------------------------- length gauge

// Operation k: the end of step k, what is done between steps, and the begin of the next up to its radial step.
QSIM_DEVICE void warp_length_sweeps(const Steps& s, const Radial& t, const int* waits, uint4* mail) {
    extern __shared__ __align__(16) char raw[];
    __shared__ real scratch[QSIM_WARP];
    __shared__ Family families[FAMILIES];
    if ((int)threadIdx.x < s.families) families[threadIdx.x] = family_of(s, threadIdx.x);
    const Warps w = warps_of(s, raw, mail);
    load_tables(w, t);
    __syncthreads();
    const int member = blockIdx.x / s.blocks, size = BLOCK_ROWS * w.lanes;
    const real even = w.pair < families[0].count ? families[0].coupling[w.pair] : real(0);
    const real odd = w.pair < families[1].count ? families[1].coupling[w.pair] : real(0);
    const int place = w.direction * w.chunks + w.at;
    const Reach reach = {t.reach[place], waits[place], max(waits[w.at], waits[w.chunks + w.at])};
    cplx* state = s.state + ((int64)member * w.chunks + w.at) * size;
    const real* moves = s.moves + (int64)member * (s.steps + 1) * MOVES;
    cplx lower[ROWS], upper[ROWS], odd_turn[ROWS], even_turn[ROWS], next_turn[ROWS];
    real r[ROWS];
#pragma unroll
    for (int k = 0; k < ROWS; ++k) r[k] = s.r[w.first + k];
    load_rows(w, state, lower, upper);
    find_turns(r, even * moves[1], even_turn);
    find_turns(r, odd * moves[1], odd_turn);
    int sample = s.samples[0];
    // the tag of a message is the number of its operation: whoever reads that number has the message
    for (int k = 0;; ++k) {
        const uint32 tag = (uint32)(s.base + k);
        if (k > 0) {
            const real* move = moves + MOVES * k;
            const bool merged = k < s.steps && !s.mask && sample < 0;
            find_turns(r, odd * move[1], next_turn);  // while others are waited for
            find_turns(r, even * (merged ? move[0] + move[1] : move[0]), even_turn);
            // end of step k: radial step, odd and even pairs; the even pairs of both steps are one turn if nothing lies between
            radial_finish(w, t, reach, tag, lower, upper);
            turn(odd_turn, lower, upper);
            make_even(w, lower, upper);
            turn(even_turn, lower, upper);
            if (!merged) find_turns(r, even * move[1], even_turn);
#pragma unroll
            for (int i = 0; i < ROWS; ++i) odd_turn[i] = next_turn[i];
            if (!merged) {
                if (s.mask) mask_rows(w, s.mask, lower, upper);
                if (sample >= 0) warp_sums(w, s, families, member, sample, scratch, lower, upper);
                if (k == s.steps) break;
                turn(even_turn, lower, upper);
            }
        } else {
            if (sample >= 0) warp_sums(w, s, families, member, sample, scratch, lower, upper);
            if (k == s.steps) break;
            turn(even_turn, lower, upper);
        }
        // begin of step k + 1: odd pairs, and the sums of the radial step, sent at once
        sample = s.samples[k + 1];
        make_odd(w, lower, upper);
        turn(odd_turn, lower, upper);
        radial_begin(w, lower, 0);
        radial_begin(w, upper, 1);
        __syncwarp();
        radial_chain(w, tag + 1);
    }
    store_rows(w, state, lower, upper);
}

#endif  // QSIM_ATOM_WARPS_CUH
