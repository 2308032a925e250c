// Velocity gauge of atom_warps.cuh.  Cayley step of A d/dr: with T = M1 + k D / r', T- = M1 - k D / r' and the pivots P, Q of T from
// either end, the inverse of a tridiagonal matrix being products along rows and columns,
//
//     v'_j = D_j v_j + G_j (Y_j + Z_j),   Y_(j+1) = s_j v_j + a_j Y_j,   Z_(j-1) = z_j v_j + b_j Z_j,   G_j = 1 / (P_j + Q_j - T_jj),
//     a_j = -T_(j+1,j) / P_j,   b_j = -T_(j-1,j) / Q_j,   D_j = G_j (T-_jj + a_(j-1) T-_(j-1,j) + b_(j+1) T-_(j+1,j)),
//     s_j = T-_(j+1,j) + a_j (T-_jj + a_(j-1) T-_(j-1,j)),   z_j = T-_(j-1,j) + b_j (T-_jj + b_(j+1) T-_(j+1,j)),
//
// two recurrences of first order, as the radial step has them.  Where the grid is uniform, pivots have a closed form; elsewhere each warp
// finds them from `warm` rows before and after its own, beyond which they are not felt.
#ifndef QSIM_ATOM_WARPS_MIX_CUH
#define QSIM_ATOM_WARPS_MIX_CUH
#include "atom_mix.cuh"
#include "atom_warps.cuh"

// The numbers of a Cayley step in the rows of a warp, of sums or of differences of pairs (see above).
struct Cayley {
    real a[ROWS], b[ROWS], s[ROWS], z[ROWS], gain[ROWS], keep[ROWS];
};

// Where 1 / r' is the same in all rows that are felt; of the differences, a and b, s and z change places.
QSIM_DEVICE void cayley_uniform(real k, Cayley& sums, Cayley& differences) {
    const real sixth = real(1.0 / 6.0), third = real(1.0 / 3.0), root = sqrt(fma(k, k, real(1.0 / 12.0)));
    const real pivot = -inverse(third + root), gain = real(0.5) * inverse(root), low = sixth - k, high = sixth + k;
    const real a = low * pivot, b = high * pivot;
    const real s = fma(a, fma(a, low, 2 * third), high), z = fma(b, fma(b, high, 2 * third), low);
    const real keep = gain * fma(a, low, fma(b, high, 2 * third));
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        sums.a[r] = differences.b[r] = a, sums.b[r] = differences.a[r] = b;
        sums.s[r] = differences.z[r] = s, sums.z[r] = differences.s[r] = z;
        sums.gain[r] = differences.gain[r] = gain, sums.keep[r] = differences.keep[r] = keep;
    }
}

QSIM_DEVICE real cayley_diagonal(const Mix& x, int j, real k) {
    const real sixth = real(1.0 / 6.0), corner = real(-0.26794919243112270647);  // sqrt(3) - 2
    if (j > 0 && j < x.points - 1) return 4 * sixth;
    return fma(j == x.points - 1 ? -corner : corner, k * x.inverse_slope[j], (4 + corner) * sixth);
}

// T_(j+1,j) T_(j,j+1)
QSIM_DEVICE real cayley_bond(const Mix& x, int j, real k) {
    const real sixth = real(1.0 / 6.0);
    return fma(-k, x.inverse_slope[j], sixth) * fma(k, x.inverse_slope[j + 1], sixth);
}

// Pivot of row `to` in an elimination that begins at row `from`, by determinants.
QSIM_DEVICE real cayley_pivot(const Mix& x, int from, int to, real k) {
    const int step = from < to ? 1 : -1;
    real before = 1, here = cayley_diagonal(x, from, k);
    for (int j = from; j != to; j += step) {
        const real next = fma(cayley_diagonal(x, j + step, k), here, -cayley_bond(x, step > 0 ? j : j - 1, k) * before);
        before = here, here = next;
    }
    return here * inverse(before);
}

