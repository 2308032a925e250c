// Velocity gauge of atom_warps.cuh: the Cayley steps of atom_cayley.cuh, a warp holding ROWS rows of all pairs.
#ifndef QSIM_ATOM_WARPS_MIX_CUH
#define QSIM_ATOM_WARPS_MIX_CUH
#include "atom_mix.cuh"
#include "atom_warps.cuh"

template <typename T> QSIM_DEVICE void cayley_fold(const Warps& w, const T& c, const cplx (&v)[ROWS], int lane) {
    const int here = w.warp * w.lanes + lane, there = (w.warps + w.warp) * w.lanes + lane;
    cplx down, up;
    real along, back;
    cayley_sums(c, v, down, up, along, back);
    w.ends[here] = down, w.ends[there] = up;
    w.products[here] = along, w.products[there] = back;
}

template <typename T> QSIM_DEVICE void cayley_apply(const Warps& w, const T& c, cplx (&v)[ROWS], int lane) {
    const int here = w.warp * w.lanes + lane, there = (w.warps + w.warp) * w.lanes + lane;
    cayley_values(c, v, cfma(w.products[here], w.come[lane], w.ends[here]),
                  cfma(w.products[there], w.come[w.lanes + lane], w.ends[there]));
}

// As radial_chain, with real factors of this step; `products` become those over the warps before.
QSIM_DEVICE void cayley_chain(const Warps& w, bool told, uint32 tag) {
    for (int role = 0; role < ROLES; ++role) {
        if (!adds(w, role)) continue;
        const int direction = role & 1, lane = w.t + (role >> 1) * w.pairs;
        cplx *ends = w.ends + direction * w.warps * w.lanes + lane, sum = {0, 0};
        real *products = w.products + direction * w.warps * w.lanes + lane, product = 1;
        for (int begin = 0; begin < w.warps; begin += 4) {
            cplx own[4];
            real factor[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int q = direction ? w.warps - 1 - begin - i : begin + i;
                if (q >= 0 && q < w.warps) own[i] = ends[q * w.lanes], factor[i] = products[q * w.lanes];
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int q = direction ? w.warps - 1 - begin - i : begin + i;
                if (q < 0 || q >= w.warps) continue;
                ends[q * w.lanes] = sum, products[q * w.lanes] = product;
                sum = cfma(factor[i], sum, own[i]), product *= factor[i];
            }
        }
        if (told) {
            uint4* to = mailbox(w, direction, w.at, lane, tag);
            send_sum(to, sum, tag);
            send(to + 2, product, tag);
        }
    }
}

