// Velocity gauge of warps.cuh: Cayley steps of pairs as in cayley.cuh, with fewer numbers.
//
// With M1 = (T + T-) / 2, whose off-diagonal is 1/6, all that a step needs in a row is a, b and G: in units in which that is 1,
//
//     X_j = Y_j + (m_j + a_(j-1)) v_j,  Y_(j+1) = v_j + a_j X_j,   X'_j = Z_j + (m_j + b_(j+1)) v_j,  Z_(j-1) = v_j + b_j X'_j,
//     v'_j = g_j (X_j + X'_j) - (1 + m_j g_j) v_j,    g_j = 2 / (T_jj + T_(j-1,j) a_(j-1) + T_(j+1,j) b_(j+1)),
//
// where m_j = 4 but in the corners, Y and Z are three times those of cayley.cuh, and g is G / 3.
#ifndef QSIM_ATOM_WARPS_VELOCITY_CUH
#define QSIM_ATOM_WARPS_VELOCITY_CUH
#include "velocity.cuh"
#include "warps.cuh"

#define CORNER real(-0.26794919243112270647)  // sqrt(3) - 2
#define RESCALE 32  // rows after which determinants, powers of the pivots, are made 1 again

// Numbers of a step in the rows of a thread, of the sums (side 0) and of the differences of its pair: row by row, or those of all
// rows where 1 / r' is the same in all rows that are felt.
struct RowByRow {
    real as[2][ROWS], bs[2][ROWS], gains[2][ROWS];
    real befores[2], afters[2];  // a of the row before, b of the row after
    QSIM_MEMBER real a(int side, int r) const { return r < 0 ? befores[side] : as[side][r < 0 ? 0 : r]; }
    QSIM_MEMBER real b(int side, int r) const { return r < ROWS ? bs[side][r < ROWS ? r : 0] : afters[side]; }
    QSIM_MEMBER real gain(int side, int r) const { return gains[side][r]; }
};

struct AllAlike {
    real one_a, one_b, one_gain;
    QSIM_MEMBER real a(int side, int) const { return side ? one_b : one_a; }
    QSIM_MEMBER real b(int side, int) const { return side ? one_a : one_b; }
    QSIM_MEMBER real gain(int, int) const { return one_gain; }
};

// Which rows of a thread are corners, a bit each: the diagonal m of 6 M1.
struct Corners {
    uint32 bits;
    QSIM_MEMBER real middle(int r) const { return bits >> r & 1 ? 4 + CORNER : real(4); }
};

QSIM_DEVICE Corners corners_of(const Warps& w, const Mix& x) {
    Corners m = {0};
#pragma unroll
    for (int r = 0; r < ROWS; ++r) m.bits |= (uint32)(w.first + r == 0 || w.first + r == x.points - 1) << r;
    return m;
}

// 1 / r' of the rows of a thread and of those beside them.
struct Slopes {
    real before, here[ROWS], after;
};

QSIM_DEVICE Slopes slopes_of(const Warps& w, int points) {
    const real* here = w.slopes + w.row;
    Slopes s;
    s.before = here[-1], s.after = w.first + ROWS < points ? here[ROWS] : real(0);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) s.here[r] = here[r];
    return s;
}

// Keep what depends on r alone; 1 / r' also around the block, 0 beyond the grid.
QSIM_DEVICE void load_slopes(const Warps& w, const Mix& x) {
    for (int i = -AROUND + (int)threadIdx.x; i < BLOCK_ROWS + AROUND; i += blockDim.x) {
        const int j = w.at * BLOCK_ROWS + i;
        w.slopes[i] = j >= 0 && j < x.points ? x.inverse_slope[j] : real(0);
        if (i < 0 || i >= BLOCK_ROWS) continue;
        real* radii = w.radii - w.row + i;
        radii[0] = x.inverse_r[j], radii[BLOCK_ROWS] = x.root[j], radii[2 * BLOCK_ROWS] = real(0.5) * x.root[j] * x.root[j];
    }
}

