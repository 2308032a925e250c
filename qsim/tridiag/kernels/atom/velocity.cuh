// Velocity gauge on a GPU: the Cayley steps of cayley.cuh in chunks of rows, and the sweeps of both polarisations.
#ifndef QSIM_ATOM_VELOCITY_CUH
#define QSIM_ATOM_VELOCITY_CUH
#include "cayley.cuh"

#define MIX_THREADS 256  // with twice the registers of THREADS
#define MIX_MOVES 3      // numbers per operation: g, turns of the frame before and after a sample
#define ODD_PAIRS 1      // along z
// what is done before it begins, a bit each; and whether pairs turn otherwise than in the last operation that turned any: never
// after a radial step
#define CLEAR 1
#define MASK 2
#define CHANGES 4

// Sums and differences of a pair in the rows of a part, turned, and divided by sqrt(r').
QSIM_DEVICE void load_pair(const Chunk& m, const Mix& x, int lower, int upper, real angle, int begin, cplx (&sum)[ROWS],
                           cplx (&difference)[ROWS]) {
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const int row = begin + k, j = m.at * m.rows + row;
        const cplx a = m.f[row * m.lanes + lower], b = m.f[row * m.lanes + upper];
        // real rotation in Cayley's form; rows beyond the grid have root 0, and stay zero
        const real t = angle * x.inverse_r[j], root = x.root[j];
        const real scale = root > real(0) ? inverse(root * fma(t, t, real(1))) : real(0);
        const real c = fma(-t, t, real(1)) * scale, s = real(2) * t * scale;
        const cplx p = {fma(c, a.re, -s * b.re), fma(c, a.im, -s * b.im)}, q = {fma(s, a.re, c * b.re), fma(s, a.im, c * b.im)};
        sum[k] = p + q;
        difference[k] = p - q;
    }
}

// What a thread does with the rows of a part: sums at the lanes `pair`, differences at `count + pair`.
struct MixPlace {
    int part, pair, lower, upper, first;
    real angle, rate;
};

QSIM_DEVICE MixPlace mix_place(const Chunk& m, const Family& family, real g, int i) {
    MixPlace p;
    p.part = divided(i, family.count, family.magic), p.pair = i - p.part * family.count;
    p.lower = family.lanes[p.pair], p.upper = family.lanes[family.count + p.pair];
    p.first = m.at * m.rows + p.part * ROWS;
    p.angle = real(0.25) * g * family.growth[p.pair], p.rate = real(0.25) * g * family.coupling[p.pair];
    return p;
}

template <typename T>
QSIM_DEVICE void mix_fold(const Chunk& m, const T& c, const cplx (&v)[ROWS], int part, int lane, real* products) {
    const int here = part * m.lanes + lane, there = m.parts * m.lanes + here;
    const int64 stride = (int64)m.chunks * m.parts * m.lanes;
    cplx down, up;
    real along, back;
    cayley_sums(c, v, down, up, along, back);
    m.ends[here] = down, m.ends[there] = up;
    real* to = products + (int64)m.at * m.parts * m.lanes + here;
    to[0] = along, to[stride] = back;
}

// Sums of each thread's rows from zero, for the pairs of a family; products: (2, parts of all chunks, lanes).
QSIM_DEVICE void mix_ends(const Chunk& m, const Mix& x, const Family& family, real g, real* products) {
    const int warm = x.felt[2 * m.chunks + m.at];
    for (int i = threadIdx.x; i < m.parts * family.count; i += blockDim.x) {
        const MixPlace p = mix_place(m, family, g, i);
        cplx sum[ROWS], difference[ROWS];
        load_pair(m, x, p.lower, p.upper, p.angle, p.part * ROWS, sum, difference);
        if (warm < 0) {
            const CayleyAlike c = cayley_uniform(p.rate * x.inverse_slope[p.first]);
            mix_fold(m, c, sum, p.part, p.pair, products);
            mix_fold(m, c.other(), difference, p.part, family.count + p.pair, products);
        } else {
            // the numbers are made for sums, used, and made again for differences: registers hold one set
            const CayleyEnds e = cayley_ends(x, p.first, warm, p.rate);
            CayleyRows c;
            cayley_rows(x, p.first, e.beyond[0], e.above[0], p.rate, c);
            mix_fold(m, c, sum, p.part, p.pair, products);
            cayley_rows(x, p.first, e.beyond[1], e.above[1], -p.rate, c);
            mix_fold(m, c, difference, p.part, family.count + p.pair, products);
        }
    }
    __syncthreads();
}

