// Velocity gauge of atom_warps.cuh: the Cayley steps of atom_cayley.cuh, a team holding ROWS rows of all pairs.
#ifndef QSIM_ATOM_WARPS_MIX_CUH
#define QSIM_ATOM_WARPS_MIX_CUH
#include "atom_mix.cuh"
#include "atom_warps.cuh"

template <typename T> QSIM_DEVICE void cayley_fold(const Warps& w, const T& c, const cplx (&v)[ROWS], int lane) {
    const int here = w.team * w.lanes + lane, there = (w.teams + w.team) * w.lanes + lane;
    cplx down, up;
    real along, back;
    cayley_sums(c, v, down, up, along, back);
    w.ends[here] = down, w.ends[there] = up;
    w.products[here] = along, w.products[there] = back;
}

template <typename T> QSIM_DEVICE void cayley_apply(const Warps& w, const T& c, cplx (&v)[ROWS], int lane) {
    const int here = w.team * w.lanes + lane, there = (w.teams + w.team) * w.lanes + lane;
    cayley_values(c, v, cfma(w.products[here], w.come[lane], w.ends[here]),
                  cfma(w.products[there], w.come[w.lanes + lane], w.ends[there]));
}

// As radial_chain, with real factors of this operation; `products` become those over the teams before.
QSIM_DEVICE void cayley_chain(const Warps& w, bool told, uint32 tag) {
#pragma unroll 1
    for (int role = 0; role < ROLES; ++role) {
        if (!has(w.adding, role)) continue;
        const int direction = role & 1, lane = w.t + (role >> 1) * w.pairs;
        cplx* ends = w.ends + direction * w.teams * w.lanes + lane;
        real* products = w.products + direction * w.teams * w.lanes + lane;
        const auto own = [&](int q) { return products[q * w.lanes]; };
        Stretches<real> s = stretches(w, direction, ends, own, real(1));
        const cplx sum = whole_sum(s);
        real product = 1;
#pragma unroll
        for (int i = 0; i < STRETCHES; ++i) {
            const real over = s.over[i];
            s.over[i] = product, product *= over;
        }
        if (told) {
            uint4* to = mailbox(w, direction, w.at, lane, tag);
            send_sum(to, sum, tag);
            send(to + 2, product, tag);
        }
#pragma unroll
        for (int k = 0; k < LINKS; ++k) {
#pragma unroll
            for (int i = 0; i < STRETCHES; ++i) {
                const int link = i * LINKS + k, q = direction ? w.teams - 1 - link : link;
                if (link >= w.teams) continue;
                const cplx here = ends[q * w.lanes];
                const real factor = products[q * w.lanes];
                ends[q * w.lanes] = s.sum[i], products[q * w.lanes] = s.over[i];
                s.sum[i] = cfma(factor, s.sum[i], here), s.over[i] *= factor;
            }
        }
    }
}

// As radial_receive.
QSIM_DEVICE void cayley_receive(const Warps& w, int window, uint32 tag) {
#pragma unroll 1
    for (int role = 0; role < ROLES; ++role) {
        if (!has(w.listening, role)) continue;
        const int direction = role & 1, lane = w.t + (role >> 1) * w.pairs;
        cplx sum = {0, 0};
        for (int k = window; k > 0; k -= 2) {
            const Two c = two_blocks(w, direction, k);
            real x[MAIL], y[MAIL];
            receive<3>(c.far >= 0 ? mailbox(w, direction, c.far, lane, tag) : nullptr,
                       c.near >= 0 ? mailbox(w, direction, c.near, lane, tag) : nullptr, tag, x, y);
            sum = cfma(x[2], sum, make_cplx(x[0], x[1]));
            if (c.near >= 0) sum = cfma(y[2], sum, make_cplx(y[0], y[1]));
        }
        w.come[direction * w.lanes + lane] = sum;
    }
}

#define RESCALE 64  // rows after which determinants, powers of the pivots, are made 1 again

