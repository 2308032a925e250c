// Steps of an electron in a central potential on a GPU: what the kernels of both gauges and of all polarisations share.
//
// The state (members, rows, lanes) is cut along r into chunks of `rows` rows with all their lanes, which a block keeps in shared
// memory: the couplings of the lanes are local in r and never leave it.  The radial step of a lane is, with fixed tables,
//
//     zd_j = f_j + alpha_j zd_(j-1),   zu_j = f_j + beta_j zu_(j+1),   f'_j = gain_j (zd_j + beta_j zu_(j+1)) - keep_j f_j,
//
// the elimination from either end with all factors put into the tables (cuda_tables.py).  Both are recurrences of first order: threads
// take ROWS rows from zero, then add what comes from the rows before, times products of alpha that are tables too.  What chunks
// send each other are the ends of these sums ("tips"), and as the products decay, a chunk looks back over few others
// (`reach`), as many as rounding needs.  One exchange per step, by a flag per chunk that counts sweeps: a launch makes
// many steps if all blocks are on the device at once (the caller sees to that).
//
// Blocks that hold one chunk keep it from sweep to sweep; with several chunks per block, chunks are loaded and stored.
#ifndef QSIM_ATOM_CHUNKS_CUH
#define QSIM_ATOM_CHUNKS_CUH
#include "qsim.cuh"

#ifndef ROWS
#define ROWS 4  // rows of a thread in the radial recurrences
#endif
#ifndef THREADS
#define THREADS 512
#endif
#define GROUP 8    // parts that a thread adds up
#define FAMILIES 4  // of disjoint pairs of lanes, at most
#define SUMS 6      // norm, two components of dipole and force, norm of the last l
// what an operation is, if not the number of a family of pairs
#define RADIAL_STEP (-1)
#define NOTHING (-2)
#define MOVES 4     // numbers per sweep in length gauge: angles per bohr, of the step before and after; turns of the frame

// 1 / x to rounding for x between 1e-300 and 1e300.
QSIM_DEVICE real inverse(real x) {
#ifdef __CUDACC__
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"((double)x));
    r = fma(r, fma(-r, (double)x, 1.0), r);
    return (real)fma(r, fma(-r, (double)x, 1.0), r);
#else
    return real(1) / x;
#endif
}

// 1 / sqrt(x) to rounding for x between 1e-300 and 1e300.
QSIM_DEVICE real inverse_root(real x) {
#ifdef __CUDACC__
    double r;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"((double)x));
    const double half = 0.5 * (double)x;
    r = fma(r, fma(-half * r, r, 0.5), r);
    return (real)fma(r, fma(-half * r, r, 0.5), r);
#else
    return real(1) / sqrt(x);
#endif
}

QSIM_DEVICE int read_flag(const int* flag) {
#ifdef __CUDACC__
    int value;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
#else
    return *(const volatile int*)flag;
#endif
}

// What other blocks have written: past the cache of the multiprocessor, which does not see others write.
QSIM_DEVICE cplx read_of_blocks(const cplx* from) {
#ifdef __CUDACC__
    const real* p = (const real*)from;
    return {__ldcg(p), __ldcg(p + 1)};
#else
    return *from;
#endif
}

QSIM_DEVICE real read_of_blocks(const real* from) {
#ifdef __CUDACC__
    return __ldcg(from);
#else
    return *from;
#endif
}

// Tables of the radial step, (rows of all chunks, lanes) unless said; rows beyond the grid hold zeros.
struct Radial {
    const cplx *alpha, *beta, *gain, *keep;
    const cplx *alpha_part, *beta_part;    // products over the rows of a thread, (parts of all chunks, lanes)
    const cplx *alpha_chunk, *beta_chunk;  // over a chunk, (chunks, lanes)
    const int* reach;                      // (2, chunks): chunks before and after that are felt
    const cplx* more;  // products over GROUP parts (2, groups of all chunks, lanes), then over the parts of the chunk before a part,
                       // and after it (2, parts of all chunks, lanes)
};

// Disjoint pairs of lanes that one rotation couples, lower l first.
struct Family {
    const int* lanes;       // (2, count)
    const real* coupling;   // (count)
    const real* growth;     // (count): coupling (l + 1)
    int count;
    uint32 magic;           // ceil(2^32 / count)
};