// ----------------------------------------------------------------------------------------------- numbers

// Diagonal of 6 T in row j, k: the rate over r' there.
QSIM_DEVICE real corner_or_not(const Mix& x, int j, real k) {
    return j == 0 || j == x.points - 1 ? fma(j == 0 ? CORNER : -CORNER, k, 4 + CORNER) : real(4);
}

// Products of the two elements of a bond, of both signs of the rate, in (BLOCK_ROWS, 2, PAIRS) of the warp: of that before each row.
QSIM_DEVICE real* bond(const Warps& w, int row, int side) { return (real*)w.spare + (2 * row + side) * PAIRS + w.slot; }

// A determinant along rows, and that of one row less.
struct Determinants {
    real before, here;
    QSIM_MEMBER void go_on(real diagonal, real product) {
        const real next = fma(diagonal, here, -product * before);
        before = here, here = next;
    }
};

// Determinants of the rows outside of the block that its pivots feel, in the direction of the thread's chain; k: the rate.
QSIM_DEVICE Determinants determinants_outside(const Warps& w, const Mix& x, int warm, real k) {
    const bool back = w.direction != 0;
    const int n = x.points, first = w.at * BLOCK_ROWS, after = first + BLOCK_ROWS, step = back ? -1 : 1;
    const real along = back ? -k : k;  // going back, the two elements of a bond change places, as with the other sign
    Determinants d = {0, 1};
    real low = 0;  // the element of the last bond that belongs to the row before
    const bool plain = first - 1 - warm > 0 && after + warm < n - 1 && warm < AROUND;
    if (plain) {
        const real* slopes = w.slopes + (back ? BLOCK_ROWS + warm : -1 - warm);
#pragma unroll 4
        for (int i = 0; i <= warm; ++i) {
            const real slope = slopes[i * step];
            d.go_on(4, low * fma(along, slope, real(1)));
            low = fma(-along, slope, real(1));
        }
        return d;
    }
    const int begin = back ? min(after + warm, n - 1) : max(first - 1 - warm, 0), count = back ? begin - after + 1 : first - begin;
    for (int i = 0; i < count; ++i) {
        const int j = begin + i * step;
        const real slope = x.inverse_slope[j];
        d.go_on(corner_or_not(x, j, k * slope), low * fma(along, slope, real(1)));
        low = fma(-along, slope, real(1));
        if (i % RESCALE == RESCALE - 1) d.before *= inverse(d.here), d.here = 1;
    }
    return d;
}

// Inverse pivots beside the rows of each thread of a warp, from either end and of both signs of the rate, a chain each: by determinants
// along the rows of the block, and before along as many as pivots feel (`warm`).
QSIM_DEVICE void find_pivots(const Warps& w, const Mix& x, int warm, real rate) {
    const int n = x.points, first = w.at * BLOCK_ROWS, after = first + BLOCK_ROWS;
    const Slopes s = slopes_of(w, x.points);
#pragma unroll
    // off-diagonal products of neighbouring rows, which the determinants need; each thread writes those of its own rows
    for (int side = 0; side < 2; ++side) {
        const real k = side ? -rate : rate;
        real low = fma(-k, s.before, real(1));
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            *bond(w, w.row + r, side) = w.first + r < n ? low * fma(k, s.here[r], real(1)) : real(0);
            low = fma(-k, s.here[r], real(1));
        }
    }
    __syncwarp();
    if (w.adds) {
        const int side = threadIdx.x / PAIRS % 2;
        const real k = side ? -rate : rate;
        // a chain begins with the determinants of the rows outside of the block, as far as they are felt
        Determinants d = determinants_outside(w, x, warm, k);
        const bool back = w.direction != 0, plain = first > 0 && after < n;  // plain: rows of the block without corners
        const int row = back ? after - 1 : first, step = back ? -1 : 1;
        const real* bonds = bond(w, back ? BLOCK_ROWS : 0, side);
        real* to = w.pivots + (back ? TEAMS - 1 : 0) * STRIDE;
        real product;
        if (back)
            product = after < n ? fma(-k, w.slopes[BLOCK_ROWS - 1], real(1)) * fma(k, w.slopes[BLOCK_ROWS], real(1)) : real(0);
        else
            product = bonds[0];
#pragma unroll 4  // teams
        // a pivot is the ratio of two determinants: no division per row, one per thread of the chain
        for (int i = 0; i < TEAMS; ++i) {
            to[i * step * STRIDE] = d.before * inverse(d.here);
            if (i == TEAMS - 1) break;
            real next[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) next[r] = bonds[(i * ROWS + r + 1) * step * 2 * PAIRS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const int j = row + (i * ROWS + r) * step;
                d.go_on(plain ? real(4) : corner_or_not(x, j, k * w.slopes[j - first]), product);
                product = next[r];
            }
        }
    }
    __syncwarp();
}

