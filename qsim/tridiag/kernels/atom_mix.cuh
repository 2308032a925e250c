// Velocity gauge on a GPU: the Cayley step of A d/dr of the pairs of one family, and the sweeps of both polarisations.
//
// A pair (l, l+1) turns by g c (l+1) / (2r), its sum and difference make (M1 + k D / r') v' = (M1 - k D / r') v with k = +-g c / 4,
// v = f / sqrt(r'), and it turns again.  The matrices change with every step.  A thread eliminates ROWS rows by themselves: its
// first and last value are linear in what its neighbours put into its first and last row ("port").  A thread per pair and sign
// goes along the ports of a chunk, from as many segments before it as are felt and back from those after it, and
// finds what the neighbours put in; then all threads substitute.  Ports are the only thing that chunks exchange.
#ifndef QSIM_ATOM_MIX_CUH
#define QSIM_ATOM_MIX_CUH
#include "atom.cuh"

#define MIX_THREADS 256  // with twice the registers of THREADS
#define PORT 12  // alpha_first, alpha_last, v_first, v_last (complex), beta_first, gamma_first, beta_last, gamma_last
#define RADIAL_STEP (-1)
#define NOTHING (-2)

struct Mix {
    const real *inverse_r, *inverse_slope, *root;  // (rows of all chunks): 1/r, 1/r', sqrt(r'); 0 beyond the grid
    const int* reach;   // (2, chunks): segments before and after a chunk that are felt
    int points;
};

struct Port {
    cplx first, last, v_first, v_last;  // values without what the neighbours put in; v before the step
    real first_left, first_right, last_left, last_right;  // per unit put into the first row, into the last row
};

struct Bond {  // between the last row of one segment and the first of the next: off-diagonals, before (r) and after the step
    real lower, upper, lower_r, upper_r;
};

struct Row {
    real lower, diagonal, upper, lower_r, diagonal_r, upper_r;  // r: of the right-hand side
};

QSIM_DEVICE Row row_of(const Mix& x, int j, real k) {
    const real sixth = real(1.0 / 6.0), corner = real(-0.26794919243112270647);  // sqrt(3) - 2
    if (j >= x.points) return {0, 1, 0, 0, 0, 0};
    const real low = j > 0 ? k * x.inverse_slope[j - 1] : real(0);
    const real high = j + 1 < x.points ? k * x.inverse_slope[j + 1] : real(0);
    real m = 4 * sixth, mid = 0;
    if (j == 0) m = (4 + corner) * sixth, mid = corner * k * x.inverse_slope[0];
    if (j == x.points - 1) m = (4 + corner) * sixth, mid = -corner * k * x.inverse_slope[j];
    return {sixth - low, m + mid, sixth + high, sixth + low, m - mid, sixth - high};
}

QSIM_DEVICE Bond bond_of(const Mix& x, int next, real k) {  // next: the row after it
    if (next >= x.points) return {0, 0, 0, 0};
    const real sixth = real(1.0 / 6.0), low = k * x.inverse_slope[next - 1], high = k * x.inverse_slope[next];
    return {sixth - low, sixth + high, sixth + low, sixth - high};
}

QSIM_DEVICE void write_port(real* ports, int64 stride, const Port& p) {
    const real values[PORT] = {p.first.re,   p.first.im,   p.last.re,    p.last.im,     p.v_first.re, p.v_first.im,
                               p.v_last.re,  p.v_last.im,  p.first_left, p.first_right, p.last_left,  p.last_right};
#pragma unroll
    for (int i = 0; i < PORT; ++i) ports[i * stride] = values[i];
}

QSIM_DEVICE Port read_port(const real* ports, int64 stride) {
    real v[PORT];
#pragma unroll
    for (int i = 0; i < PORT; ++i) {
#ifdef __CUDACC__
        v[i] = __ldcg(ports + i * stride);
#else
        v[i] = ports[i * stride];
#endif
    }
    return {{v[0], v[1]}, {v[2], v[3]}, {v[4], v[5]}, {v[6], v[7]}, v[8], v[9], v[10], v[11]};
}