// As radial_tips, with the factors of this operation: wholes (2, chunks, lanes), their product over the chunk, for the others; `products`
// becomes that over all parts before.
QSIM_DEVICE void mix_tips(const Chunk& m, const Family& family, real* products, cplx* tips, real* wholes) {
    const int groups = groups_of(m.parts), width = 2 * family.count, threads = 2 * groups * width;
    real* of_groups = products + ((int64)2 * m.chunks * m.parts + (int64)m.at * groups) * m.lanes;  // direction 0
    const int64 other = (int64)m.chunks * groups * m.lanes;
    // sums and products of each group of parts
    for (int i = threadIdx.x; i < threads; i += blockDim.x) {
        const Link l = link_of(i, width, m.parts);
        const real* factors = products + ((int64)l.direction * m.chunks + m.at) * m.parts * m.lanes + l.lane;
        cplx *ends = m.ends + l.direction * m.parts * m.lanes + l.lane, sum = {0, 0};
        real product = 1;
        for (int k = l.begin; k < l.end; ++k) {
            const real factor = factors[l.part(k) * m.lanes];
            sum = cfma(factor, sum, ends[l.part(k) * m.lanes]), product *= factor;
        }
        ends[l.part(l.end - 1) * m.lanes] = sum;
        of_groups[l.direction * other + l.group * m.lanes + l.lane] = product;
    }
    __syncthreads();
    // over the groups: each gets what lies before it; the whole chunk goes to the others
    for (int i = threadIdx.x; i < 2 * width; i += blockDim.x) {
        const int direction = i >= width, lane = i - direction * width;
        real* factors = of_groups + direction * other + lane;
        cplx *ends = m.ends + direction * m.parts * m.lanes + lane, sum = {0, 0};
        real product = 1;
        for (int group = 0; group < groups; ++group) {
            const int k = min((group + 1) * GROUP, m.parts) - 1;
            cplx* place = ends + (direction ? m.parts - 1 - k : k) * m.lanes;
            const cplx own = *place;
            const real factor = factors[group * m.lanes];
            *place = sum, factors[group * m.lanes] = product;
            sum = cfma(factor, sum, own), product *= factor;
        }
        const int to = (direction * m.chunks + m.at) * m.lanes + lane;
        if (tips) tips[to] = sum, wholes[to] = product;
    }
    __syncthreads();
    // within each group again: sums and products before every part
    for (int i = threadIdx.x; i < threads; i += blockDim.x) {
        const Link l = link_of(i, width, m.parts);
        real* factors = products + ((int64)l.direction * m.chunks + m.at) * m.parts * m.lanes + l.lane;
        cplx *ends = m.ends + l.direction * m.parts * m.lanes + l.lane, sum = ends[l.part(l.end - 1) * m.lanes];
        real product = of_groups[l.direction * other + l.group * m.lanes + l.lane];
        for (int k = l.begin; k < l.end; ++k) {
            const int place = l.part(k) * m.lanes;
            const real factor = factors[place];
            const cplx own = ends[place];
            ends[place] = sum, factors[place] = product;
            sum = cfma(factor, sum, own), product *= factor;  // after the last part, not used
        }
    }
    __syncthreads();
}

// As radial_come.
QSIM_DEVICE void mix_come(const Chunk& m, const Mix& x, const Family& family, const cplx* tips, const real* wholes) {
    const int width = 2 * family.count;
    for (int i = threadIdx.x; i < 2 * width; i += blockDim.x) {
        const bool back = i >= width;
        const int lane = back ? i - width : i;
        const int reach = (x.felt[(back ? m.chunks : 0) + m.at] + m.parts - 1) / m.parts;
        cplx sum = {0, 0};
        for (int k = reach; k > 0; --k) {
            const int c = back ? m.at + k : m.at - k;
            if (c < 0 || c >= m.chunks) continue;
            const int place = ((back ? m.chunks : 0) + c) * m.lanes + lane;
            sum = cfma(read_of_blocks(wholes + place), sum, read_of_blocks(tips + place));
        }
        m.come[(back ? m.lanes : 0) + lane] = sum;
    }
    __syncthreads();
}