// What needs other threads, while others are waited for; then the numbers.
QSIM_DEVICE void find_early(const Warps& w, const Mix& x, int warm, real rate, RowByRow&) { find_pivots(w, x, warm, rate); }
QSIM_DEVICE void find_early(const Warps&, const Mix&, int, real, AllAlike&) {}

QSIM_DEVICE void find_numbers(const Warps& w, const Mix& x, real rate, RowByRow& c) {
    const real* pivots = w.pivots - threadIdx.x % CHAINS + w.team * STRIDE;
    const Slopes s = slopes_of(w, x.points);
    const int n = x.points;
#pragma unroll
    for (int side = 0; side < 2; ++side) {
        const real k = side ? -rate : rate;
        c.befores[side] = -fma(-k, s.before, real(1)) * pivots[chain_of(w, 0, side)];
        c.afters[side] = w.first + ROWS < n ? -fma(k, s.after, real(1)) * pivots[chain_of(w, 1, side)] : real(0);
        real low[ROWS], high[ROWS], diagonal[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            low[r] = fma(-k, s.here[r], real(1)), high[r] = fma(k, s.here[r], real(1));
            diagonal[r] = corner_or_not(x, w.first + r, k * s.here[r]);
        }
#pragma unroll
        // continued fractions within the rows of the thread, from the pivots on either side of them
        for (int r = 0; r < ROWS; ++r) {
            c.as[side][r] = -low[r] * inverse(fma(high[r], c.a(side, r - 1), diagonal[r]));
            const int u = ROWS - 1 - r;
            const real b = -high[u] * inverse(fma(low[u], c.b(side, u + 1), diagonal[u]));
            c.bs[side][u] = w.first + u < n ? b : real(0);
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const real all = fma(high[r], c.a(side, r - 1), fma(low[r], c.b(side, r + 1), diagonal[r]));
            c.gains[side][r] = w.first + r < n ? real(2) * inverse(all) : real(0);
        }
    }
}

QSIM_DEVICE void find_numbers(const Warps& w, const Mix& x, real rate, AllAlike& c) {
    const real k = rate * w.slopes[w.row], square = fma(k, k, real(3));
    c.one_gain = inverse_root(square);
    const real pivot = -inverse(fma(square, c.one_gain, real(2)));
    c.one_a = (1 - k) * pivot, c.one_b = (1 + k) * pivot;
}

// Parts of a step, for 32 of them a thread each: family, RADIAL_STEP or NOTHING, what is done before it begins, and its g.
struct Listed {
    int begin, kind, action, sample;
    real g;
};

QSIM_DEVICE Listed listed_from(const Steps& s, const Operations& o, const real* moves, int begin) {
    const int k = min(begin + (int)(threadIdx.x % QSIM_WARP), s.steps);
    return {begin, o.kinds[k], o.actions[k], s.samples[k], moves[(int64)MIX_MOVES * k]};
}

template <typename T> QSIM_DEVICE T listed(const Listed& list, T of, int k) { return __shfl_sync(QSIM_ALL_LANES, of, k - list.begin); }