struct Chunk {
    cplx *f, *ends;         // shared: state (rows, lanes); sums of threads' rows, then those of all before, (2, parts, lanes)
    cplx* come;             // shared: what comes from other chunks, (2, lanes); in a chunk of one part, over `ends`
    int lanes, rows, parts, chunks, at;  // `at`: which chunk
    uint32 magic;           // ceil(2^32 / lanes)
};

// i / d for i d < 2^32 / 2 with magic = ceil(2^32 / d); d = 1 has no magic in 32 bits
QSIM_DEVICE int divided(int i, int d, uint32 magic) { return d == 1 ? i : (int)__umulhi((uint32)i, magic); }

// ------------------------------------------------------------------------------------- between blocks

// Wait until the chunks within `window` of this one have finished sweep `wanted`.
QSIM_DEVICE void wait_for(const int* flags, int at, int chunks, int window, int wanted) {
    // a thread per chunk that is waited for: all are looked at together
    const int low = at - window < 0 ? 0 : at - window, high = at + window >= chunks ? chunks - 1 : at + window;
    for (int c = low + (int)threadIdx.x; c <= high; c += blockDim.x)
        while (read_flag(flags + c) - wanted < 0) {
        }
    __syncthreads();
}

// Tell that this chunk has finished a sweep: everything written before is seen by whoever reads the flag.
QSIM_DEVICE void publish(int* flags, int at, int value) {
    __threadfence();
    __syncthreads();
    // the fence of every thread orders its writes before the flag, which one thread raises after all
    if (threadIdx.x == 0) {
        __threadfence();
        atomicExch(flags + at, value);
    }
}

// ---------------------------------------------------------------------------------------- state

QSIM_DEVICE void load_chunk(const Chunk& m, const cplx* state) {
    const cplx* from = state + (int64)m.at * m.rows * m.lanes;
    for (int i = threadIdx.x; i < m.rows * m.lanes; i += blockDim.x) m.f[i] = from[i];
    __syncthreads();
}

QSIM_DEVICE void store_chunk(const Chunk& m, cplx* state) {
    cplx* to = state + (int64)m.at * m.rows * m.lanes;
    for (int i = threadIdx.x; i < m.rows * m.lanes; i += blockDim.x) to[i] = m.f[i];
    __syncthreads();
}

// What a block that goes on to another chunk must keep: sums of threads' rows, kept (chunks, 2, parts, lanes).
QSIM_DEVICE void load_ends(const Chunk& m, const cplx* kept) {
    const int size = 2 * m.parts * m.lanes;
    for (int i = threadIdx.x; i < size; i += blockDim.x) m.ends[i] = kept[(int64)m.at * size + i];
    __syncthreads();
}

QSIM_DEVICE void store_ends(const Chunk& m, cplx* kept) {
    const int size = 2 * m.parts * m.lanes;
    for (int i = threadIdx.x; i < size; i += blockDim.x) kept[(int64)m.at * size + i] = m.ends[i];
}

// ------------------------------------------------------------------------------------- radial step

// Sums of the rows of each thread from zero, of parts begin ... end - 1.
QSIM_DEVICE void radial_ends(const Chunk& m, const Radial& t, int begin_part, int end_part) {
    const int64 first = (int64)m.at * m.rows * m.lanes;
    for (int i = begin_part * m.lanes + threadIdx.x; i < end_part * m.lanes; i += blockDim.x) {
        const int part = divided(i, m.lanes, m.magic), lane = i - part * m.lanes;
        const int begin = part * ROWS * m.lanes + lane;
        const cplx *a = t.alpha + first, *b = t.beta + first;
        cplx down = m.f[begin], up = m.f[begin + (ROWS - 1) * m.lanes];
#pragma unroll
        for (int k = 1; k < ROWS; ++k) {
            const int d = begin + k * m.lanes, u = begin + (ROWS - 1 - k) * m.lanes;
            down = cfma(a[d], down, m.f[d]);
            up = cfma(b[u], up, m.f[u]);
        }
        m.ends[i] = down;
        m.ends[m.parts * m.lanes + i] = up;
    }
    __syncthreads();
}

QSIM_DEVICE void radial_ends(const Chunk& m, const Radial& t) { radial_ends(m, t, 0, m.parts); }

// A lane of a chain along the parts of a chunk: groups of GROUP parts, in its direction.
struct Link {
    int direction, lane, group, begin, end, parts;
    QSIM_MEMBER int part(int k) const { return direction ? parts - 1 - k : k; }
};

QSIM_DEVICE int groups_of(int parts) { return (parts + GROUP - 1) / GROUP; }