// Sums and differences of a pair in the rows of a segment, turned, and divided by sqrt(r').
QSIM_DEVICE void load_pair(const Chunk& m, const Mix& x, int lower, int upper, real angle, int begin, cplx (&sum)[ROWS],
                           cplx (&difference)[ROWS]) {
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const int row = begin + k, j = m.at * m.rows + row;
        const cplx a = m.f[row * m.lanes + lower], b = m.f[row * m.lanes + upper];
        const real t = angle * x.inverse_r[j], root = x.root[j];
        const real scale = root > real(0) ? inverse(root * fma(t, t, real(1))) : real(0);
        const real c = fma(-t, t, real(1)) * scale, s = real(2) * t * scale;
        const cplx p = {fma(c, a.re, -s * b.re), fma(c, a.im, -s * b.im)}, q = {fma(s, a.re, c * b.re), fma(s, a.im, c * b.im)};
        sum[k] = p + q;
        difference[k] = p - q;
    }
}

// Eliminate the rows of a segment: y = right-hand side after it, without neighbours' parts; inverse pivots p; upper off-diagonals u.
QSIM_DEVICE void eliminate_rows(const Mix& x, int j, real k, const cplx (&z)[ROWS], cplx before, cplx after, real (&p)[ROWS],
                                real (&u)[ROWS], real (&e)[ROWS], cplx (&y)[ROWS]) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const Row row = row_of(x, j + i, k);
        cplx b = row.diagonal_r * z[i];
        if (i > 0) b = cfma(row.lower_r, z[i - 1], b);
        if (i < ROWS - 1) b = cfma(row.upper_r, z[i + 1], b);
        if (i == 0) b += before;
        if (i == ROWS - 1) b += after;
        u[i] = row.upper;
        if (i == 0) {
            p[0] = inverse(row.diagonal);
            y[0] = b;
            e[0] = 1;
        } else {
            const real w = -row.lower * p[i - 1];
            p[i] = inverse(fma(w, u[i - 1], row.diagonal));
            y[i] = cfma(w, y[i - 1], b);
            e[i] = w * e[i - 1];
        }
    }
}

// Ports of all segments of the chunk: ports (PORT, segments of all chunks, 2 pairs), sums before differences.
QSIM_DEVICE void mix_begin(const Chunk& m, const Mix& x, const Family& family, real g, real* ports, int64 stride) {
    for (int i = threadIdx.x; i < m.parts * family.count; i += blockDim.x) {
        const int part = divided(i, family.count, family.magic), pair = i - part * family.count;
        cplx z[2][ROWS];
        load_pair(m, x, family.lanes[pair], family.lanes[family.count + pair], real(0.25) * g * family.growth[pair],
                  part * ROWS, z[0], z[1]);
        const real rate = real(0.25) * g * family.coupling[pair];
#pragma unroll
        for (int sign = 0; sign < 2; ++sign) {
            real p[ROWS], u[ROWS], e[ROWS];
            cplx y[ROWS];
            const cplx none = {0, 0};
            eliminate_rows(x, m.at * m.rows + part * ROWS, sign ? -rate : rate, z[sign], none, none, p, u, e, y);
            Port out;
            out.v_first = z[sign][0], out.v_last = z[sign][ROWS - 1];
            const real end = p[ROWS - 1];
            cplx value = end * y[ROWS - 1];
            real left = end * e[ROWS - 1], right = end;
            out.last = value, out.last_left = left, out.last_right = right;
#pragma unroll
            for (int k = ROWS - 2; k >= 0; --k) {
                value = p[k] * cfma(-u[k], value, y[k]);
                left = p[k] * fma(-u[k], left, e[k]);
                right = -p[k] * u[k] * right;
            }
            out.first = value, out.first_left = left, out.first_right = right;
            const int64 segment = (int64)m.at * m.parts + part;
            write_port(ports + segment * m.lanes + sign * family.count + pair, stride, out);
        }
    }
}