QSIM_DEVICE real rate_of(const Warps& w, const Family* families, int kind, real g) {
    const Family& family = families[kind];
    return w.pair < family.count ? real(1.5) * g * family.coupling[w.pair] : real(0);
}

// Numbers and turns of a Cayley step.
template <typename T>
QSIM_DEVICE void find_all(const Warps& w, const Mix& x, const Family* families, int kind, real g, T& c, cplx (&turns)[ROWS]) {
    const Family& family = families[kind];
    const real angle = w.pair < family.count ? real(0.25) * g * family.growth[w.pair] : real(0);
    find_numbers(w, x, rate_of(w, families, kind, g), c);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const real t = angle * w.radii[r], root = w.radii[BLOCK_ROWS + r];
        const real scale = root > real(0) ? inverse(root * fma(t, t, real(1))) : real(0);
        const real one = fma(-t, t, real(1)) * scale, two = real(2) * t * scale;
        turns[r] = {one + two, one - two};
    }
}

// ------------------------------------------------------------------------------------------------- steps

QSIM_DEVICE real& product_of(const Warps& w, int direction, int side) {
    return (w.products - threadIdx.x % CHAINS)[w.team * STRIDE + chain_of(w, direction, side)];
}

// Sums of the rows of the thread from zero, and the products that take other sums over them.
template <typename T> QSIM_DEVICE void cayley_begin(const Warps& w, const T& c, const Corners& m, const cplx (&v)[ROWS], int side) {
    cplx down = v[0], up = v[ROWS - 1];
    real along = 1, back = 1;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int u = ROWS - 1 - r;
        // recurrences from zero in both directions side by side, and the products over the rows
        const real there = m.middle(r) + c.a(side, r - 1), here = m.middle(u) + c.b(side, u + 1);
        const cplx x = r == 0 ? there * v[0] : cfma(there, v[r], down), z = r == 0 ? here * v[u] : cfma(here, v[u], up);
        down = cfma(c.a(side, r), x, v[r]), along *= c.a(side, r);
        up = cfma(c.b(side, u), z, v[u]), back *= c.b(side, u);
    }
    sum_of(w, 0, side) = down, sum_of(w, 1, side) = up;
    product_of(w, 0, side) = along, product_of(w, 1, side) = back;
}

// v' in place of v, from what comes to the rows.
template <typename T>
QSIM_DEVICE void cayley_rows_of(const T& c, const Corners& m, int side, cplx down, cplx up, cplx (&v)[ROWS]) {
    cplx out[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        out[r] = cfma(m.middle(r) + c.a(side, r - 1), v[r], down);
        down = cfma(c.a(side, r), out[r], v[r]);
    }
#pragma unroll
    for (int r = ROWS - 1; r >= 0; --r) {
        const cplx x = cfma(m.middle(r) + c.b(side, r + 1), v[r], up);
        const real gain = c.gain(side, r), keep = -fma(m.middle(r), gain, real(1));
        up = cfma(c.b(side, r), x, v[r]);
        v[r] = cfma(gain, out[r] + x, keep * v[r]);
    }
}

// As radial_chain, with factors of this operation.
QSIM_DEVICE void cayley_chain(const Warps& w, uint32 tag) {
    if (w.adds) {
        cplx own[TEAMS], sum = {0, 0};
        real factor[TEAMS], product = 1;
        const int begin = w.direction ? TEAMS - 1 : 0, step = w.direction ? -STRIDE : STRIDE;
        cplx* ends = w.sums + begin * STRIDE;
        real* products = w.products + begin * STRIDE;
#pragma unroll
        for (int i = 0; i < TEAMS; ++i) own[i] = ends[i * step], factor[i] = products[i * step];
#pragma unroll
        for (int i = 0; i < TEAMS; ++i) {
            const cplx here = own[i];
            const real over = factor[i];
            own[i] = sum, factor[i] = product;
            sum = cfma(over, sum, here), product *= over;
        }
        uint4* to = mailbox(w, w.at, tag);
        send(to, sum.re, tag), send(to + 1, sum.im, tag), send(to + 2, product, tag);
#pragma unroll
        for (int i = 0; i < TEAMS; ++i) ends[i * step] = own[i], products[i * step] = factor[i];
    }
    __syncwarp();
}