// Inverse pivots of the rows beside each team, of both signs of the rate, by determinants along the rows of the block and, before,
// along as many as pivots feel (`warm`): into `room`, for the threads of each pair.  A direction and a sign are a role.
QSIM_DEVICE void cayley_pivots(const Warps& w, const Mix& x, int warm, real k) {
    const real sixth = real(1.0 / 6.0), corner = real(-0.26794919243112270647);  // sqrt(3) - 2
    const int n = x.points, first = w.at * w.rows, after = first + w.rows;
#pragma unroll 1
    for (int role = 0; role < ROLES; ++role) {
        if (!has(w.pivoting, role)) continue;
        const int back = role & 1, sign = role >> 1;
        // going back, the two elements of a bond change places, as with the other sign
        const real rate = sign != back ? -k : k, edge = sign ? -k : k;
        real before = 0, here = 1, low = 0;  // determinants; 1/6 - rate / r' of the row before
        const auto go_on = [&](int j, real slope) {
            real diagonal = 4 * sixth;
            if (j == 0 || j == n - 1) diagonal = fma(j == 0 ? corner : -corner, edge * slope, (4 + corner) * sixth);
            const real next = fma(diagonal, here, -(low * fma(rate, slope, sixth)) * before);
            before = here, here = next, low = fma(-rate, slope, sixth);
        };
        const int begin = back ? min(after + warm, n - 1) : max(first - 1 - warm, 0), count = back ? begin - after + 1 : first - begin;
#pragma unroll 4
        for (int i = 0; i < count; ++i) {
            const int j = back ? begin - i : begin + i;
            go_on(j, x.inverse_slope[j]);
            if (i % RESCALE == RESCALE - 1) {
                const real scale = inverse(here);
                before *= scale, here = 1;
            }
        }
        for (int i = 0; i <= w.teams; ++i) {
            const int q = back ? w.teams - i : i;  // rows of all teams before q, or of q and all after, are done
            const bool outer = q == (back ? 0 : w.teams);
            cplx* to = w.room + w.t + (outer ? (ROWS + 2) * w.threads + (back ? 0 : q - 1) * WIDTH
                                             : (ROWS + back) * w.threads + (back ? q - 1 : q) * WIDTH);
            ((real*)to)[sign] = before * inverse(here);
            if (i == w.teams) break;
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const int j = first + (back ? q * ROWS - 1 - r : q * ROWS + r);
                if (j < n) go_on(j, x.inverse_slope[j]);
            }
        }
    }
}

// Inverse pivots around the two rows of a team: of the row before and of the last row, from the first row of the grid on; of the first
// row and of the row after, from the last row of the grid on.
struct Beside {
    real before, last, first, after;
};

// What cayley_pivots has found for this thread.
QSIM_DEVICE Beside beside(const Warps& w, int sign) {
    const real* room = (const real*)(w.room + threadIdx.x) + sign;
    const int row = 2 * w.threads, next = 2 * WIDTH;
    Beside b;
    b.before = room[ROWS * row], b.after = room[(ROWS + 1) * row];
    b.last = w.team + 1 < w.teams ? room[ROWS * row + next] : room[(ROWS + 2) * row];
    b.first = w.team > 0 ? room[(ROWS + 1) * row - next] : room[(ROWS + 2) * row];
    return b;
}