// As radial_receive.
QSIM_DEVICE void cayley_receive(const Warps& w, int window, uint32 tag) {
    for (int role = 0; role < ROLES; ++role) {
        if (!listens(w, role)) continue;
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

// Rotations of the next step, and its numbers where the grid is uniform, while others are waited for.
QSIM_DEVICE void cayley_prepare(const Warps& w, const Mix& x, const Family& family, real g) {
    const real coupling = w.t < family.count ? family.coupling[w.t] : real(0);
    const real growth = w.t < family.count ? family.growth[w.t] : real(0);
    const real rate = real(0.25) * g * coupling, angle = real(0.25) * g * growth;
    const int first = w.at * w.rows + w.warp * ROWS;
    cplx* room = w.room + threadIdx.x;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const real t = angle * x.inverse_r[first + r], root = x.root[first + r];
        const real scale = root > real(0) ? inverse(root * fma(t, t, real(1))) : real(0);
        const real one = fma(-t, t, real(1)) * scale, two = real(2) * t * scale;
        room[r * w.threads] = {one + two, one - two};
    }
    const int warm = x.reach[2 * w.chunks + w.at];
    if (warm >= 0) {
        const CayleyEnds e = cayley_ends(x, first, warm, rate);
        room[ROWS * w.threads] = {e.beyond[0], e.beyond[1]};
        room[(ROWS + 1) * w.threads] = {e.above[0], e.above[1]};
    } else {
        const CayleyAlike c = cayley_uniform(rate * x.inverse_slope[first]);
        room[ROWS * w.threads] = {c.one_a, c.one_b};
        room[(ROWS + 1) * w.threads] = {c.one_s, c.one_z};
        room[(ROWS + 2) * w.threads] = {c.one_gain, c.one_keep};
    }
}

// What a launch does at a time: part k - 1 of the steps, the one after which is prepared.
struct Part {
    const Family *family, *next;  // next: null if it is none of pairs
    real g, next_g;
    bool odd, told, completed;
    int window;
    uint32 tag;
};

template <typename T>
QSIM_DEVICE bool cayley_exchange(const Warps& w, const Mix& x, const Part& part, const T& sums, const T& differences,
                                 cplx (&sum)[ROWS], cplx (&difference)[ROWS]) {
    if (w.active) {
        cayley_fold(w, sums, sum, w.t);
        cayley_fold(w, differences, difference, w.pairs + w.t);
    }
    __syncthreads();
    cayley_chain(w, part.told, part.tag);
    if (!part.completed) return false;
    if (part.next) cayley_prepare(w, x, *part.next, part.next_g);
    cayley_receive(w, part.window, part.tag);
    __syncthreads();
    if (w.active) {
        cayley_apply(w, sums, sum, w.t);
        cayley_apply(w, differences, difference, w.pairs + w.t);
    }
    return true;
}

// A Cayley step of the pairs of a family; false if the launch ends before it is complete.
QSIM_DEVICE bool cayley_step(const Warps& w, const Mix& x, const Part& part, cplx (&a)[ROWS], cplx (&b)[ROWS]) {
    const int first = w.at * w.rows + w.warp * ROWS, warm = x.reach[2 * w.chunks + w.at];
    const cplx* room = w.room + threadIdx.x;
    cplx sum[ROWS], difference[ROWS], turn[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        turn[r] = room[r * w.threads];
        cplx lower = a[r], upper = b[r];
        if (part.odd) {
            upper = from_next(a[r]), lower = b[r];
            if (w.t + 1 >= w.pairs) upper = {0, 0};
        }
        sum[r] = cfma(turn[r].re, lower, turn[r].im * upper);
        difference[r] = cfma(turn[r].im, lower, -turn[r].re * upper);
    }
    bool whole;
    if (warm < 0) {
        const cplx one = room[ROWS * w.threads], two = room[(ROWS + 1) * w.threads], three = room[(ROWS + 2) * w.threads];
        const CayleyAlike sums = {one.re, one.im, two.re, two.im, three.re, three.im};
        whole = cayley_exchange(w, x, part, sums, sums.other(), sum, difference);
    } else {
        const real rate = w.t < part.family->count ? real(0.25) * part.g * part.family->coupling[w.t] : real(0);
        CayleyRows sums, differences;
        const cplx beyond = room[ROWS * w.threads], above = room[(ROWS + 1) * w.threads];
        cayley_rows(x, first, beyond.re, above.re, rate, sums);
        cayley_rows(x, first, beyond.im, above.im, -rate, differences);
        whole = cayley_exchange(w, x, part, sums, differences, sum, difference);
    }
    if (!whole) return false;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const real root = x.root[first + r], half = real(0.5) * root * root;
        const cplx lower = half * cfma(turn[r].im, sum[r], turn[r].re * difference[r]);
        cplx upper = half * cfma(turn[r].re, sum[r], -turn[r].im * difference[r]);
        if (part.odd) {
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
    cplx* tables = w.tables;
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
            const real* move = s.moves + ((int64)member * (s.steps + 1) + k) * 3;
            const int kind = o.kinds[k - 1], next = o.kinds[k];
            Part part;
            part.family = kind >= 0 ? families + kind : nullptr, part.next = next >= 0 ? families + next : nullptr;
            part.g = move[-3], part.next_g = move[0];
            part.odd = kind == 1, part.told = k != s.first, part.completed = k <= s.last;
            part.window = s.window, part.tag = (uint32)(s.base + k);
            if ((k == s.first || k == 1) && kind >= 0) cayley_prepare(w, x, *part.family, part.g);
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
                radial_chain(w, t, part.told, part.tag);
                if (!part.completed) break;
                if (part.next) cayley_prepare(w, x, *part.next, part.next_g);
                radial_receive(w, t, s.window, part.tag);
                __syncthreads();
                if (w.active) {
#pragma unroll
                    for (int side = 0; side < 2; ++side) {
                        const cplx* mine = own + side * w.pairs;
                        radial_rows(mine, mine + size, w.lanes, mine + 2 * size, mine + 3 * size, w.lanes, side ? b : a,
                                    radial_carry(w, 0, side, prefix.down[side]), radial_carry(w, 1, side, prefix.up[side]));
                    }
                }
            } else if (!cayley_step(w, x, part, a, b)) {
                break;
            }
        }
        const int action = o.actions[k], sample = s.samples[k];
        if ((action & 1) && w.at * w.rows < o.inner_rows) {
            __syncthreads();  // all have read `ends`
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