template <typename T>
QSIM_DEVICE void cayley_finish(const Warps& w, const T& c, const Corners& m, const Reach& reach, uint32 tag, cplx (&sum)[ROWS],
                               cplx (&difference)[ROWS]) {
    cplx down[2], up[2];
    real along[2], back[2];
#pragma unroll
    for (int side = 0; side < 2; ++side) {
        down[side] = sum_of(w, 0, side), up[side] = sum_of(w, 1, side);
        along[side] = product_of(w, 0, side), back[side] = product_of(w, 1, side);
    }
    const auto over = [](int, real product) { return product; };
    const cplx come = receive_all<3>(w, reach.wait, reach.felt, reach.farthest, tag, over);
#pragma unroll
    for (int side = 0; side < 2; ++side) {
        down[side] = cfma(along[side], from_thread(come, chain_of(w, 0, side)), down[side]);
        up[side] = cfma(back[side], from_thread(come, chain_of(w, 1, side)), up[side]);
    }
    cayley_rows_of(c, m, 0, down[0], up[0], sum);
    cayley_rows_of(c, m, 1, down[1], up[1], difference);
}

// Set u_l = 0 within r_in(l), as clear_core: pairs are even.
QSIM_DEVICE void clear_rows(const Warps& w, const real* inner, int inner_rows, real& lost, cplx (&lower)[ROWS], cplx (&upper)[ROWS]) {
    if (!w.active) return;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        if (w.first + r >= inner_rows) break;
        const real* weight = inner + (int64)(w.first + r) * w.lanes + w.pair;
        const real one = weight[0], two = weight[w.pairs];
        if (one != real(0)) lost = fma(one, abs2(lower[r]), lost), lower[r] = {0, 0};
        if (two != real(0)) lost = fma(two, abs2(upper[r]), lost), upper[r] = {0, 0};
    }
}