// The numbers of the two rows of a team, with one division.
QSIM_DEVICE void cayley_two(const Mix& x, int j, const Beside& p, real k, CayleyRows& c) {
    static_assert(ROWS == 2, "rows of a team");
    const real sixth = real(1.0 / 6.0);
    const int n = x.points;
    const bool start = j == 0, one = j < n, two = j + 1 < n, more = j + 2 < n;
    const real before = start ? real(0) : x.inverse_slope[j - 1], after = more ? x.inverse_slope[j + 2] : real(0);
    const real here = x.inverse_slope[j], next = x.inverse_slope[j + 1];  // 0 beyond the grid
    const real low = fma(-k, here, sixth), high = fma(k, here, sixth), next_low = fma(-k, next, sixth), next_high = fma(k, next, sixth);
    const real before_low = fma(-k, before, sixth), after_high = fma(k, after, sixth);
    const real first = one ? cayley_diagonal(x, j, k) : real(1), second = two ? cayley_diagonal(x, j + 1, k) : real(1);
    const real first_other = one ? cayley_diagonal(x, j, -k) : real(1), second_other = two ? cayley_diagonal(x, j + 1, -k) : real(1);
    const real left = start ? real(0) : -before_low * p.before, right = more ? -after_high * p.after : real(0);
    const real pivot = fma(left, high, first), back = fma(right, next_low, second);  // P_j, Q_(j+1)
    const real both = pivot * back, whole = two ? fma(-low, next_high, both) : both;
    const real w = inverse(both * whole), of_both = w * whole, of_whole = w * both;
    c.as[0] = two ? -low * (of_both * back) : real(0), c.as[1] = more ? -next_low * p.last : real(0);
    c.bs[0] = start || !one ? real(0) : -high * p.first, c.bs[1] = two ? -next_high * (of_both * pivot) : real(0);
    const real in = fma(left, low, first_other), out = fma(right, next_high, second_other);
    const real in_next = fma(c.as[0], next_low, second_other), out_next = fma(c.bs[1], high, first_other);
    c.ss[0] = fma(c.as[0], in, high), c.ss[1] = fma(c.as[1], in_next, next_high);
    c.zs[0] = fma(c.bs[0], out_next, low), c.zs[1] = fma(c.bs[1], out, next_low);
    c.gains[0] = of_whole * back, c.gains[1] = of_whole * pivot;
    c.keeps[0] = c.gains[0] * fma(left, low, out_next), c.keeps[1] = c.gains[1] * fma(right, next_high, in_next);
    if (!one) c.ss[0] = c.zs[0] = c.gains[0] = c.keeps[0] = 0;
    if (!two) c.ss[1] = c.zs[1] = c.gains[1] = c.keeps[1] = 0;
}

// Rotations of the next operation and its numbers, while others are waited for.
QSIM_DEVICE void cayley_prepare(const Warps& w, const Mix& x, int warm, const Family& family, real g) {
    const real coupling = w.t < family.count ? family.coupling[w.t] : real(0);
    const real growth = w.t < family.count ? family.growth[w.t] : real(0);
    const real rate = real(0.25) * g * coupling, angle = real(0.25) * g * growth;
    const int first = w.at * w.rows + w.team * ROWS;
    cplx* room = w.room + threadIdx.x;
    if (warm >= 0) {
        cayley_pivots(w, x, warm, rate);
        room[(ROWS + 3) * w.threads] = {rate, 0};
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const real t = angle * x.inverse_r[first + r], root = x.root[first + r];
        const real scale = root > real(0) ? inverse(root * fma(t, t, real(1))) : real(0);
        const real one = fma(-t, t, real(1)) * scale, two = real(2) * t * scale;
        room[r * w.threads] = {one + two, one - two};
    }
    if (warm < 0) {
        const CayleyAlike c = cayley_uniform(rate * x.inverse_slope[first]);
        room[ROWS * w.threads] = {c.one_a, c.one_b};
        room[(ROWS + 1) * w.threads] = {c.one_s, c.one_z};
        room[(ROWS + 2) * w.threads] = {c.one_gain, c.one_keep};
    }
}

// A Cayley step on its way: sums and differences of pairs, their numbers, and the rotation.
struct Mixed {
    CayleyRows sums, differences;
    cplx sum[ROWS], difference[ROWS], turn[ROWS];
};