// What neighbours put into the first and last rows of the segments of the chunk: sources (2, parts, lanes), in shared memory.
QSIM_DEVICE void mix_join(const Chunk& m, const Mix& x, const Family& family, real g, const real* ports, int64 stride,
                          cplx* sources) {
    const int own = m.at * m.parts, total = m.chunks * m.parts;
    cplx *put_left = sources, *put_right = sources + m.parts * m.lanes;
    for (int i = threadIdx.x; i < 2 * family.count; i += blockDim.x) {
        const int pair = i < family.count ? i : i - family.count;
        const real magnitude = real(0.25) * g * family.coupling[pair], k = i < family.count ? magnitude : -magnitude;
        const real* mine = ports + i;
        int s = own - x.reach[m.at];
        s = s < 0 ? 0 : s;
        const int start = s;
        // the value of the last row is a + c (what is put into it)
        Port p = read_port(mine + (int64)s * m.lanes, stride);
        cplx a = p.last, before = p.v_last;
        real c = p.last_right;
        for (++s; s < own + m.parts; ++s) {
            p = read_port(mine + (int64)s * m.lanes, stride);
            if (s >= own) {
                put_left[(s - own) * m.lanes + i] = a;
                put_right[(s - own) * m.lanes + i] = {c, 0};
            }
            const Bond b = bond_of(x, s * ROWS, k);
            const cplx t = cfma(b.lower_r, before, (-b.lower) * cfma(c * b.upper_r, p.v_first, a));
            const real back = b.lower * c * b.upper, h = inverse(fma(-p.first_left, back, real(1)));
            const cplx first = h * cfma(p.first_left, t, p.first);
            a = cfma(p.last_left, cfma(back, first, t), p.last);
            c = fma(p.last_left * back * h, p.first_right, p.last_right);
            before = p.v_last;
        }
        // the other way round: the value of the first row is a_after + c_after (what is put into it)
        cplx put = {0, 0};
        int last = own + m.parts - 1 + x.reach[m.chunks + m.at];
        last = last >= total ? total - 1 : last;
        if (last >= own + m.parts) {
            Port q = read_port(mine + (int64)last * m.lanes, stride);
            cplx a_after = q.first, after = q.v_first;
            real c_after = q.first_left;
            for (s = last - 1; s >= own + m.parts; --s) {
                q = read_port(mine + (int64)s * m.lanes, stride);
                const Bond b = bond_of(x, (s + 1) * ROWS, k);
                const cplx t = cfma(b.upper_r, after, (-b.upper) * cfma(c_after * b.lower_r, q.v_last, a_after));
                const real back = b.upper * c_after * b.lower, h = inverse(fma(-q.last_right, back, real(1)));
                const cplx end = h * cfma(q.last_right, t, q.last);
                a_after = cfma(q.first_right, cfma(back, end, t), q.first);
                c_after = fma(q.first_right * back * h, q.last_left, q.first_left);
                after = q.v_first;
            }
            const Bond b = bond_of(x, (own + m.parts) * ROWS, k);
            const cplx t = cfma(b.upper_r, after, (-b.upper) * cfma(c_after * b.lower_r, before, a_after));
            const real back = b.upper * c_after * b.lower;
            put = inverse(fma(-back, c, real(1))) * cfma(back, a, t);
        }
        for (s = own + m.parts - 1; s >= own; --s) {
            const int at = (s - own) * m.lanes + i;
            if (s == start) {  // only where the grid begins
                put_left[at] = {0, 0};
                put_right[at] = put;
                break;
            }
            p = read_port(mine + (int64)s * m.lanes, stride);
            before = read_port(mine + (int64)(s - 1) * m.lanes, stride).v_last;
            a = put_left[at], c = put_right[at].re;
            const Bond b = bond_of(x, s * ROWS, k);
            const cplx t = cfma(b.lower_r, before, (-b.lower) * cfma(c * b.upper_r, p.v_first, a));
            const real back = b.lower * c * b.upper;
            const cplx first =
                inverse(fma(-p.first_left, back, real(1))) * cfma(p.first_right, put, cfma(p.first_left, t, p.first));
            put_left[at] = cfma(back, first, t);
            put_right[at] = put;
            put = cfma(b.upper_r, p.v_first, (-b.upper) * first);
        }
    }
    __syncthreads();
}