QSIM_DEVICE Link link_of(int i, int width, int parts) {
    const int groups = groups_of(parts), lane = i % width, group = i / width % groups;
    return {i / width / groups, lane, group, group * GROUP, min((group + 1) * GROUP, parts), parts};
}

// Sums of the whole chunk from zero, for the others: tips (2, chunks, lanes), null if they have it; `ends` becomes the sum of all parts
// before.  A thread adds up a group, then one per lane the groups: the sum of a group waits in the place of its last part.
QSIM_DEVICE void radial_tips(const Chunk& m, const Radial& t, cplx* tips) {
    const int groups = groups_of(m.parts), threads = 2 * groups * m.lanes;
    const int64 first = (int64)m.at * m.parts * m.lanes;
    // each thread adds up the parts of one group, of one lane, in one direction
    for (int i = threadIdx.x; i < threads; i += blockDim.x) {
        const Link l = link_of(i, m.lanes, m.parts);
        const cplx* factors = (l.direction ? t.beta_part : t.alpha_part) + first + l.lane;
        cplx *ends = m.ends + l.direction * m.parts * m.lanes + l.lane, sum = {0, 0};
        for (int k = l.begin; k < l.end; ++k) sum = cfma(factors[l.part(k) * m.lanes], sum, ends[l.part(k) * m.lanes]);
        ends[l.part(l.end - 1) * m.lanes] = sum;
    }
    __syncthreads();
    // one thread per lane and direction adds up the groups: each gets the sum of those before it, and the last sum is the tip
    for (int i = threadIdx.x; i < 2 * m.lanes; i += blockDim.x) {
        const int direction = i >= m.lanes, lane = i - direction * m.lanes;
        const cplx* factors = t.more + ((int64)direction * m.chunks + m.at) * groups * m.lanes + lane;
        cplx *ends = m.ends + direction * m.parts * m.lanes + lane, sum = {0, 0};
        for (int group = 0; group < groups; ++group) {
            const int k = min((group + 1) * GROUP, m.parts) - 1;
            cplx* place = ends + (direction ? m.parts - 1 - k : k) * m.lanes;
            const cplx own = *place;
            *place = sum;
            sum = cfma(factors[group * m.lanes], sum, own);
        }
        if (tips) tips[(direction * m.chunks + m.at) * m.lanes + lane] = sum;
    }
    __syncthreads();
    // within a group again: each part gets what comes from all parts before it
    for (int i = threadIdx.x; i < threads; i += blockDim.x) {
        const Link l = link_of(i, m.lanes, m.parts);
        const cplx* factors = (l.direction ? t.beta_part : t.alpha_part) + first + l.lane;
        cplx *ends = m.ends + l.direction * m.parts * m.lanes + l.lane, sum = ends[l.part(l.end - 1) * m.lanes];
        for (int k = l.begin; k + 1 < l.end; ++k) {
            const int place = l.part(k) * m.lanes;
            const cplx own = ends[place];
            ends[place] = sum;
            sum = cfma(factors[place], sum, own);
        }
        ends[l.part(l.end - 1) * m.lanes] = sum;
    }
    __syncthreads();
}

// What comes from other chunks, into `come`.
QSIM_DEVICE void radial_come(const Chunk& m, const Radial& t, const cplx* tips) {
    for (int i = threadIdx.x; i < 2 * m.lanes; i += blockDim.x) {
        const bool back = i >= m.lanes;
        const int lane = back ? i - m.lanes : i;
        const int reach = t.reach[(back ? m.chunks : 0) + m.at];
        const cplx* chunk = back ? t.beta_chunk : t.alpha_chunk;
        cplx sum = {0, 0};
        // from the farthest chunk that is felt inwards: each sum is carried over the next chunk by its product
        for (int k = reach; k > 0; --k) {
            const int c = back ? m.at + k : m.at - k;
            sum = cfma(chunk[c * m.lanes + lane], sum,
                       read_of_blocks(tips + ((back ? m.chunks : 0) + c) * m.lanes + lane));
        }
        m.come[i] = sum;
    }
    __syncthreads();
}