QSIM_DEVICE void cayley_rows(const Mix& x, int first, int warm, real k, Cayley& c) {
    const real sixth = real(1.0 / 6.0);
    const int n = x.points;
    real p[ROWS], q[ROWS];  // pivots from either end
    real beyond = 0, above = 0;  // inverse pivots of the row before the first and of the row after the last
    if (first > 0 && first < n) beyond = inverse(cayley_pivot(x, first - 1 - warm > 0 ? first - 1 - warm : 0, first - 1, k));
    const int after = first + ROWS;
    if (after < n) above = inverse(cayley_pivot(x, after + warm < n - 1 ? after + warm : n - 1, after, k));
    real last = beyond;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int j = first + r;
        p[r] = 1;
        if (j < n) p[r] = cayley_diagonal(x, j, k) - (j > 0 ? cayley_bond(x, j - 1, k) * last : real(0));
        c.a[r] = last = inverse(p[r]);
    }
    last = above;
#pragma unroll
    for (int r = ROWS - 1; r >= 0; --r) {
        const int j = first + r;
        q[r] = 1;
        if (j < n) q[r] = cayley_diagonal(x, j, k) - (j + 1 < n ? cayley_bond(x, j, k) * last : real(0));
        c.b[r] = last = j < n ? inverse(q[r]) : real(0);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int j = first + r;
        const real slope = j < n ? x.inverse_slope[j] : real(0);
        const real low = fma(-k, slope, sixth), high = fma(k, slope, sixth);
        c.a[r] = j + 1 < n ? -low * c.a[r] : real(0);
        c.b[r] = j > 0 && j < n ? -high * c.b[r] : real(0);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int j = first + r;
        if (j >= n) {
            c.s[r] = c.z[r] = c.gain[r] = c.keep[r] = 0;
            continue;
        }
        const real slope = x.inverse_slope[j], low = fma(-k, slope, sixth), high = fma(k, slope, sixth);
        const real diagonal = cayley_diagonal(x, j, k), other = cayley_diagonal(x, j, -k);
        real left = 0, right = 0;  // a_(j-1) and b_(j+1)
        if (j > 0) left = r > 0 ? c.a[r > 0 ? r - 1 : 0] : -fma(-k, x.inverse_slope[j - 1], sixth) * beyond;
        if (j + 1 < n) right = r + 1 < ROWS ? c.b[r + 1 < ROWS ? r + 1 : r] : -fma(k, x.inverse_slope[j + 1], sixth) * above;
        c.s[r] = fma(c.a[r], fma(left, low, other), high);
        c.z[r] = fma(c.b[r], fma(right, high, other), low);
        c.gain[r] = inverse(p[r] + q[r] - diagonal);
        c.keep[r] = c.gain[r] * fma(left, low, fma(right, high, other));
    }
}

QSIM_DEVICE void cayley_fold(const Warps& w, const Cayley& c, const cplx (&v)[ROWS], int lane) {
    cplx down = c.s[0] * v[0], up = c.z[ROWS - 1] * v[ROWS - 1];
    real along = c.a[0], back = c.b[ROWS - 1];
#pragma unroll
    for (int r = 1; r < ROWS; ++r) {
        const int u = ROWS - 1 - r;
        down = cfma(c.a[r], down, c.s[r] * v[r]), along *= c.a[r];
        up = cfma(c.b[u], up, c.z[u] * v[u]), back *= c.b[u];
    }
    w.ends[w.warp * w.lanes + lane] = down, w.products[w.warp * w.lanes + lane] = along;
    w.ends[(w.warps + w.warp) * w.lanes + lane] = up, w.products[(w.warps + w.warp) * w.lanes + lane] = back;
}

QSIM_DEVICE void cayley_apply(const Warps& w, const Cayley& c, cplx (&v)[ROWS], int lane) {
    const int here = w.warp * w.lanes + lane, there = (w.warps + w.warp) * w.lanes + lane;
    cplx down = cfma(w.products[here], w.come[lane], w.ends[here]);
    cplx up = cfma(w.products[there], w.come[w.lanes + lane], w.ends[there]);
    cplx out[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        out[r] = cfma(c.gain[r], down, c.keep[r] * v[r]);
        down = cfma(c.a[r], down, c.s[r] * v[r]);
    }
#pragma unroll
    for (int r = ROWS - 1; r >= 0; --r) {
        out[r] = cfma(c.gain[r], up, out[r]);
        up = cfma(c.b[r], up, c.z[r] * v[r]);
        v[r] = out[r];
    }
}

