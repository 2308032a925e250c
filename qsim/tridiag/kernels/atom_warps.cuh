// Steps of an electron in a central potential along z on a GPU for runs that fit into the registers of the device: up to 62 lanes and
// 32 rows per block.  What counts is the latency of a step, not the work.
//
// A team of threads (a warp, or half of one) holds ROWS rows of all lanes, a thread the two lanes of an even pair; odd pairs are brought
// together by shuffles.  The radial step is made of the recurrences of atom.cuh.
//
// Blocks exchange the ends of their sums once per sweep, by numbers that carry the count of the sweep in their own 16 bytes:
// whoever finds the count has the number, and no fence or flag is needed.  Four teams each find what the block sends, and what comes;
// the sums that its own teams need are found after that is sent, as are the numbers of the next sweep, while others are waited for.
#ifndef QSIM_ATOM_WARPS_CUH
#define QSIM_ATOM_WARPS_CUH
#include "atom.cuh"

#ifndef WIDTH
#define WIDTH 32  // threads of a team: with up to 32 lanes 16, two teams in a warp
#endif
#define MOST_ROWS 32
#define LAUNCHED (WIDTH * MOST_ROWS / ROWS)
#define RESIDENT (QSIM_WARP / WIDTH)  // blocks that shall find registers on a multiprocessor
#define ROOM 3  // complex numbers that a thread finds ahead of time, per row
#define MAIL 3  // numbers of a message: a sum (complex), and in velocity gauge the product that takes another sum over the block

struct Warps {
    int at, team, t, pairs, lanes, teams, chunks, rows, threads;
    bool active;      // whether the thread has lanes
    int adding, listening, pivoting;  // roles of the thread in each kind of work, a bit each
    cplx *f;          // shared: (rows, lanes), over `ends`, which are free when the state is looked at
    cplx *ends;       // (2, teams, lanes): sums of each team from zero, then what comes to it from the teams before
    cplx *come;       // (2, lanes): what comes from the blocks before and after
    real *products;   // (2, teams, lanes): of velocity gauge: of a and of b over a team, then over the teams before
    cplx *room;       // (ROOM ROWS, threads): what each thread finds ahead of time
    cplx *tables;     // of length gauge: gain, keep (rows, lanes) each, products of alpha and of beta over the teams before and over
                      // each team, (2, teams, lanes) each; of velocity gauge: alpha, beta, gain and keep (rows, lanes)
    uint4* mail;      // (2, 2, chunks, lanes, MAIL): by the parity of the count and the direction
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

// The first COUNT numbers of two messages, when all are there: looked for together, as each look takes the way to the second cache
// and back.  A message that is not asked for (null) is zeros.
template <int COUNT>
QSIM_DEVICE void receive(const uint4* one, const uint4* two, uint32 tag, real (&x)[MAIL], real (&y)[MAIL]) {
    uint4 a[COUNT], b[COUNT];
    uint32 wrong;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) a[i] = b[i] = make_uint4(0, tag, 0, tag);
    do {
        wrong = 0;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            if (one) a[i] = look(one + i);
            if (two) b[i] = look(two + i);
        }
#pragma unroll
        for (int i = 0; i < COUNT; ++i) wrong |= (a[i].y ^ tag) | (a[i].w ^ tag) | (b[i].y ^ tag) | (b[i].w ^ tag);
    } while (wrong != 0);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) x[i] = number(a[i]), y[i] = number(b[i]);
}

QSIM_DEVICE uint4* mailbox(const Warps& w, int direction, int chunk, int lane, uint32 tag) {
    return w.mail + ((((int64)(tag & 1) * 2 + direction) * w.chunks + chunk) * w.lanes + lane) * MAIL;
}

QSIM_DEVICE void send_sum(uint4* to, cplx value, uint32 tag) {
    send(to, value.re, tag);
    send(to + 1, value.im, tag);
}

// Work that a team does for all, in ROLES: a direction along r (the lowest bit) and a side, the lower or the upper lanes of the pairs
// (of pivots: a sign of the rate).
#define ROLES 4
enum Work { ADDING, LISTENING, PIVOTING };
QSIM_DEVICE bool has(int roles, int role) { return (roles >> role & 1) != 0; }

// Roles of a team in a kind of work, which other warps have than those of another kind if there are enough.
QSIM_DEVICE int roles_of(int team, int teams, Work work) {
    int found = 0;
    for (int role = 0; role < ROLES; ++role) found |= (team == ((int)work * ROLES + role) * RESIDENT % teams) << role;
    return found;
}