// f' from f and what comes to the rows of each thread, of parts begin ... end - 1.
QSIM_DEVICE void radial_finish(const Chunk& m, const Radial& t, int begin_part, int end_part) {
    const int64 first = (int64)m.at * m.rows * m.lanes, all = (int64)m.chunks * m.parts * m.lanes;
    const cplx* prefix = t.more + (2 * (int64)groups_of(m.parts) * m.chunks + (int64)m.at * m.parts) * m.lanes;
    for (int i = begin_part * m.lanes + threadIdx.x; i < end_part * m.lanes; i += blockDim.x) {
        const int part = divided(i, m.lanes, m.magic), lane = i - part * m.lanes;
        const int begin = part * ROWS * m.lanes + lane;
        cplx z[ROWS], f[ROWS], down = m.come[lane], up = m.come[m.lanes + lane];
        // what comes to the chunk, carried to this part, and what comes from the parts before it
        if (m.parts > 1) {
            down = cfma(prefix[i], down, m.ends[i]);
            up = cfma(prefix[all + i], up, m.ends[m.parts * m.lanes + i]);
        }
#pragma unroll
        for (int k = 0; k < ROWS; ++k) {
            const int j = begin + k * m.lanes;
            f[k] = m.f[j];
            z[k] = down = cfma(t.alpha[first + j], down, f[k]);
        }
#pragma unroll
        for (int k = ROWS - 1; k >= 0; --k) {
            const int j = begin + k * m.lanes;
            // f' needs the recurrence from above in the row itself; then the row joins it
            const cplx beyond = t.beta[first + j] * up;
            m.f[j] = cfma(t.gain[first + j], z[k] + beyond, -(t.keep[first + j] * f[k]));
            up = f[k] + beyond;
        }
    }
    __syncthreads();
}

QSIM_DEVICE void radial_finish(const Chunk& m, const Radial& t) { radial_finish(m, t, 0, m.parts); }

// --------------------------------------------------------------------------------- couplings of lanes

// tan x to 1e-6 for |x| < 0.6, to rounding for |x| < 0.1: any value makes a unitary rotation.
QSIM_DEVICE real tangent(real x) {
    const real y = x * x;
    real p = fma(y, real(62.0 / 2835.0), real(17.0 / 315.0));
    p = fma(y, p, real(2.0 / 15.0));
    p = fma(y, p, real(1.0 / 3.0));
    return x * fma(y, p, real(1));
}

// Turn the pairs of a family by exp(-i angle r c sigma_x); r: of the first row of the chunk on.
QSIM_DEVICE void turn_pairs(const Chunk& m, const Family& family, const real* r, real angle) {
    if (angle == real(0) || family.count == 0) return;
    for (int i = threadIdx.x; i < m.rows * family.count; i += blockDim.x) {
        const int row = divided(i, family.count, family.magic), pair = i - row * family.count;
        cplx* a = m.f + row * m.lanes + family.lanes[pair];
        cplx* b = m.f + row * m.lanes + family.lanes[family.count + pair];
        const real t = tangent(real(0.5) * angle * r[row] * family.coupling[pair]);
        const real s = inverse(fma(t, t, real(1)));
        const real cosine = fma(-t, t, real(1)) * s, sine = real(2) * t * s;
        const cplx x = *a, y = *b;
        *a = {fma(cosine, x.re, sine * y.im), fma(cosine, x.im, -sine * y.re)};
        *b = {fma(cosine, y.re, sine * x.im), fma(cosine, y.im, -sine * x.re)};
    }
    __syncthreads();
}

// Turn the frame about z: lanes times exp(i m angle).
QSIM_DEVICE void turn_frame(const Chunk& m, const real* momenta, real angle, cplx* phases) {
    if (angle == real(0)) return;
    for (int lane = threadIdx.x; lane < m.lanes; lane += blockDim.x) phases[lane] = expi(momenta[lane] * angle);
    __syncthreads();
    for (int i = threadIdx.x; i < m.rows * m.lanes; i += blockDim.x)
        m.f[i] = m.f[i] * phases[i - divided(i, m.lanes, m.magic) * m.lanes];
    __syncthreads();
}

// Multiply the rows by a mask; rows beyond the grid are zero anyway.
QSIM_DEVICE void multiply_rows(const Chunk& m, const real* mask) {
    for (int i = threadIdx.x; i < m.rows * m.lanes; i += blockDim.x) {
        const real factor = mask[divided(i, m.lanes, m.magic)];
        m.f[i] = {factor * m.f[i].re, factor * m.f[i].im};
    }
    __syncthreads();
}

// ------------------------------------------------------------------------------------- observables

