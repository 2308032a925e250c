// Steps along z of states that do not fit on the chip: warps that march along r.
//
// An operation of a step (the radial step of all lanes, or the Cayley step of a family of pairs) is a tridiagonal system per lane.  It is
// eliminated along r in one sweep and substituted against it in the next, and what is local in r lies between: a sweep ends one operation
// and begins the next, and reads and writes one complex number per point.  A thread has two lanes, an odd one (l = |m| + 2k - 1) and the even one
// after it; a warp has 32 such columns, of which OWNED are its own, and a chunk of rows.  Nothing is exchanged between warps: the couplings
// reach one column to either side, and a march begins as many rows before its chunk as are felt (march.py).
//
// Radial step, with w = -12 W, W_(j-1) + (12 (M2)_jj + 12 q_j) W_j + W_(j+1) = q_j f_j: from the side that the elimination comes from ("behind")
//
//     P_j = 1 / (12 (M2)_jj + 12 q_j - P_behind),   v_j = P_j (q_j f_j - v_behind),      kept: v,
//
// and in the other direction, in which "behind" of the elimination comes last,
//
//     W_j = v_j - P_j W_before,   q_j f_j = v_j / P_j + v_behind,   f'_j = 24 i a q_j W_j - (B_j + i a') q_j f_j.
//
// Pivots of the direction of the march are made on the way; those of the other one begin at the kept pivot beside each block of ROWS rows.
// Cayley steps of pairs, T v' = T- v (cayley.cuh), go the same way: y_j = p_j (T- v - T_(j,behind) y_behind) is kept, and
// v'_j = y_j - p_j T_(j,before) v'_before.
#ifndef QSIM_ATOM_MARCH_CUH
#define QSIM_ATOM_MARCH_CUH
#include "march_columns.cuh"

QSIM_DEVICE cplx inverted(cplx z) {
    const real d = inverse(abs2(z));
    return {z.re * d, -z.im * d};
}

// ------------------------------------------------------------------------------------- radial step

struct RadialEnd {
    cplx w[2];  // W of the row before
};
struct RadialBegin {
    cplx v[2], pivot[2];  // of the row before
};

QSIM_DEVICE void radial_q(const Around& row, const real (&ll)[2], cplx (&q)[ROWS][2]) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const Row& here = row[i];
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            const real b = fma(here.rotation, ll[s], here.potential), inv = inverse(fma(b, b, here.near * here.near));
            q[i][s] = {b * inv, here.near * inv};
        }
    }
}

// f' in place of v; `pivot`, of the row behind the block; `behind`, v there.
QSIM_DEVICE void radial_end(const Around& row, int first_at, const real (&ll)[2], const real (&corner)[2], const cplx (&q)[ROWS][2],
                            cplx (&pivot)[2], const cplx (&behind)[2], cplx (&x)[ROWS][2], RadialEnd& carry) {
    cplx p[ROWS][2], g[ROWS][2];
#pragma unroll
    for (int i = ROWS - 1; i >= 0; --i) {
        const real diagonal = row[i].diagonal;
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            const cplx next = i + 1 < ROWS ? x[i + 1 < ROWS ? i + 1 : i][s] : behind[s];
            const cplx den = {fma(real(12), q[i][s].re, (i == first_at ? corner[s] : diagonal) - pivot[s].re),
                              fma(real(12), q[i][s].im, -pivot[s].im)};
            g[i][s] = cfma(x[i][s], den, next);
            p[i][s] = pivot[s] = inverted(den);
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const Row& here = row[i];
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            const cplx w = cfma(-p[i][s], carry.w[s], x[i][s]), z = q[i][s] * w, y = g[i][s];
            const real b = fma(here.rotation, ll[s], here.potential);
            carry.w[s] = w;
            x[i][s] = {fma(-here.twice, z.im, fma(here.far, y.im, -b * y.re)), fma(here.twice, z.re, fma(-here.far, y.re, -b * y.im))};
        }
    }
}