// Sums and differences of the pairs of the thread, turned, with the numbers that were prepared; what the team has for others.
QSIM_DEVICE void cayley_begin(const Warps& w, const Mix& x, int warm, bool odd, const cplx (&a)[ROWS], const cplx (&b)[ROWS], Mixed& m) {
    const cplx* room = w.room + threadIdx.x;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const cplx turn = m.turn[r] = room[r * w.threads];
        cplx lower = a[r], upper = b[r];
        if (odd) {
            upper = from_next(a[r]), lower = b[r];
            if (w.t + 1 >= w.pairs) upper = {0, 0};
        }
        m.sum[r] = cfma(turn.re, lower, turn.im * upper);
        m.difference[r] = cfma(turn.im, lower, -turn.re * upper);
    }
    if (warm < 0) {
        const cplx one = room[ROWS * w.threads], two = room[(ROWS + 1) * w.threads], three = room[(ROWS + 2) * w.threads];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {  // of the differences: the same with the directions changed
            m.sums.as[r] = m.differences.bs[r] = one.re, m.sums.bs[r] = m.differences.as[r] = one.im;
            m.sums.ss[r] = m.differences.zs[r] = two.re, m.sums.zs[r] = m.differences.ss[r] = two.im;
            m.sums.gains[r] = m.differences.gains[r] = three.re, m.sums.keeps[r] = m.differences.keeps[r] = three.im;
        }
    } else {
        const real rate = room[(ROWS + 3) * w.threads].re;
        const int first = w.at * w.rows + w.team * ROWS;
        cayley_two(x, first, beside(w, 0), rate, m.sums);
        cayley_two(x, first, beside(w, 1), -rate, m.differences);
    }
    if (!w.active) return;
    cayley_fold(w, m.sums, m.sum, w.t);
    cayley_fold(w, m.differences, m.difference, w.pairs + w.t);
}

// The pairs after the step; half: r' / 2 of the rows.
QSIM_DEVICE void cayley_finish(const Warps& w, bool odd, const real (&half)[ROWS], Mixed& m, cplx (&a)[ROWS], cplx (&b)[ROWS]) {
    if (w.active) {
        cayley_apply(w, m.sums, m.sum, w.t);
        cayley_apply(w, m.differences, m.difference, w.pairs + w.t);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const cplx turn = m.turn[r];
        const cplx lower = half[r] * cfma(turn.im, m.sum[r], turn.re * m.difference[r]);
        cplx upper = half[r] * cfma(turn.re, m.sum[r], -turn.im * m.difference[r]);
        if (odd) {
            b[r] = lower;
            upper = from_last(upper);
            if (w.t > 0) a[r] = upper;
        } else {
            a[r] = lower, b[r] = upper;
        }
    }
}