// Norm, dipole and mean force (along x or z, then along y), norm of the last l, of the rows of this chunk: out (SUMS).
// weight: 1/r'^2, force: dV/dr with the weights of its integral, edge (lanes): 1 for the last l.
QSIM_DEVICE void chunk_sums(const Chunk& m, const Family* families, int count, const real* r, const real* weight,
                            const real* force, const real* edge, real* scratch, real* out) {
    // every thread adds up its rows and lanes; the order is fixed, so that a run repeats bit for bit
    real sums[SUMS] = {0, 0, 0, 0, 0, 0};
    for (int i = threadIdx.x; i < m.rows * m.lanes; i += blockDim.x) {
        const int row = divided(i, m.lanes, m.magic);
        const real here = weight[row] * abs2(m.f[i]);
        sums[0] += here;
        sums[5] = fma(edge[i - row * m.lanes], here, sums[5]);
    }
    // dipole and force couple the two lanes of a pair: one pass per family of pairs
    for (int k = 0; k < count; ++k) {
        const Family& family = families[k];
        for (int i = threadIdx.x; i < m.rows * family.count; i += blockDim.x) {
            const int row = divided(i, family.count, family.magic), pair = i - row * family.count;
            const cplx a = m.f[row * m.lanes + family.lanes[pair]];
            const cplx b = m.f[row * m.lanes + family.lanes[family.count + pair]];
            const real c = real(2) * weight[row] * family.coupling[pair];
            const real along = c * fma(a.re, b.re, a.im * b.im);
            sums[1] = fma(r[row], along, sums[1]);
            sums[3] = fma(force[row], along, sums[3]);
            if (count > 2) {  // m +- 1: <y> has the same sign for both, coupling changes it
                const real across = -fabs(c) * fma(b.re, a.im, -a.re * b.im);
                sums[2] = fma(r[row], across, sums[2]);
                sums[4] = fma(force[row], across, sums[4]);
            }
        }
    }
    for (int k = 0; k < SUMS; ++k) {
        const real whole = block_sum(sums[k], scratch);
        if (threadIdx.x == 0) out[k] = whole;
    }
}

// ------------------------------------------------------------------------------------- length gauge

// What a launch gets beside the tables of the radial step; see cuda_tables.py.
struct Steps {
    cplx *state, *tips;   // (members, rows of all chunks, lanes); (2, members, 2, chunks, lanes), by the parity of the sweep
    int* flags;           // (members, chunks): sweeps done, counted from `base`
    const int *pairs, *counts;      // lanes of all families, one after the other, (2, count) each; (families)
    const real *coupling, *growth;  // of all families
    const real *r, *mask;           // (rows of all chunks); mask: null if there is none
    const real *momenta;            // (lanes): m, null where the frame does not turn
    const real *moves;              // (members, steps + 1, MOVES); in velocity gauge MIX_MOVES (velocity.cuh)
    const int *samples;             // (steps + 1): place of the sums taken after that many steps, -1 for none
    const real *weight, *force, *edge;
    real* sums;                     // (members, places, chunks, SUMS)
    int lanes, rows, chunks, blocks, window, families, first, last, steps, base, places, members;
    cplx* kept;                     // (members of the launch, chunks, 2, parts, lanes), where a block does several chunks
};

QSIM_DEVICE Family family_of(const Steps& s, int which) {
    int start = 0;
    for (int k = 0; k < which; ++k) start += s.counts[k];
    const int count = s.counts[which];
    return {s.pairs + 2 * start, s.coupling + start, s.growth + start, count,
            count > 0 ? 0xffffffffu / (uint32)count + 1u : 0u};
}

// Complete step k and begin the next one: the couplings of both; r: of the first row.
QSIM_DEVICE void turn_lanes(const Chunk& m, const Steps& s, const Family* families, int member, int k, const real* r) {
    const real* move = s.moves + ((int64)member * (s.steps + 1) + k) * MOVES;
    for (int i = s.families - 1; i > 0; --i) turn_pairs(m, families[i], r, move[0]);
    turn_pairs(m, families[0], r, move[0] + move[1]);
    for (int i = 1; i < s.families; ++i) turn_pairs(m, families[i], r, move[1]);
}