// What comes to the rows of a part.
QSIM_DEVICE cplx mix_carry(const Chunk& m, const real* products, int direction, int part, int lane) {
    if (m.parts == 1) return m.come[direction * m.lanes + lane];
    const real factor = products[((int64)(direction * m.chunks + m.at) * m.parts + part) * m.lanes + lane];
    return cfma(factor, m.come[direction * m.lanes + lane], m.ends[(direction * m.parts + part) * m.lanes + lane]);
}

// f' of the pairs of the family.
QSIM_DEVICE void mix_finish(const Chunk& m, const Mix& x, const Family& family, real g, const real* products) {
    const int warm = x.felt[2 * m.chunks + m.at];
    for (int i = threadIdx.x; i < m.parts * family.count; i += blockDim.x) {
        const MixPlace p = mix_place(m, family, g, i);
        cplx sum[ROWS], difference[ROWS];
        // the rows are read again, turned to sums and differences: cheaper than to keep them over the exchange
        load_pair(m, x, p.lower, p.upper, p.angle, p.part * ROWS, sum, difference);
        const int there = family.count + p.pair;
        const cplx down = mix_carry(m, products, 0, p.part, p.pair), up = mix_carry(m, products, 1, p.part, p.pair);
        const cplx other_down = mix_carry(m, products, 0, p.part, there), other_up = mix_carry(m, products, 1, p.part, there);
        // warm < 0: 1 / r' is the same in all rows that are felt, and the pivots have a closed form
        if (warm < 0) {
            const CayleyAlike c = cayley_uniform(p.rate * x.inverse_slope[p.first]);
            cayley_values(c, sum, down, up);
            cayley_values(c.other(), difference, other_down, other_up);
        } else {
            const CayleyEnds e = cayley_ends(x, p.first, warm, p.rate);
            CayleyRows c;
            cayley_rows(x, p.first, e.beyond[0], e.above[0], p.rate, c);
            cayley_values(c, sum, down, up);
            cayley_rows(x, p.first, e.beyond[1], e.above[1], -p.rate, c);
            cayley_values(c, difference, other_down, other_up);
        }
#pragma unroll
        for (int k = 0; k < ROWS; ++k) {
            const int row = p.part * ROWS + k, j = m.at * m.rows + row;
            const real t = p.angle * x.inverse_r[j], scale = real(0.5) * x.root[j] * inverse(fma(t, t, real(1)));
            const real c = fma(-t, t, real(1)) * scale, s = real(2) * t * scale;
            // back to the pair, turned by the same angle once more
            const cplx a = sum[k] + difference[k], b = sum[k] - difference[k];
            m.f[row * m.lanes + p.lower] = {fma(c, a.re, -s * b.re), fma(c, a.im, -s * b.im)};
            m.f[row * m.lanes + p.upper] = {fma(s, a.re, c * b.re), fma(s, a.im, c * b.im)};
        }
    }
    __syncthreads();
}

// Set u_l = 0 within r_in(l): inner (inner_rows, lanes), 1/r'^2 where that is, 0 elsewhere; lost: what this chunk has lost so far.
QSIM_DEVICE void clear_core(const Chunk& m, const real* inner, int inner_rows, real* scratch, real* lost) {
    if (m.at * m.rows >= inner_rows) return;
    real sum = 0;
    for (int i = threadIdx.x; i < m.rows * m.lanes; i += blockDim.x) {
        const int row = m.at * m.rows + divided(i, m.lanes, m.magic);
        const real weight = row < inner_rows ? inner[(int64)m.at * m.rows * m.lanes + i] : real(0);
        if (weight != real(0)) {
            sum = fma(weight, abs2(m.f[i]), sum);
            m.f[i] = {0, 0};
        }
    }
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) *lost += sum;
    __syncthreads();
}

// What velocity gauge has beside Steps: its `moves` are (members, operations + 1, MIX_MOVES): g of the operation that begins, turns of the
// frame before and after a sample.
struct Operations {
    const int* kinds;    // (operations + 1): family, RADIAL_STEP or NOTHING
    const int* actions;  // (operations + 1): before it begins: CLEAR the core, multiply by the MASK, or both
    real *products, *wholes;  // of Cayley steps: (members, 2, parts of all chunks, lanes); (2, members, 2, chunks, lanes)
    real* lost;               // (members, chunks)
    const real* inner;
    int inner_rows;
};