// v in place of f.
QSIM_DEVICE void radial_begin(const Around& row, int first_at, const real (&corner)[2], const cplx (&q)[ROWS][2], cplx (&x)[ROWS][2],
                              RadialBegin& carry) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const real diagonal = row[i].diagonal;
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            const cplx p = inverted(cplx{fma(real(12), q[i][s].re, (i == first_at ? corner[s] : diagonal) - carry.pivot[s].re),
                                         fma(real(12), q[i][s].im, -carry.pivot[s].im)});
            carry.pivot[s] = p;
            x[i][s] = carry.v[s] = p * cfma(q[i][s], x[i][s], -carry.v[s]);
        }
    }
}

// -------------------------------------------------------------------------- Cayley steps of pairs

// A family of pairs with its strength.  Even pairs are the even lane of a column and the odd one of the next; odd pairs lie in a column.
struct Pairs {
    real k[2], angle;  // k of the sums (+) and differences (-) that take the places of the lanes, times the direction of the march
    bool even, alone;  // alone: a column without the other lane of its pair
};

QSIM_DEVICE Pairs pairs_of(const March& m, const Column& c, bool even, real g) {
    Pairs p;
    p.even = even;
    const real rate = real(0.25) * g * of_column(m, c, even ? 0 : 1) * m.direction;
    p.angle = real(0.25) * g * of_column(m, c, even ? 2 : 3);
    // differences of even pairs belong to the pair of the column before
    const real other = even ? of_left(rate) : rate;
    p.k[0] = even ? -other : rate, p.k[1] = even ? rate : -rate;
    p.alone = !even && c.is[0] != c.is[1];
    return p;
}

// Where 1 / r' is the same in all rows that are felt, pivots have a closed form: the fixed point of x = 2/3 - (1/36 - k^2) / x.
struct Alike {
    real slope, pivot[2];  // 1/r' of which the pivots are
};

QSIM_DEVICE void find_alike(const Pairs& pairs, real slope, Alike& a) {
    if (a.slope == slope) return;
    a.slope = slope;
#pragma unroll
    for (int s = 0; s < 2; ++s) {
        const real k = pairs.k[s] * slope, square = fma(k, k, real(1.0 / 12.0));
        a.pivot[s] = inverse(fma(square, inverse_root(square), real(1.0 / 3.0)));
    }
}

struct PairEnd {
    cplx v[2];  // of the row before
};
struct PairBegin {
    cplx v[2], before[2], y[2];  // v of the last two rows; y of the last but one
    real pivot[2];
};

// Sums and differences, turned, to lanes (`back`) or the other way.
QSIM_DEVICE void convert(const Row& here, const Pairs& p, bool back, cplx (&x)[2]) {
    const real t = p.angle * here.inverse_r, one = inverse(fma(t, t, real(1)));
    const real scale = (back ? real(0.5) * here.root : here.inverse_root) * one;
    const real c = fma(-t, t, real(1)) * scale, s = real(2) * t * scale;
    if (p.even) {
        const cplx right = of_right(x[0]), left = of_left(x[1]);
        const real left_c = of_left(c), left_s = of_left(s);
        if (back) {
            const cplx a = x[1] + right, b = x[1] - right, e = left + x[0], f = left - x[0];
            x[1] = {fma(c, a.re, -s * b.re), fma(c, a.im, -s * b.im)};
            x[0] = {fma(left_s, e.re, left_c * f.re), fma(left_s, e.im, left_c * f.im)};
        } else {
            // sum: (c + s) a + (c - s) b, difference: (c - s) a - (c + s) b
            const real u = c + s, w = c - s, left_u = left_c + left_s, left_w = left_c - left_s;
            const cplx own = x[1], odd = x[0];
            x[1] = {fma(u, own.re, w * right.re), fma(u, own.im, w * right.im)};
            x[0] = {fma(left_w, left.re, -left_u * odd.re), fma(left_w, left.im, -left_u * odd.im)};
        }
    } else if (p.alone) {
        const real factor = back ? here.root : here.inverse_root;
        x[0] = factor * x[0], x[1] = factor * x[1];
    } else if (back) {
        const cplx a = x[0] + x[1], b = x[0] - x[1];
        x[0] = {fma(c, a.re, -s * b.re), fma(c, a.im, -s * b.im)};
        x[1] = {fma(s, a.re, c * b.re), fma(s, a.im, c * b.im)};
    } else {
        const real u = c + s, w = c - s;
        const cplx a = x[0], b = x[1];
        x[0] = {fma(u, a.re, w * b.re), fma(u, a.im, w * b.im)};
        x[1] = {fma(w, a.re, -u * b.re), fma(w, a.im, -u * b.im)};
    }
}