QSIM_DEVICE cplx from_next(cplx a) { return {__shfl_down_sync(QSIM_ALL_LANES, a.re, 1, WIDTH), __shfl_down_sync(QSIM_ALL_LANES, a.im, 1, WIDTH)}; }
QSIM_DEVICE cplx from_last(cplx a) { return {__shfl_up_sync(QSIM_ALL_LANES, a.re, 1, WIDTH), __shfl_up_sync(QSIM_ALL_LANES, a.im, 1, WIDTH)}; }

// ----------------------------------------------------------------------------------------------- state

QSIM_DEVICE void load_rows(const Warps& w, const cplx* from, cplx (&a)[ROWS], cplx (&b)[ROWS]) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int row = (w.team * ROWS + r) * w.lanes + w.t;
        a[r] = w.active ? from[row] : make_cplx(0, 0);
        b[r] = w.active ? from[row + w.pairs] : make_cplx(0, 0);
    }
}

QSIM_DEVICE void store_rows(const Warps& w, cplx* to, const cplx (&a)[ROWS], const cplx (&b)[ROWS]) {
    if (!w.active) return;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int row = (w.team * ROWS + r) * w.lanes + w.t;
        to[row] = a[r], to[row + w.pairs] = b[r];
    }
}

// ----------------------------------------------------------------------------------------- radial step

// Products of alpha over the teams before and of beta over those after: what comes to the block times these comes to the team.
struct Prefix {
    cplx down[2], up[2];  // of the two lanes
};

QSIM_DEVICE Prefix radial_prefix(const Warps& w, const Radial& t) {
    Prefix p = {{{0, 0}, {0, 0}}, {{0, 0}, {0, 0}}};
    if (!w.active) return p;
    const int64 all = (int64)w.chunks * w.teams * w.lanes, at = ((int64)w.at * w.teams + w.team) * w.lanes + w.t;
    for (int side = 0; side < 2; ++side) p.down[side] = t.more[at + side * w.pairs], p.up[side] = t.more[all + at + side * w.pairs];
    return p;
}

// Sums of the rows of the team from zero; alpha, beta: (ROWS) of the lane, `stride` apart.
QSIM_DEVICE void radial_fold(const cplx* alpha, const cplx* beta, int stride, const cplx (&f)[ROWS], cplx& down, cplx& up) {
    down = f[0], up = f[ROWS - 1];
#pragma unroll
    for (int r = 1; r < ROWS; ++r) {
        down = cfma(alpha[r * stride], down, f[r]);
        up = cfma(beta[(ROWS - 1 - r) * stride], up, f[ROWS - 1 - r]);
    }
}

QSIM_DEVICE void radial_rows(const cplx* alpha, const cplx* beta, int stride, const cplx* gain, const cplx* keep, int step,
                             cplx (&f)[ROWS], cplx down, cplx up) {
    cplx z[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) z[r] = down = cfma(alpha[r * stride], down, f[r]);
#pragma unroll
    for (int r = ROWS - 1; r >= 0; --r) {
        const cplx beyond = beta[r * stride] * up;
        up = f[r] + beyond;
        f[r] = cfma(gain[r * step], z[r] + beyond, -(keep[r * step] * f[r]));
    }
}

// Sums along the teams of a block in one direction, in STRETCHES side by side, as each link waits for the one before it.
#define STRETCHES 4
#define LINKS (MOST_ROWS / ROWS / STRETCHES)

template <typename T> struct Stretches {
    cplx sum[STRETCHES];  // of each stretch from zero, then what comes to it
    T over[STRETCHES];    // products over each
};

QSIM_DEVICE cplx times(cplx a, cplx b) { return a * b; }
QSIM_DEVICE real times(real a, real b) { return a * b; }

// Factor: (team) -> product over the rows of a team.
template <typename T, typename Factor>
QSIM_DEVICE Stretches<T> stretches(const Warps& w, int direction, const cplx* ends, const Factor& factor, T one) {
    Stretches<T> s;
#pragma unroll
    for (int i = 0; i < STRETCHES; ++i) s.sum[i] = {0, 0}, s.over[i] = one;
#pragma unroll
    for (int k = 0; k < LINKS; ++k) {
#pragma unroll
        for (int i = 0; i < STRETCHES; ++i) {
            const int link = i * LINKS + k, q = direction ? w.teams - 1 - link : link;
            if (link >= w.teams) continue;
            const T own = factor(q);
            s.sum[i] = cfma(own, s.sum[i], ends[q * w.lanes]);
            s.over[i] = times(own, s.over[i]);
        }
    }
    return s;
}