// As radial_chain, with real factors of this step; `products` become those over the warps before.
QSIM_DEVICE void cayley_chain(const Warps& w, bool told, uint32 tag) {
    for (int direction = 0; direction < 2; ++direction) {
        if (w.warp != (direction ? 0 : w.warps - 1) || !w.active) continue;
        cplx* ends = w.ends + direction * w.warps * w.lanes + w.t;
        real* products = w.products + direction * w.warps * w.lanes + w.t;
        cplx x = {0, 0}, y = {0, 0};
        real p = 1, q = 1;
        for (int k = 0; k < w.warps; ++k) {
            const int row = (direction ? w.warps - 1 - k : k) * w.lanes;
            const cplx own = ends[row], other = ends[row + w.pairs];
            const real one = products[row], two = products[row + w.pairs];
            ends[row] = x, ends[row + w.pairs] = y;
            products[row] = p, products[row + w.pairs] = q;
            x = cfma(one, x, own), y = cfma(two, y, other);
            p *= one, q *= two;
        }
        if (told) {
            send_sum(w, direction, 0, x, tag);
            send_sum(w, direction, 1, y, tag);
            send(mailbox(w, direction, w.at, w.t, tag) + 2, p, tag);
            send(mailbox(w, direction, w.at, w.t + w.pairs, tag) + 2, q, tag);
        }
    }
}

// As radial_receive.
QSIM_DEVICE void cayley_receive(const Warps& w, int window, uint32 tag) {
    for (int direction = 0; direction < 2; ++direction) {
        if (w.warp != (direction ? w.warps - 1 : 0) || !w.active) continue;
        cplx x = {0, 0}, y = {0, 0};
        for (int k = window; k > 0; --k) {
            const int c = direction ? w.at + k : w.at - k;
            if (c < 0 || c >= w.chunks) continue;
            real own[MAIL], other[MAIL];
            receive<3>(mailbox(w, direction, c, w.t, tag), mailbox(w, direction, c, w.pairs + w.t, tag), tag, own, other);
            x = cfma(own[2], x, make_cplx(own[0], own[1]));
            y = cfma(other[2], y, make_cplx(other[0], other[1]));
        }
        w.come[direction * w.lanes + w.t] = x;
        w.come[direction * w.lanes + w.pairs + w.t] = y;
    }
}

// One Cayley step of the pairs of a family; false if the launch ends before it is complete.
QSIM_DEVICE bool cayley_step(const Warps& w, const Mix& x, const Family& family, bool odd, real g, int window, bool told,
                             bool completed, uint32 tag, cplx (&a)[ROWS], cplx (&b)[ROWS]) {
    const real coupling = w.t < family.count ? family.coupling[w.t] : real(0);
    const real growth = w.t < family.count ? family.growth[w.t] : real(0);
    const real rate = real(0.25) * g * coupling, angle = real(0.25) * g * growth;
    const int first = w.at * w.rows + w.warp * ROWS, warm = x.reach[2 * w.chunks + w.at];
    cplx sum[ROWS], difference[ROWS];
    real more[ROWS], less[ROWS], half[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const real t = angle * x.inverse_r[first + r], root = x.root[first + r];
        const real scale = root > real(0) ? inverse(root * fma(t, t, real(1))) : real(0);
        const real one = fma(-t, t, real(1)) * scale, two = real(2) * t * scale;
        more[r] = one + two, less[r] = one - two, half[r] = real(0.5) * root * root;
        const cplx next = from_next(a[r]);
        const cplx lower = odd ? b[r] : a[r], upper = odd ? (w.t + 1 < w.pairs ? next : make_cplx(0, 0)) : b[r];
        sum[r] = cfma(more[r], lower, less[r] * upper);
        difference[r] = cfma(less[r], lower, -more[r] * upper);
    }
    Cayley sums, differences;
    if (warm < 0) {
        cayley_uniform(rate * x.inverse_slope[first], sums, differences);
    } else {
        cayley_rows(x, first, warm, rate, sums);
        cayley_rows(x, first, warm, -rate, differences);
    }
    if (w.active) {
        cayley_fold(w, sums, sum, w.t);
        cayley_fold(w, differences, difference, w.pairs + w.t);
    }
    __syncthreads();
    cayley_chain(w, told, tag);
    if (!completed) return false;
    cayley_receive(w, window, tag);
    __syncthreads();
    if (w.active) {
        cayley_apply(w, sums, sum, w.t);
        cayley_apply(w, differences, difference, w.pairs + w.t);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const cplx lower = half[r] * cfma(less[r], sum[r], more[r] * difference[r]);
        cplx upper = half[r] * cfma(more[r], sum[r], -less[r] * difference[r]);
        if (odd) {
            b[r] = lower;
            upper = from_last(upper);
            if (w.t > 0) a[r] = upper;
        } else {
            a[r] = lower, b[r] = upper;
        }
    }
    return true;
}