// Lanes after the step in place of y; pivot: of the row behind the block.
QSIM_DEVICE void pair_end(const Around& row, int d, const Pairs& pairs, real (&pivot)[2], cplx (&x)[ROWS][2], PairEnd& carry) {
    const real sixth = real(1.0 / 6.0);
    real p[ROWS][2];
    // the elimination went against this march: its pivots from behind
#pragma unroll
    for (int i = ROWS - 1; i >= 0; --i) {
        const Row& here = row[i];
        const real behind = row[i + 1].slope;
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            const real k = pairs.k[s], bond = fma(k, behind, sixth) * fma(-k, here.slope, sixth);
            p[i][s] = pivot[s] = inverse(fma(-bond, pivot[s], fma(k * d, here.corner, here.mix)));
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const real before = row[i - 1].slope;
#pragma unroll
        for (int s = 0; s < 2; ++s)
            x[i][s] = carry.v[s] = cfma(-p[i][s] * fma(-pairs.k[s], before, sixth), carry.v[s], x[i][s]);
        convert(row[i], pairs, true, x[i]);
    }
}

QSIM_DEVICE void pair_end_alike(const Around& row, const Pairs& pairs, const Alike& a, cplx (&x)[ROWS][2], PairEnd& carry) {
    real factor[2];
#pragma unroll
    for (int s = 0; s < 2; ++s) factor[s] = a.pivot[s] * fma(pairs.k[s], a.slope, real(-1.0 / 6.0));
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int s = 0; s < 2; ++s) x[i][s] = carry.v[s] = cfma(factor[s], carry.v[s], x[i][s]);
        convert(row[i], pairs, true, x[i]);
    }
}

// y of the row before `here` (one row of the march earlier), now that the lanes of this one are known; the values of this row in x.
QSIM_DEVICE void pair_begin(const Around& row, int i, int d, const Pairs& pairs, cplx (&x)[2], PairBegin& carry) {
    const real sixth = real(1.0 / 6.0);
    const Row &here = row[i], &last = row[i - 1], &before = row[i - 2];
    convert(here, pairs, false, x);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
        const real k = pairs.k[s], low = fma(-k, before.slope, sixth), high = fma(k, before.slope, sixth);
        const real p = inverse(fma(-low * fma(k, last.slope, sixth), carry.pivot[s], fma(k * d, last.corner, last.mix)));
        // T- has k of the other sign
        cplx sum = fma(-k * d, last.corner, last.mix) * carry.v[s];
        sum = cfma(high, carry.before[s], sum);
        sum = cfma(fma(-k, here.slope, sixth), x[s], sum);
        carry.y[s] = p * cfma(-low, carry.y[s], sum);
        carry.pivot[s] = p, carry.before[s] = carry.v[s], carry.v[s] = x[s];
    }
}

QSIM_DEVICE void pair_begin_alike(const Row& here, const Pairs& pairs, const Alike& a, cplx (&x)[2], PairBegin& carry) {
    convert(here, pairs, false, x);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
        const real p = a.pivot[s], third = real(1.0 / 6.0) * p, k = pairs.k[s] * a.slope;
        const cplx sum = cfma(fma(k, p, third), carry.before[s], (real(4) * third) * carry.v[s]);
        carry.y[s] = cfma(fma(-k, p, third), x[s] - carry.y[s], sum);
        carry.pivot[s] = p, carry.before[s] = carry.v[s], carry.v[s] = x[s];
    }
}

// -------------------------------------------------------------------------------- between operations

// cos and sin of a rotation from half its angle.
struct Rotation {
    real cosine, sine;
};