// Operation k - 1 ends in sweep k, while operation k is prepared.  A launch that ends before the last sweep sends what the next needs.
QSIM_DEVICE void warp_velocity_sweeps(const Steps& s, const Radial& t, const Mix& x, const Operations& o, uint4* mail) {
    extern __shared__ __align__(16) char raw[];
    __shared__ real scratch[QSIM_WARP];
    __shared__ Family families[FAMILIES];
    if ((int)threadIdx.x < s.families) families[threadIdx.x] = family_of(s, threadIdx.x);
    const Warps w = warps_of(s, raw, mail);
    const int member = blockIdx.x / s.blocks, size = w.rows * w.lanes, warm = x.felt[2 * w.chunks + w.at];
    cplx* tables = w.tables;
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        const int64 from = (int64)w.at * size + i;
        tables[i] = t.alpha[from], tables[size + i] = t.beta[from];
        tables[2 * size + i] = t.gain[from], tables[3 * size + i] = t.keep[from];
    }
    __syncthreads();
    cplx* state = s.state + ((int64)member * w.chunks + w.at) * size;
    const cplx* own = tables + w.team * ROWS * w.lanes + w.t;
    const auto factor = [&](int direction, int lane, int q) {
        const cplx* mine = tables + direction * size + q * ROWS * w.lanes + lane;
        cplx product = mine[0];
#pragma unroll
        for (int r = 1; r < ROWS; ++r) product *= mine[r * w.lanes];
        return product;
    };
    cplx a[ROWS], b[ROWS];
    real half[ROWS];
    load_rows(w, state, a, b);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const real root = x.root[w.at * w.rows + w.team * ROWS + r];
        half[r] = real(0.5) * root * root;
    }
    // kinds and g of the operation that ends and of the next one, read before they are needed
    const real* g = s.moves + (int64)member * (s.steps + 1) * MIX_MOVES;
    int kind = s.first > 0 ? o.kinds[s.first - 1] : NOTHING, next = o.kinds[s.first];
    real next_g = g[MIX_MOVES * s.first];
    int ready = s.first > 0 ? kind : next;  // of which family `room` has the numbers, for which g
    real ready_g = s.first > 0 ? g[MIX_MOVES * (s.first - 1)] : next_g;
    if (ready >= 0) cayley_prepare(w, x, warm, families[ready], ready_g);
    __syncthreads();
    for (int k = s.first;; ++k) {
        const int action = o.actions[k], sample = s.samples[k], ahead = k < s.steps ? o.kinds[k + 1] : NOTHING;
        const real ahead_g = k < s.steps ? g[MIX_MOVES * (k + 1)] : real(0);
        if (k > 0) {
            const uint32 tag = (uint32)(s.base + k);
            const bool radial = kind == RADIAL_STEP;
            Mixed m;
            Prefix prefix;
            if (!radial) {
                cayley_begin(w, x, warm, kind == ODD_PAIRS, a, b, m);
            } else {
                prefix = radial_prefix(w, t);
                if (w.active) {
#pragma unroll
                    for (int side = 0; side < 2; ++side) {
                        cplx down, up;
                        const cplx* mine = own + side * w.pairs;
                        radial_fold(mine, mine + size, w.lanes, side ? b : a, down, up);
                        w.ends[w.team * w.lanes + side * w.pairs + w.t] = down;
                        w.ends[(w.teams + w.team) * w.lanes + side * w.pairs + w.t] = up;
                    }
                }
            }
            __syncthreads();
            if (radial)
                radial_chain(w, factor, k != s.first, tag);
            else
                cayley_chain(w, k != s.first, tag);
            if (k > s.last) break;
            if (next >= 0 && (next != ready || next_g != ready_g)) {  // odd pairs turn alike before and after a radial step
                cayley_prepare(w, x, warm, families[next], next_g);
                ready = next, ready_g = next_g;
            }
            if (radial)
                radial_receive(w, t, s.window, tag);
            else
                cayley_receive(w, s.window, tag);
            __syncthreads();
            if (!radial) {
                cayley_finish(w, kind == ODD_PAIRS, half, m, a, b);
            } else if (w.active) {
#pragma unroll
                for (int side = 0; side < 2; ++side) {
                    const cplx* mine = own + side * w.pairs;
                    radial_rows(mine, mine + size, w.lanes, mine + 2 * size, mine + 3 * size, w.lanes, side ? b : a,
                                radial_carry(w, 0, side, prefix.down[side]), radial_carry(w, 1, side, prefix.up[side]));
                }
            }
        }
        if ((action & CLEAR) && w.at * w.rows < o.inner_rows) {
            __syncthreads();  // all have read `ends`
            store_rows(w, w.f, a, b);
            __syncthreads();
            clear_core(chunk_of(w), o.inner, o.inner_rows, scratch, o.lost + member * w.chunks + w.at);
            load_rows(w, w.f, a, b);
            __syncthreads();
        }
        if (action & MASK) mask_rows(w, s.mask, a, b);
        if (sample >= 0) warp_sums(w, s, families, member, sample, scratch, a, b);
        if (k == s.steps) break;
        kind = next, next = ahead, next_g = ahead_g;
    }
    store_rows(w, state, a, b);
}

#endif  // QSIM_ATOM_WARPS_MIX_CUH