QSIM_DEVICE void velocity_sweeps(const Steps& s, const Radial& t, const Mix& x, const Operations& o) {
    extern __shared__ __align__(16) char raw[];
    __shared__ real scratch[QSIM_WARP];
    __shared__ Family families[FAMILIES];
    const int member = blockIdx.x / s.blocks, block = blockIdx.x - member * s.blocks;
    const bool resident = s.blocks == s.chunks;
    if ((int)threadIdx.x < s.families) families[threadIdx.x] = family_of(s, threadIdx.x);
    __syncthreads();
    cplx* phases;
    Chunk m = chunk_in(s, raw, phases);
    cplx* state = s.state + (int64)member * s.chunks * s.rows * s.lanes;
    int* flags = s.flags + member * s.chunks;
    const int64 tips = 2 * (int64)s.chunks * s.lanes;
    real* products = o.products + member * tips * (m.parts + groups_of(m.parts));
    cplx* kept = s.kept + member * tips * m.parts;
    // Operation k of the list ends the one before it, acts between them (core, mask, frame, sums), and begins the next: one
    // exchange between blocks per operation.
    for (int k = s.first; k <= s.last; ++k) {
        const real* move = s.moves + ((int64)member * (s.steps + 1) + k) * MIX_MOVES;
        const int ends = k > 0 ? o.kinds[k - 1] : NOTHING, begins = o.kinds[k];
        const int64 before = (int64)((k - 1) & 1) * s.members + member, now = (int64)(k & 1) * s.members + member;
        for (m.at = block; m.at < s.chunks; m.at += s.blocks) {
            if (!resident || k == s.first) load_chunk(m, state);
            if (k > 0) {
                if (!resident) load_ends(m, kept);
                // the first operation of a launch makes its own sums anew, since shared memory does not outlive a launch
                if (resident && k == s.first) {
                    if (ends == RADIAL_STEP) {
                        radial_ends(m, t);
                        radial_tips(m, t, nullptr);
                    } else if (ends >= 0 && move[-MIX_MOVES] != real(0)) {
                        mix_ends(m, x, families[ends], move[-MIX_MOVES], products);
                        mix_tips(m, families[ends], products, nullptr, nullptr);
                    }
                }
                wait_for(flags, m.at, s.chunks, s.window, s.base + k);
            }
            if (ends == RADIAL_STEP) {
                radial_come(m, t, s.tips + before * tips);
                radial_finish(m, t);
            } else if (ends >= 0 && move[-MIX_MOVES] != real(0)) {
                mix_come(m, x, families[ends], s.tips + before * tips, o.wholes + before * tips);
                mix_finish(m, x, families[ends], move[-MIX_MOVES], products);
            }
            if (o.actions[k] & CLEAR) clear_core(m, o.inner, o.inner_rows, scratch, o.lost + member * s.chunks + m.at);
            if (o.actions[k] & MASK) multiply_rows(m, s.mask + m.at * m.rows);
            if (s.momenta) turn_frame(m, s.momenta, move[1], phases);
            if (s.samples[k] >= 0)
                chunk_sums(m, families, s.families, s.r + m.at * m.rows, s.weight + m.at * m.rows,
                           s.force + m.at * m.rows, s.edge, scratch,
                           s.sums + (((int64)member * s.places + s.samples[k]) * s.chunks + m.at) * SUMS);
            if (s.momenta) turn_frame(m, s.momenta, move[2], phases);
            if (begins == RADIAL_STEP) {
                radial_ends(m, t);
                radial_tips(m, t, s.tips + now * tips);
                if (!resident) store_ends(m, kept);
            } else if (begins >= 0 && move[0] != real(0)) {
                mix_ends(m, x, families[begins], move[0], products);
                mix_tips(m, families[begins], products, s.tips + now * tips, o.wholes + now * tips);
                if (!resident) store_ends(m, kept);
            }
            if (k < s.steps) publish(flags, m.at, s.base + k + 1);
            if (!resident || k == s.last) store_chunk(m, state);
        }
    }
}

#endif  // QSIM_ATOM_VELOCITY_CUH