QSIM_DEVICE Rotation rotation_of(real half) {
    const real t = tangent(half), s = real(2) * inverse(fma(t, t, real(1)));
    return {s - real(1), t * s};
}

// x cos - i y sin
QSIM_DEVICE cplx rotated(Rotation r, cplx x, cplx y) {
    return {fma(r.cosine, x.re, r.sine * y.im), fma(r.cosine, x.im, -r.sine * y.re)};
}

QSIM_DEVICE void turn_odd(real half, cplx (&x)[2]) {
    const Rotation r = rotation_of(half);
    const cplx a = x[0], b = x[1];
    x[0] = rotated(r, a, b), x[1] = rotated(r, b, a);
}

QSIM_DEVICE void turn_even(real half, cplx (&x)[2]) {
    const Rotation r = rotation_of(half), left = {of_left(r.cosine), of_left(r.sine)};
    const cplx even = of_left(x[1]), odd = of_right(x[0]);
    x[0] = rotated(left, x[0], even), x[1] = rotated(r, x[1], odd);
}

struct Totals {
    real norm, along, force, edge, lost;
};

QSIM_DEVICE void add_sums(const March& m, const Column& c, const Row& here, const real (&couplings)[2], const cplx (&x)[2], bool inside,
                          Totals& t) {
    const cplx right = of_right(x[0]);
    if (!c.own || !inside) return;
#pragma unroll
    for (int s = 0; s < 2; ++s)
        if (c.is[s]) {
            const real part = here.weight * abs2(x[s]);
            t.norm += part, t.edge = fma(m.edge[c.lane[s]], part, t.edge);
        }
    // even pairs with the next column, odd pairs in this one
    real along = 0;
    if (c.is[1]) along = couplings[0] * fma(x[1].re, right.re, x[1].im * right.im);
    if (c.is[0] && c.is[1]) along = fma(couplings[1], fma(x[0].re, x[1].re, x[0].im * x[1].im), along);
    along *= real(2) * here.weight;
    t.along = fma(here.r, along, t.along), t.force = fma(here.force, along, t.force);
}

QSIM_DEVICE void write_totals(const March& m, const Column& c, const Totals& t) {
    const int place = c.chunk * m.strips + c.strip, all = m.chunks * m.strips;
    const real each[5] = {warp_sum(t.norm), warp_sum(t.along), warp_sum(t.force), warp_sum(t.edge), warp_sum(t.lost)};
    if (threadIdx.x % QSIM_WARP) return;
    if (m.place >= 0) {
        real* out = m.sums + (((int64)c.member * m.places + m.place) * all + place) * SUMS;
        out[0] = each[0], out[1] = each[1], out[3] = each[2], out[5] = each[3];
    }
    if (m.what & CLEARED) m.lost[(int64)c.member * all + place] += each[4];
}

// What a column does with the rows of a block between two operations in length gauge; angles: per bohr, of the step before and after.
struct LengthTurns {
    real odd[2], even[2], couplings[2];
    bool whole;
    QSIM_MEMBER void operator()(const March& m, const Column& c, const Around& row, int block, cplx (&x)[ROWS][2], Totals& t) const {
        const bool inside = block >= c.first && block < c.end;
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const Row& here = row[i];
            turn_odd(odd[0] * here.r, x[i]);
            if (whole) {
                turn_even(even[0] * here.r, x[i]);
                if (m.what & MASKED) x[i][0] = here.mask * x[i][0], x[i][1] = here.mask * x[i][1];
                if (m.place >= 0) add_sums(m, c, here, couplings, x[i], inside, t);
                turn_even(even[1] * here.r, x[i]);
            } else
                turn_even((even[0] + even[1]) * here.r, x[i]);
            turn_odd(odd[1] * here.r, x[i]);
        }
    }
};