// The sum of the block; the stretches are given what comes to them.
template <typename T> QSIM_DEVICE cplx whole_sum(Stretches<T>& s) {
    cplx sum = {0, 0};
#pragma unroll
    for (int i = 0; i < STRETCHES; ++i) {
        const cplx own = s.sum[i];
        s.sum[i] = sum;
        sum = cfma(s.over[i], sum, own);
    }
    return sum;
}

// Sums over the teams: of the whole block, for the others; `ends` becomes what comes to each team.
// Factor: (direction, lane, team) -> product over the rows of a team.  told: whether others wait for the sum, by `tag`; in the first
// sweep of a launch they have it from the one before.
template <typename Factor> QSIM_DEVICE void radial_chain(const Warps& w, const Factor& factor, bool told, uint32 tag) {
#pragma unroll 1
    for (int role = 0; role < ROLES; ++role) {
        if (!has(w.adding, role)) continue;
        const int direction = role & 1, lane = w.t + (role >> 1) * w.pairs;
        cplx* ends = w.ends + direction * w.teams * w.lanes + lane;
        const auto own = [&](int q) { return factor(direction, lane, q); };
        Stretches<cplx> s = stretches(w, direction, ends, own, make_cplx(1, 0));
        const cplx sum = whole_sum(s);
        if (told) send_sum(mailbox(w, direction, w.at, lane, tag), sum, tag);
#pragma unroll
        for (int k = 0; k < LINKS; ++k) {
#pragma unroll
            for (int i = 0; i < STRETCHES; ++i) {
                const int link = i * LINKS + k, q = direction ? w.teams - 1 - link : link;
                if (link >= w.teams) continue;
                const cplx here = ends[q * w.lanes];
                ends[q * w.lanes] = s.sum[i];
                s.sum[i] = cfma(own(q), s.sum[i], here);
            }
        }
    }
}

// Two blocks before (direction 0) or after this one, `k` and `k - 1` away: which they are, -1 for none.
struct Two {
    int far, near;
};

QSIM_DEVICE Two two_blocks(const Warps& w, int direction, int k) {
    const int far = direction ? w.at + k : w.at - k, near = direction ? far - 1 : far + 1;
    return {far >= 0 && far < w.chunks ? far : -1, k > 1 && near >= 0 && near < w.chunks ? near : -1};
}

// What comes from the blocks before and after, into `come`; those within `window` are waited for, those within reach are summed.
QSIM_DEVICE void radial_receive(const Warps& w, const Radial& t, int window, uint32 tag) {
#pragma unroll 1
    for (int role = 0; role < ROLES; ++role) {
        if (!has(w.listening, role)) continue;
        const int direction = role & 1, lane = w.t + (role >> 1) * w.pairs, reach = t.reach[direction * w.chunks + w.at];
        const cplx* products = (direction ? t.beta_chunk : t.alpha_chunk) + lane;
        cplx sum = {0, 0};
        for (int k = window; k > 0; k -= 2) {
            const Two c = two_blocks(w, direction, k);
            const bool far = c.far >= 0 && k <= reach, near = c.near >= 0 && k - 1 <= reach;
            const cplx over_far = far ? products[c.far * w.lanes] : make_cplx(0, 0);
            const cplx over_near = near ? products[c.near * w.lanes] : make_cplx(0, 0);
            real x[MAIL], y[MAIL];
            receive<2>(c.far >= 0 ? mailbox(w, direction, c.far, lane, tag) : nullptr,
                       c.near >= 0 ? mailbox(w, direction, c.near, lane, tag) : nullptr, tag, x, y);
            if (far) sum = cfma(over_far, sum, make_cplx(x[0], x[1]));
            if (near) sum = cfma(over_near, sum, make_cplx(y[0], y[1]));
        }
        w.come[direction * w.lanes + lane] = sum;
    }
}

// What comes to the team: from the teams before, and from the blocks before.
QSIM_DEVICE cplx radial_carry(const Warps& w, int direction, int side, cplx prefix) {
    const int lane = side * w.pairs + w.t;
    return cfma(prefix, w.come[direction * w.lanes + lane], w.ends[(direction * w.teams + w.team) * w.lanes + lane]);
}

// ------------------------------------------------------------------------------------------ couplings

// Cosines (re) and sines of the pairs of the thread, by the Cayley form of the tangent: found ahead of time, into `room`.
QSIM_DEVICE void find_turns(const Warps& w, const real* r, real angle, cplx* room) {
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const real t = tangent(real(0.5) * angle * r[k]);
        const real s = inverse(fma(t, t, real(1)));
        room[k * w.threads + threadIdx.x] = {fma(-t, t, real(1)) * s, real(2) * t * s};
    }
}