// The same with what needs the whole state between them.
// moves: angles per bohr of the step before and after, turns of the frame before and after a sample.
QSIM_DEVICE void couple_lanes(const Chunk& m, const Steps& s, const Family* families, int member, int k, cplx* phases,
                              real* scratch) {
    const real* move = s.moves + ((int64)member * (s.steps + 1) + k) * MOVES;
    const real *r = s.r + m.at * m.rows, here = move[0], after = move[1];
    const int sample = s.samples[k];
    for (int i = s.families - 1; i >= 0; --i) turn_pairs(m, families[i], r, here);
    if (s.mask && k > 0) multiply_rows(m, s.mask + m.at * m.rows);
    if (s.momenta) turn_frame(m, s.momenta, move[2], phases);
    if (sample >= 0)
        chunk_sums(m, families, s.families, r, s.weight + m.at * m.rows, s.force + m.at * m.rows, s.edge, scratch,
                   s.sums + (((int64)member * s.places + sample) * s.chunks + m.at) * SUMS);
    if (s.momenta) turn_frame(m, s.momenta, move[3], phases);
    if (k < s.steps)
        for (int i = 0; i < s.families; ++i) turn_pairs(m, families[i], r, after);
}

// A chunk in shared memory: rows of all lanes, the ends of its parts, the phases of the frame, and what comes from other chunks. With a
// single part the latter take the place of the ends, which are not needed any more when they arrive.
QSIM_DEVICE Chunk chunk_in(const Steps& s, char* raw, cplx*& phases) {
    Chunk m;
    m.lanes = s.lanes, m.rows = s.rows, m.parts = s.rows / ROWS, m.chunks = s.chunks;
    m.magic = 0xffffffffu / (uint32)s.lanes + 1u;
    m.f = (cplx*)raw;
    m.ends = m.f + s.rows * s.lanes;
    phases = m.ends + 2 * m.parts * s.lanes;
    m.come = m.parts > 1 ? phases + s.lanes : m.ends;
    return m;
}

// Sweeps first ... last of a launch: sweep k ends step k and begins step k + 1.  A block does every `blocks`-th chunk of one member.
QSIM_DEVICE void length_sweeps(const Steps& s, const Radial& t) {
    extern __shared__ __align__(16) char raw[];
    __shared__ real scratch[QSIM_WARP];
    __shared__ Family families[FAMILIES];
    const int member = blockIdx.x / s.blocks, block = blockIdx.x - member * s.blocks;
    // blocks with one chunk keep it in shared memory for the whole launch; others load and store theirs in every sweep
    const bool resident = s.blocks == s.chunks;
    if ((int)threadIdx.x < s.families) families[threadIdx.x] = family_of(s, threadIdx.x);
    __syncthreads();
    cplx* phases;
    Chunk m = chunk_in(s, raw, phases);
    cplx* state = s.state + (int64)member * s.chunks * s.rows * s.lanes;
    int* flags = s.flags + member * s.chunks;
    const int64 tips = 2 * (int64)s.chunks * s.lanes;
    cplx* kept = s.kept + member * tips * m.parts;
    for (int k = s.first; k <= s.last; ++k) {
        for (m.at = block; m.at < s.chunks; m.at += s.blocks) {
            if (!resident || k == s.first) load_chunk(m, state);
            // end of the radial step that began in the sweep before: wait for the chunks that this one feels, and take their
            // tips. The first sweep of a launch makes its own sums anew, since shared memory does not outlive a launch.
            if (k > 0) {
                if (!resident) load_ends(m, kept);
                if (resident && k == s.first) {
                    radial_ends(m, t);
                    radial_tips(m, t, nullptr);
                }
                wait_for(flags, m.at, s.chunks, s.window, s.base + k);
                radial_come(m, t, s.tips + ((int64)((k - 1) & 1) * s.members + member) * tips);
            }
            // a sweep without mask, frame or sums works part by part; otherwise all rows must be complete first
            const bool simple = !s.mask && !s.momenta && s.samples[k] < 0 && k < s.steps;
            const int width = simple && !resident ? 1 : m.parts;  // part by part, while its tables are in the caches
            for (int part = 0; part < m.parts; part += width) {
                Chunk here = m;
                here.f += part * ROWS * m.lanes, here.rows = width * ROWS;
                if (k > 0) radial_finish(m, t, part, part + width);
                if (simple)
                    turn_lanes(here, s, families, member, k, s.r + m.at * m.rows + part * ROWS);
                else
                    couple_lanes(m, s, families, member, k, phases, scratch);
                if (k < s.steps) radial_ends(m, t, part, part + width);
            }
            // the tips of this sweep go to one of two places: others may still read those of the sweep before
            if (k < s.steps) {
                radial_tips(m, t, s.tips + ((int64)(k & 1) * s.members + member) * tips);
                if (!resident) store_ends(m, kept);
                publish(flags, m.at, s.base + k + 1);
            }
            if (!resident || k == s.last) store_chunk(m, state);
        }
    }
}

#endif  // QSIM_ATOM_CHUNKS_CUH