// All operations of a launch.  T: what the numbers of the Cayley steps of this block are.
template <typename T>
QSIM_DEVICE void warp_operations(const Warps& w, const Steps& s, const Radial& t, const Mix& x, const Operations& o,
                                 const Family* families, const int* waits, int warm, real* scratch) {
    const int member = blockIdx.x / s.blocks, size = BLOCK_ROWS * w.lanes, place = w.direction * w.chunks + w.at;
    const int wait = waits[place], farthest = max(waits[w.at], waits[w.chunks + w.at]);
    const Reach radial = {t.reach[place], wait, farthest}, mixed = {(x.felt[place] + TEAMS - 1) / TEAMS, wait, farthest};
    const Corners m = corners_of(w, x);
    cplx* state = s.state + ((int64)member * w.chunks + w.at) * size;
    const real* moves = s.moves + (int64)member * (s.steps + 1) * MIX_MOVES;
    cplx lower[ROWS], upper[ROWS], turns[ROWS];
    load_rows(w, state, lower, upper);
    Listed list = listed_from(s, o, moves, 0);
    int kind = listed(list, list.kind, 0);
    // numbers of the first Cayley step; later ones are made while messages are under way
    T numbers;
    if (kind >= 0) {
        const real g = listed(list, list.g, 0);
        find_early(w, x, warm, rate_of(w, families, kind, g), numbers);
        find_all(w, x, families, kind, g, numbers, turns);
    }
    real lost = 0;
    bool odd = false;
    for (int k = 0;; ++k) {
        const int action = listed(list, list.action, k), sample = listed(list, list.sample, k);
        if ((action & CLEAR) && w.at * BLOCK_ROWS < o.inner_rows) clear_rows(w, o.inner, o.inner_rows, lost, lower, upper);
        if (action & MASK) mask_rows(w, s.mask, lower, upper);
        if (sample >= 0) warp_sums(w, s, families, member, sample, scratch, lower, upper);
        if (k == s.steps) break;
        if (k + 1 >= list.begin + QSIM_WARP) list = listed_from(s, o, moves, k + 1);
        const bool changes = (listed(list, list.action, k + 1) & CHANGES) != 0;  // whether the next part needs other numbers
        const uint32 tag = (uint32)(s.base + k + 1);
        // the radial step couples no lanes; it follows odd pairs, in whose order its tables lie
        if (kind == RADIAL_STEP) {
            radial_begin(w, lower, 0);
            radial_begin(w, upper, 1);
            __syncwarp();
            radial_chain(w, tag);
            radial_finish(w, t, radial, tag, lower, upper);
        } else {
            if (odd != (kind == ODD_PAIRS)) {
                odd = !odd;
                if (odd)
                    make_odd(w, lower, upper);
                else
                    make_even(w, lower, upper);
            }
            // the last odd pair has one lane only: it goes through the step with the others, and is restored
            const bool alone = odd && w.pair == w.pairs - 1;
            if (alone) {
#pragma unroll
                for (int r = 0; r < ROWS; ++r) w.kept[r] = lower[r], w.kept[BLOCK_ROWS + r] = upper[r];
            }
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const cplx a = lower[r], b = upper[r];
                lower[r] = cfma(turns[r].re, a, turns[r].im * b);
                upper[r] = cfma(turns[r].im, a, -turns[r].re * b);
            }
            // sums and differences: ends of the recurrences, their sums over the warp, a message to the blocks beside
            cayley_begin(w, numbers, m, lower, 0);
            cayley_begin(w, numbers, m, upper, 1);
            __syncwarp();
            cayley_chain(w, tag);
            if (changes) {  // while others are waited for
                const int next = listed(list, list.kind, k + 1);
                find_early(w, x, warm, rate_of(w, families, next, listed(list, list.g, k + 1)), numbers);
            }
            cayley_finish(w, numbers, m, mixed, tag, lower, upper);
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const real half = w.radii[2 * BLOCK_ROWS + r];
                const cplx sum = half * lower[r], difference = half * upper[r];
                lower[r] = cfma(turns[r].im, sum, turns[r].re * difference);
                upper[r] = cfma(turns[r].re, sum, -turns[r].im * difference);
            }
            if (alone) {
#pragma unroll
                for (int r = 0; r < ROWS; ++r) lower[r] = w.kept[r], upper[r] = w.kept[BLOCK_ROWS + r];
            }
        }
        kind = listed(list, list.kind, k + 1);
        if (changes) find_all(w, x, families, kind, listed(list, list.g, k + 1), numbers, turns);
    }
    store_rows(w, state, lower, upper);
    if (w.at * BLOCK_ROWS < o.inner_rows) {
        lost = block_sum(lost, scratch);
        if (threadIdx.x == 0) o.lost[member * w.chunks + w.at] += lost;
    }
}

QSIM_DEVICE void warp_velocity_sweeps(const Steps& s, const Radial& t, const Mix& x, const Operations& o, const int* waits, uint4* mail) {
    extern __shared__ __align__(16) char raw[];
    __shared__ real scratch[QSIM_WARP];
    __shared__ Family families[FAMILIES];
    if ((int)threadIdx.x < s.families) families[threadIdx.x] = family_of(s, threadIdx.x);
    const Warps w = warps_of(s, raw, mail);
    load_tables(w, t);
    load_slopes(w, x);
    __syncthreads();
    const int warm = x.felt[2 * w.chunks + w.at];
    if (warm < 0)
        warp_operations<AllAlike>(w, s, t, x, o, families, waits, warm, scratch);
    else
        warp_operations<RowByRow>(w, s, t, x, o, families, waits, warm, scratch);
}

#endif  // QSIM_ATOM_WARPS_VELOCITY_CUH