QSIM_DEVICE void turn_two(real c, real s, cplx& x, cplx& y) {
    const cplx u = x;
    x = {fma(c, u.re, s * y.im), fma(c, u.im, -s * y.re)};
    y = {fma(c, y.re, s * u.im), fma(c, y.im, -s * u.re)};
}

QSIM_DEVICE void turn_odd(const Warps& w, const cplx* room, cplx (&a)[ROWS], cplx (&b)[ROWS]) {
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const cplx turn = room[k * w.threads + threadIdx.x];
        cplx x = from_next(a[k]);
        turn_two(turn.re, turn.im, b[k], x);
        x = from_last(x);
        if (w.t > 0) a[k] = x;
    }
}

QSIM_DEVICE void turn_even(const Warps& w, const cplx* room, cplx (&a)[ROWS], cplx (&b)[ROWS]) {
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const cplx turn = room[k * w.threads + threadIdx.x];
        turn_two(turn.re, turn.im, a[k], b[k]);
    }
}

QSIM_DEVICE void mask_rows(const Warps& w, const real* mask, cplx (&a)[ROWS], cplx (&b)[ROWS]) {
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const real factor = mask[w.at * w.rows + w.team * ROWS + k];
        a[k] = factor * a[k], b[k] = factor * b[k];
    }
}

// The chunk as the functions of atom.cuh have it: the state in shared memory.
QSIM_DEVICE Chunk chunk_of(const Warps& w) {
    Chunk m;
    m.f = w.f, m.ends = w.ends, m.lanes = w.lanes, m.rows = w.rows, m.parts = w.teams, m.chunks = w.chunks, m.at = w.at;
    m.magic = 0xffffffffu / (uint32)w.lanes + 1u;
    return m;
}

QSIM_DEVICE void warp_sums(const Warps& w, const Steps& s, const Family* families, int member, int sample, real* scratch,
                           const cplx (&a)[ROWS], const cplx (&b)[ROWS]) {
    __syncthreads();  // all have read `ends`
    store_rows(w, w.f, a, b);
    __syncthreads();
    const int first = w.at * w.rows;
    chunk_sums(chunk_of(w), families, s.families, s.r + first, s.weight + first, s.force + first, s.edge, scratch,
               s.sums + (((int64)member * s.places + sample) * w.chunks + w.at) * SUMS);
    __syncthreads();
}

QSIM_DEVICE Warps warps_of(const Steps& s, char* raw, uint4* mail) {
    Warps w;
    const int member = blockIdx.x / s.blocks;
    w.at = blockIdx.x - member * s.blocks;
    w.team = threadIdx.x / WIDTH, w.t = threadIdx.x % WIDTH;
    w.lanes = s.lanes, w.pairs = s.lanes / 2, w.rows = s.rows, w.teams = s.rows / ROWS, w.chunks = s.chunks;
    w.adding = w.listening = w.pivoting = 0;
    if (w.t < w.pairs) {
        w.adding = roles_of(w.team, w.teams, ADDING), w.listening = roles_of(w.team, w.teams, LISTENING);
        w.pivoting = roles_of(w.team, w.teams, PIVOTING);
    }
    w.active = w.t < w.pairs, w.threads = w.teams * WIDTH;
    w.f = w.ends = (cplx*)raw;
    w.come = w.ends + max(2 * w.teams, w.rows) * w.lanes;
    w.products = (real*)(w.come + 2 * w.lanes);
    w.room = w.come + (2 + w.teams) * w.lanes;
    w.tables = w.room + ROOM * ROWS * w.threads;
    w.mail = mail + (int64)member * 2 * 2 * w.chunks * w.lanes * MAIL;
    return w;
}

// ---------------------------------------------------------------------------------------- length gauge