// f' of the pairs of the family.
QSIM_DEVICE void mix_finish(const Chunk& m, const Mix& x, const Family& family, real g, const cplx* sources) {
    for (int i = threadIdx.x; i < m.parts * family.count; i += blockDim.x) {
        const int part = divided(i, family.count, family.magic), pair = i - part * family.count;
        const int lower = family.lanes[pair], upper = family.lanes[family.count + pair];
        const real angle = real(0.25) * g * family.growth[pair], rate = real(0.25) * g * family.coupling[pair];
        cplx z[2][ROWS];
        load_pair(m, x, lower, upper, angle, part * ROWS, z[0], z[1]);
#pragma unroll
        for (int sign = 0; sign < 2; ++sign) {
            real p[ROWS], u[ROWS], e[ROWS];
            cplx y[ROWS];
            const int at = part * m.lanes + sign * family.count + pair;
            eliminate_rows(x, m.at * m.rows + part * ROWS, sign ? -rate : rate, z[sign], sources[at],
                           sources[m.parts * m.lanes + at], p, u, e, y);
            z[sign][ROWS - 1] = p[ROWS - 1] * y[ROWS - 1];
#pragma unroll
            for (int k = ROWS - 2; k >= 0; --k) z[sign][k] = p[k] * cfma(-u[k], z[sign][k + 1], y[k]);
        }
#pragma unroll
        for (int k = 0; k < ROWS; ++k) {
            const int row = part * ROWS + k, j = m.at * m.rows + row;
            const real t = angle * x.inverse_r[j], scale = real(0.5) * x.root[j] * inverse(fma(t, t, real(1)));
            const real c = fma(-t, t, real(1)) * scale, s = real(2) * t * scale;
            const cplx a = z[0][k] + z[1][k], b = z[0][k] - z[1][k];
            m.f[row * m.lanes + lower] = {fma(c, a.re, -s * b.re), fma(c, a.im, -s * b.im)};
            m.f[row * m.lanes + upper] = {fma(s, a.re, c * b.re), fma(s, a.im, c * b.im)};
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

// What velocity gauge has beside Steps: its `moves` are (members, operations + 1, 3): g of the operation that begins, turns of the
// frame before and after a sample.
struct Operations {
    const int* kinds;    // (operations + 1): family, RADIAL_STEP or NOTHING
    const int* actions;  // (operations + 1): before it begins: 1 clears the core, 2 multiplies by the mask
    real *ports, *lost;  // (2, members, PORT, segments, lanes); (members, chunks)
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
    Chunk m;
    m.lanes = s.lanes, m.rows = s.rows, m.parts = s.rows / ROWS, m.chunks = s.chunks;
    m.magic = 0xffffffffu / (uint32)s.lanes + 1u;
    m.f = (cplx*)raw;
    m.ends = m.f + s.rows * s.lanes;
    cplx* phases = m.ends + 2 * m.parts * s.lanes;
    cplx* state = s.state + (int64)member * s.chunks * s.rows * s.lanes;
    int* flags = s.flags + member * s.chunks;
    const int64 tips = 2 * (int64)s.chunks * s.lanes, stride = (int64)s.chunks * m.parts * s.lanes;
    for (int k = s.first; k <= s.last; ++k) {
        const real* move = s.moves + ((int64)member * (s.steps + 1) + k) * 3;
        const int ends = k > 0 ? o.kinds[k - 1] : NOTHING, begins = o.kinds[k];
        const int64 before = (int64)((k - 1) & 1) * s.members + member, now = (int64)(k & 1) * s.members + member;
        for (m.at = block; m.at < s.chunks; m.at += s.blocks) {
            if (!resident || k == s.first) load_chunk(m, state);
            if (k > 0) {
                if (ends == RADIAL_STEP && (!resident || k == s.first)) radial_ends(m, t);
                wait_for(flags, m.at, s.chunks, s.window, s.base + k);
            }
            if (ends == RADIAL_STEP) {
                radial_carries(m, t, s.tips + before * tips);
                radial_finish(m, t);
            } else if (ends >= 0 && move[-3] != real(0)) {
                mix_join(m, x, families[ends], move[-3], o.ports + before * PORT * stride, stride, m.ends);
                mix_finish(m, x, families[ends], move[-3], m.ends);
            }
            if (o.actions[k] & 1) clear_core(m, o.inner, o.inner_rows, scratch, o.lost + member * s.chunks + m.at);
            if (o.actions[k] & 2) multiply_rows(m, s.mask + m.at * m.rows);
            if (s.momenta) turn_frame(m, s.momenta, move[1], phases);
            if (s.samples[k] >= 0)
                chunk_sums(m, families, s.families, s.r + m.at * m.rows, s.weight + m.at * m.rows,
                           s.force + m.at * m.rows, s.edge, scratch,
                           s.sums + (((int64)member * s.places + s.samples[k]) * s.chunks + m.at) * SUMS);
            if (s.momenta) turn_frame(m, s.momenta, move[2], phases);
            if (begins == RADIAL_STEP) {
                radial_ends(m, t);
                radial_tips(m, t, s.tips + now * tips);
            } else if (begins >= 0 && move[0] != real(0)) {
                mix_begin(m, x, families[begins], move[0], o.ports + now * PORT * stride, stride);
            }
            if (k < s.steps) publish(flags, m.at, s.base + k + 1);
            if (!resident || k == s.last) store_chunk(m, state);
        }
    }
}

#endif  // QSIM_ATOM_MIX_CUH