// The same in velocity gauge.
struct Actions {
    real couplings[2];
    QSIM_MEMBER void operator()(const March& m, const Column& c, const Around& row, int block, cplx (&x)[ROWS][2], Totals& t) const {
        if (!(m.what & (CLEARED | MASKED)) && m.place < 0) return;
        const bool inside = block >= c.first && block < c.end;
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const int j = block * ROWS + (m.direction > 0 ? i : ROWS - 1 - i);
            const Row& here = row[i];
            if (m.what & CLEARED && j >= 0 && j < m.inner_rows) {
#pragma unroll
                for (int s = 0; s < 2; ++s) {
                    const real weight = c.is[s] ? m.inner[(int64)j * m.lanes + c.lane[s]] : real(0);
                    if (weight == real(0)) continue;
                    if (c.own && inside) t.lost = fma(weight, abs2(x[i][s]), t.lost);
                    x[i][s] = {0, 0};
                }
            }
            if (m.what & MASKED) x[i][0] = here.mask * x[i][0], x[i][1] = here.mask * x[i][1];
            if (m.place >= 0) add_sums(m, c, here, couplings, x[i], inside, t);
        }
    }
};

// ------------------------------------------------------------------------------------------- sweeps

// ENDS, BEGINS: RADIAL_STEP, or a family of pairs; with `m.what` without ENDING or BEGINNING there is none.
template <int ENDS, int BEGINS, typename Between>
QSIM_DEVICE void march(const March& m, const Column& c, const Pairs& of_end, const Pairs& of_begin, const Between& between) {
    const bool ending = m.what & ENDING, beginning = m.what & BEGINNING, lags = BEGINS >= 0 && beginning;
    const int d = m.direction, start = m.begins[(d < 0) * m.chunks + c.chunk];
    const int stop = d > 0 ? c.end + lags : c.first - 1 - lags;
    real ll[2], corner[2];
#pragma unroll
    for (int s = 0; s < 2; ++s) ll[s] = m.of_lanes[c.lane[s]], corner[s] = m.of_lanes[m.lanes + c.lane[s]];
    RadialEnd radial_ended = {};
    RadialBegin radial_begun = {};
    PairEnd pair_ended = {};
    PairBegin pair_begun = {};
    pair_begun.pivot[0] = pair_begun.pivot[1] = FIRST_PIVOT;
    // pivots along the march, behind the first block
    const cplx* along = d > 0 ? m.down : m.up;
    if (BEGINS == RADIAL_STEP)
        for (int s = 0; s < 2; ++s) radial_begun.pivot[s] = along[(int64)start * m.lanes + c.lane[s]];
    Alike end_alike = {}, begin_alike = {};
    Totals totals = {0, 0, 0, 0, 0};
    extern __shared__ __align__(16) char raw[];
    Stage* stages = (Stage*)raw + threadIdx.x / QSIM_WARP * STAGES;
    const int thread = threadIdx.x % QSIM_WARP, to_first = d > 0 ? 0 : ROWS - 1;
    // the block before the first one, of which only what belongs to the rows is used, up to the last but one that may be on its way
    int slot = 1, ahead = STAGES - 1;  // of this block, and of the one to be fetched
    for (int n = -1; n < STAGES - 2; ++n) {
        fetch_rows<ENDS>(m, c, start + n * d, stages[n + 1]);
        if (n < STAGES - 3) fetched();
    }
    int alike_next = m.alike[start + 1];
    for (int block = start; block != stop; block += d) {
        fetched();
        const bool inside = block >= c.first && block < c.end, alike = (ENDS >= 0 || BEGINS >= 0) && alike_next;
        if (block + d != stop) alike_next = m.alike[block + d + 1];
        Stage &here_at = stages[slot], &next_at = stages[slot + 1 < STAGES ? slot + 1 : 0], &last_at = stages[slot > 0 ? slot - 1 : STAGES - 1];
        fetch_rows<ENDS>(m, c, block + (STAGES - 2) * d, stages[ahead]);
        const Around row = {last_at.rows + to_first, here_at.rows + to_first, next_at.rows + to_first, d};
        cplx x[ROWS][2];
#pragma unroll
        for (int i = 0; i < ROWS; ++i)
#pragma unroll
            for (int s = 0; s < 2; ++s) x[i][s] = here_at.x[i][s][thread];
        // place of the first row of the grid in the block
        const int first_at = block == 0 ? to_first : -1;
        const int64 here = ((int64)c.member * m.blocks + block) * m.lanes;
        cplx q[ROWS][2];
        if (ENDS == RADIAL_STEP || BEGINS == RADIAL_STEP) radial_q(row, ll, q);
        if (ending) {
            if (ENDS == RADIAL_STEP) {
                cplx pivot[2] = {here_at.pivot[0][thread], here_at.pivot[1][thread]};
                const cplx behind[2] = {next_at.x[0][0][thread], next_at.x[0][1][thread]};
                radial_end(row, first_at, ll, corner, q, pivot, behind, x, radial_ended);
            } else if (alike) {
                find_alike(of_end, row[0].slope, end_alike);
                pair_end_alike(row, of_end, end_alike, x, pair_ended);
            } else {
                real pivot[2] = {((const real*)here_at.pivot[0])[thread], ((const real*)here_at.pivot[1])[thread]};
                pair_end(row, d, of_end, pivot, x, pair_ended);
            }
        }
        between(m, c, row, block, x, totals);
        if (BEGINS == RADIAL_STEP || !beginning) {
            if (BEGINS == RADIAL_STEP && beginning) radial_begin(row, first_at, corner, q, x, radial_begun);
            if (inside) {
#pragma unroll
                for (int i = 0; i < ROWS; ++i)
#pragma unroll
                    for (int s = 0; s < 2; ++s) store_row(m, c, block * ROWS + (d > 0 ? i : ROWS - 1 - i), s, x[i][s]);
            }
        } else {
            const bool before = block - d >= c.first && block - d < c.end;
            if (alike) find_alike(of_begin, row[0].slope, begin_alike);
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
                if (alike)
                    pair_begin_alike(row[i], of_begin, begin_alike, x[i], pair_begun);
                else
                    pair_begin(row, i, d, of_begin, x[i], pair_begun);
#pragma unroll
                for (int s = 0; s < 2; ++s) {
                    // one row back in the march
                    if (i == 0 ? before : inside) store_row(m, c, block * ROWS + (d > 0 ? i : ROWS - 1 - i) - d, s, pair_begun.y[s]);
                    if (i == 0 && !alike && inside && c.own && c.is[s]) m.pivots_to[here + c.lane[s]] = pair_begun.pivot[s];
                }
            }
        }
        slot = slot + 1 < STAGES ? slot + 1 : 0, ahead = ahead + 1 < STAGES ? ahead + 1 : 0;
    }
    if (m.place >= 0 || m.what & CLEARED) write_totals(m, c, totals);
}