// Sweep k ends the radial step k - 1 and couples the lanes.  A launch that ends before the last sweep sends what the next one needs.
QSIM_DEVICE void warp_length_sweeps(const Steps& s, const Radial& t, uint4* mail) {
    extern __shared__ __align__(16) char raw[];
    __shared__ real scratch[QSIM_WARP];
    __shared__ Family families[FAMILIES];
    if ((int)threadIdx.x < s.families) families[threadIdx.x] = family_of(s, threadIdx.x);
    const Warps w = warps_of(s, raw, mail);
    __syncthreads();
    const int member = blockIdx.x / s.blocks;
    cplx* state = s.state + ((int64)member * w.chunks + w.at) * w.rows * w.lanes;
    const real even = w.t < families[0].count ? families[0].coupling[w.t] : real(0);
    const real odd = w.t < families[1].count ? families[1].coupling[w.t] : real(0);
    cplx alpha[2][ROWS], beta[2][ROWS], a[ROWS], b[ROWS];  // gain and keep: in shared memory, as registers are few
    const int64 first = (int64)w.at * w.rows * w.lanes;
    load_rows(w, t.alpha + first, alpha[0], alpha[1]);
    load_rows(w, t.beta + first, beta[0], beta[1]);
    const int size = w.rows * w.lanes;
    for (int i = threadIdx.x; i < size; i += blockDim.x) w.tables[i] = t.gain[first + i], w.tables[size + i] = t.keep[first + i];
    const cplx *gain = w.tables + w.team * ROWS * w.lanes + w.t, *keep = gain + size;
    load_rows(w, state, a, b);
    const real* r = s.r + w.at * w.rows + w.team * ROWS;
    const int ends = w.teams * w.lanes;
    cplx *prefixes = w.tables + 2 * size, *parts = prefixes + 2 * ends;
    for (int i = threadIdx.x; i < ends; i += blockDim.x) {
        const int64 from = (int64)w.at * ends + i;
        prefixes[i] = t.more[from], prefixes[ends + i] = t.more[(int64)w.chunks * ends + from];
        parts[i] = t.alpha_part[from], parts[ends + i] = t.beta_part[from];
    }
    const cplx* prefix = prefixes + w.team * w.lanes + w.t;
    const auto factor = [&](int direction, int lane, int q) { return parts[direction * ends + q * w.lanes + lane]; };
    __syncthreads();
    // of the odd pairs, those of a step serve before and after its radial step
    cplx *even_turn = w.room, *odd_turn = even_turn + ROWS * w.threads, *next_turn = odd_turn + ROWS * w.threads;
    for (int k = s.first;; ++k) {
        const real* move = s.moves + ((int64)member * (s.steps + 1) + k) * MOVES;
        const bool merged = k <= s.last && !s.mask && s.samples[k] < 0 && k < s.steps;
        if (k > 0) {
            const uint32 tag = (uint32)(s.base + k);
            if (w.active) {
#pragma unroll
                for (int side = 0; side < 2; ++side) {
                    cplx down, up;
                    radial_fold(alpha[side], beta[side], 1, side ? b : a, down, up);
                    w.ends[w.team * w.lanes + side * w.pairs + w.t] = down;
                    w.ends[(w.teams + w.team) * w.lanes + side * w.pairs + w.t] = up;
                }
            }
            __syncthreads();
            radial_chain(w, factor, k != s.first, tag);
            if (k > s.last) break;
            find_turns(w, r, even * (merged ? move[0] + move[1] : move[0]), even_turn);  // while others are waited for
            if (k == s.first) find_turns(w, r, odd * move[0], odd_turn);
            find_turns(w, r, odd * move[1], next_turn);
            radial_receive(w, t, s.window, tag);
            __syncthreads();
            if (w.active) {
                const cplx* back = prefix + ends;
                radial_rows(alpha[0], beta[0], 1, gain, keep, w.lanes, a, radial_carry(w, 0, 0, prefix[0]),
                            radial_carry(w, 1, 0, back[0]));
                radial_rows(alpha[1], beta[1], 1, gain + w.pairs, keep + w.pairs, w.lanes, b,
                            radial_carry(w, 0, 1, prefix[w.pairs]), radial_carry(w, 1, 1, back[w.pairs]));
            }
            turn_odd(w, odd_turn, a, b);
            turn_even(w, even_turn, a, b);
        } else if (merged) {
            find_turns(w, r, even * move[1], even_turn);
            turn_even(w, even_turn, a, b);
        }
        if (!merged) {
            if (s.mask && k > 0) mask_rows(w, s.mask, a, b);
            if (s.samples[k] >= 0) warp_sums(w, s, families, member, s.samples[k], scratch, a, b);
            if (k == s.steps) break;
            find_turns(w, r, even * move[1], even_turn);
            turn_even(w, even_turn, a, b);
        }
        if (k == 0) find_turns(w, r, odd * move[1], next_turn);
        turn_odd(w, next_turn, a, b);
        cplx* const swap = odd_turn;
        odd_turn = next_turn, next_turn = swap;
    }
    store_rows(w, state, a, b);
}

#endif  // QSIM_ATOM_WARPS_CUH