QSIM_DEVICE void warp_velocity_sweeps(const Steps& s, const Radial& t, const Mix& x, const Operations& o, uint4* mail) {
    extern __shared__ __align__(16) char raw[];
    __shared__ real scratch[QSIM_WARP];
    __shared__ Family families[FAMILIES];
    if ((int)threadIdx.x < s.families) families[threadIdx.x] = family_of(s, threadIdx.x);
    const Warps w = warps_of(s, raw, mail);
    const int member = blockIdx.x / s.blocks, size = w.rows * w.lanes;
    cplx* tables = (cplx*)(w.products + 2 * w.warps * w.lanes);  // alpha, beta, gain and keep of the chunk
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        const int64 from = (int64)w.at * size + i;
        tables[i] = t.alpha[from], tables[size + i] = t.beta[from];
        tables[2 * size + i] = t.gain[from], tables[3 * size + i] = t.keep[from];
    }
    __syncthreads();
    cplx* state = s.state + ((int64)member * w.chunks + w.at) * size;
    cplx a[ROWS], b[ROWS];
    load_rows(w, state, a, b);
    const Prefix prefix = radial_prefix(w, t);
    for (int k = s.first;; ++k) {
        if (k > 0) {
            const uint32 tag = (uint32)(s.base + k);
            const int kind = o.kinds[k - 1];
            if (kind == RADIAL_STEP) {
                const cplx* own = tables + w.warp * ROWS * w.lanes + w.t;
                if (w.active) {
#pragma unroll
                    for (int side = 0; side < 2; ++side) {
                        cplx down, up;
                        const cplx* mine = own + side * w.pairs;
                        radial_fold(mine, mine + size, w.lanes, side ? b : a, down, up);
                        w.ends[w.warp * w.lanes + side * w.pairs + w.t] = down;
                        w.ends[(w.warps + w.warp) * w.lanes + side * w.pairs + w.t] = up;
                    }
                }
                __syncthreads();
                radial_chain(w, t, k != s.first, tag);
                if (k > s.last) break;
                radial_receive(w, t, s.window, tag);
                __syncthreads();
                if (w.active) {
#pragma unroll
                    for (int side = 0; side < 2; ++side) {
                        const cplx* mine = own + side * w.pairs;
                        radial_rows(mine, mine + size, mine + 2 * size, mine + 3 * size, w.lanes, side ? b : a,
                                    radial_carry(w, 0, side, prefix.down[side]), radial_carry(w, 1, side, prefix.up[side]));
                    }
                }
            } else {
                const real g = s.moves[((int64)member * (s.steps + 1) + k - 1) * 3];
                if (!cayley_step(w, x, families[kind], kind == 1, g, s.window, k != s.first, k <= s.last, tag, a, b)) break;
            }
        }
        const int action = o.actions[k], sample = s.samples[k];
        if ((action & 1) && w.at * w.rows < o.inner_rows) {
            store_rows(w, w.f, a, b);
            __syncthreads();
            clear_core(chunk_of(w), o.inner, o.inner_rows, scratch, o.lost + member * w.chunks + w.at);
            load_rows(w, w.f, a, b);
            __syncthreads();
        }
        if (action & 2) mask_rows(w, s.mask, a, b);
        if (sample >= 0) warp_sums(w, s, families, member, sample, scratch, a, b);
        if (k == s.steps) break;
    }
    store_rows(w, state, a, b);
}

#endif  // QSIM_ATOM_WARPS_MIX_CUH