template <bool WHOLE> QSIM_DEVICE void length_sweep(const March& m) {
    Column c;
    if (!column_of(m, c)) return;
    const real* move = m.moves + ((int64)c.member * m.sweeps + m.sweep) * MOVES;
    LengthTurns turns;
    turns.whole = WHOLE;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        // a sweep that only ends, or only begins, leaves the half of the other step
        const real angle = (i == 0 ? m.what & ENDING : m.what & BEGINNING) ? real(0.5) * move[i] : real(0);
        turns.couplings[i] = of_column(m, c, i);
        turns.even[i] = angle * of_column(m, c, 0), turns.odd[i] = angle * of_column(m, c, 1);
    }
    march<RADIAL_STEP, RADIAL_STEP>(m, c, Pairs{}, Pairs{}, turns);
}

template <int ENDS, int BEGINS> QSIM_DEVICE void velocity_sweep(const March& m) {
    Column c;
    if (!column_of(m, c)) return;
    // g of the operation that ends, and of the one that begins
    const real* move = m.moves + (int64)c.member * m.sweeps + m.sweep;
    Actions actions;
    actions.couplings[0] = of_column(m, c, 0), actions.couplings[1] = of_column(m, c, 1);
    Pairs ended = {}, begun = {};
    if (ENDS >= 0) ended = pairs_of(m, c, ENDS == 0, m.what & ENDING ? move[-1] : real(0));
    if (BEGINS >= 0) begun = pairs_of(m, c, BEGINS == 0, m.what & BEGINNING ? move[0] : real(0));
    march<ENDS, BEGINS>(m, c, ended, begun, actions);
}

#endif  // QSIM_ATOM_MARCH_CUH
