// Kinetic steps in two coordinates as recursive filters, with the phases of a potential between them: one pass over memory.
//
// The Cayley step of a kinetic energy is  psi'_j = beta (alpha/beta psi_j + r_j + l_j),  r_j = psi_j + lambda r_(j-1),
// l_j = psi_j + lambda l_(j+1)  with one complex lambda for all points (steps_cpu.py).  |lambda|^H falls below rounding within
// some tens of points, so that the points of a window do not feel what lies beyond a halo of H points: a block takes a window of
// LINES lines with its halos into registers, makes [filter, phases, filter], and writes the window to another array.  Meanwhile
// its next window comes into shared memory: blocks are as many as the device holds, and go on from window to window.  Walls are
// images: beyond a wall a line goes on with the other sign, at any distance, and the phases with it.
//
// A thread has ROWS neighbouring points of a line: it sums them from either end, adds what the sums of `reach` threads beside it
// leave at its ends, and goes through its points once more.  The factors beta of both filters are in the factors of the line.
//
// Per point 22 fused multiply-adds for each filter and 8 or 12 for the phases; a state is read and written: 32 bytes in double.
// Lines along the second axis (AXIS 1) lie in memory as they are: they change places in shared memory.
// qsim-compile: -DAXIS=0 -DTABLE=1
// qsim-compile: -DAXIS=1 -DTABLE=1
// qsim-compile: -DAXIS=0 -DTABLE=2 -DLOSSY=1
// qsim-compile: -DAXIS=1 -DTABLE=2 -DLOSSY=1
// qsim-compile: -DAXIS=0 -DTABLE=2 -DBEND=1
// qsim-compile: -DAXIS=1 -DTABLE=2 -DBEND=1
// qsim-compile: -DAXIS=0 -DTABLE=2 -DBEND=1 -DTWIST=1
// qsim-compile: -DAXIS=1 -DTABLE=2 -DBEND=1 -DTWIST=1
// qsim-compile: -DAXIS=1 -DTABLE=1 -DLOSSY=1 -DLINES=1 -DTHREADS=512 -DMINBLOCKS=1
// qsim-compile: -DAXIS=0 -DTABLE=2 -DLOSSY=1 -DROWWISE=1
#include "qsim.cuh"

#ifndef AXIS
#define AXIS 0
#endif
#ifndef LINES
#define LINES 4  // lines of a block
#endif
#ifndef THREADS
#define THREADS 256
#endif
#ifndef MINBLOCKS
#define MINBLOCKS 2  // blocks that a multiprocessor must hold
#endif
#ifndef TABLE
#define TABLE 0  // factors of both coordinates: 0 none, 1 of their difference, 2 of both
#endif
#ifndef LOSSY
#define LOSSY 0  // whether an absorber takes something
#endif
#ifndef BEND
#define BEND 0  // whether there is a phase in proportion to |psi|^2
#endif
#ifndef ROWWISE
#define ROWWISE 0  // whether each point of a line has its own constants; there are no images then
#endif
#ifndef TWIST
#define TWIST 0  // whether the state comes from the gauge of the other axis: exp(i twist x y) in front
#endif
#define ROWS 8                       // points of a thread
#define GROUPS (THREADS / LINES)     // threads of a line
#define SPAN (GROUPS * ROWS)         // points of a line in a block, halos included
#define STRIDE (SPAN + GROUPS + 8 / LINES)  // of lines in shared memory: eight threads beside each other meet in no bank

// Point of a line whose value, times `sign`, is the image at any place of the endless line; walls lie at -1 and `points`.
QSIM_DEVICE int image(int place, int points, real& sign) {
#if ROWWISE
    sign = place >= 0 && place < points ? real(1) : real(0);
    return min(max(place, 0), points - 1);
#else
    const int period = 2 * (points + 1);
    int p = place + 1;
    // seldom more than once: a halo is longer than the line only where there are few points
    while (p < 0) p += period;
    while (p >= period) p -= period;
    const bool turned = p > points + 1;
    if (turned) p = period - p;
    const bool wall = p == 0 || p == points + 1;
    sign = wall ? real(0) : turned ? real(-1) : real(1);
    return wall ? 0 : p - 1;
#endif
}

// Copy a number to shared memory while the thread goes on, or fill it with zeros.
QSIM_DEVICE void copy_async(cplx* to, const cplx* from, bool wanted) {
    const unsigned there = (unsigned)__cvta_generic_to_shared(to);
    const int bytes = wanted ? (int)sizeof(cplx) : 0;
    if (sizeof(cplx) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(there), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(there), "l"(from), "r"(bytes) : "memory");
}
QSIM_DEVICE void copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Wait for all groups of copies but the last `left`.
template <int left> QSIM_DEVICE void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory"); }

// Layout of a pass: points of a line, lines, windows of a line, points of a window, of its halo, lines of blocks side by side.
struct Layout {
    int64 pitch;
    int points, lines, windows, window, halo, gang;
};

struct Tile {  // a window: its first line, the points that it writes, and the first that it reads
    int line, begin, end, start, used;
    bool inner;
};

// Blocks side by side share rows of memory, those after them the halos: both are still in the cache.
QSIM_DEVICE Tile tile_of(const Layout& a, int id) {
    const int within = id % a.gang, rest = id / a.gang;
    Tile t;
    t.line = ((rest / a.windows) * a.gang + within) * LINES;
    t.begin = (rest % a.windows) * a.window;
    t.start = t.begin - a.halo;
    t.end = min(t.begin + a.window, a.points);
    t.used = t.end + a.halo - t.start;
    t.inner = t.start >= 0 && t.start + SPAN <= a.points;
    return t;
}

// Along the first axis a thread copies its own points.  Along the second one neighbours in memory go to threads side by side: the
// k-th point that a thread copies is `column_of(k)` of line `line_of(k)` of the block, and the own points are at own_slot.
#define PARTS (SPAN / THREADS)  // turns in which a line is copied
QSIM_DEVICE int line_of(int k) { return AXIS == 0 ? threadIdx.x % LINES : k / PARTS; }
QSIM_DEVICE int column_of(int k) {
    return AXIS == 0 ? ROWS * (threadIdx.x / LINES) + k : (k % PARTS) * THREADS + threadIdx.x;
}
QSIM_DEVICE int copy_slot(int k) {
    if (AXIS == 0) return k * THREADS + threadIdx.x;
    return (k / PARTS) * STRIDE + (k % PARTS) * (THREADS + THREADS / ROWS) + threadIdx.x + threadIdx.x / ROWS;
}
QSIM_DEVICE int own_slot(int k) {
    return AXIS == 0 ? k * THREADS + threadIdx.x
                     : (threadIdx.x % LINES) * STRIDE + (ROWS + 1) * (threadIdx.x / LINES) + k;
}

// Copy a window of a state or of a table that lies like one.
QSIM_DEVICE void fetch(cplx* to, const cplx* from, const Layout& a, const Tile& t) {
    if (t.inner && t.line + LINES <= a.lines) {
        // no images, and no line that is not there: addresses are sums
        const cplx* own = from + (AXIS == 0 ? (int64)(t.start + column_of(0)) * a.pitch + t.line + line_of(0)
                                            : (int64)t.line * a.pitch + t.start + (int)threadIdx.x);
#pragma unroll
        for (int k = 0; k < ROWS; ++k) {
            copy_async(to + copy_slot(k), AXIS == 0 ? own : own + (k % PARTS) * THREADS, true);
            if (AXIS == 0 || k % PARTS == PARTS - 1) own += a.pitch;
        }
    } else {
#pragma unroll
        for (int k = 0; k < ROWS; ++k) {
            const int line = t.line + line_of(k);
            real sign;
            const int j = image(t.start + column_of(k), a.points, sign);
            const bool wanted = line < a.lines && column_of(k) < t.used;
            copy_async(to + copy_slot(k), wanted ? from + (AXIS == 0 ? j * a.pitch + line : line * a.pitch + j) : from, wanted);
        }
    }
    copies_end();
}

#if ROWWISE
// Make f_k = own_k f_k + r_k + l_k with constants (points, 4) of each point: both lambda, alpha / beta, beta, by which the sums are
// multiplied if they are `scaled`; up, down, spans: work space of THREADS, THREADS and 2 THREADS numbers.
QSIM_DEVICE void filtered_rows(cplx* f, const cplx* rows, int place, int points, int reach, bool scaled, cplx* up, cplx* down,
                               cplx* spans) {
    const int t = threadIdx.x, group = t / LINES;
    const auto constant = [&](int k, int which) -> cplx {
        const int j = place + k;
        return j >= 0 && j < points ? rows[4 * j + which] : cplx{0, 0};
    };
    // as in `filtered`; what the points of a thread make of a recurrence depends on where they are
    cplx r = {0, 0}, l = {0, 0}, forth = {1, 0}, back = {1, 0};
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const cplx a = constant(k, 0), b = constant(ROWS - 1 - k, 1);
        r = cfma(a, r, f[k]);
        l = cfma(b, l, f[ROWS - 1 - k]);
        forth *= a;
        back *= b;
    }
    up[t] = r;
    down[t] = l;
    spans[t] = forth;
    spans[THREADS + t] = back;
    __syncthreads();
    r = l = {0, 0};
    for (int m = min(reach, group); m > 0; --m) r = cfma(spans[t - m * LINES], r, up[t - m * LINES]);
    for (int m = min(reach, GROUPS - 1 - group); m > 0; --m)
        l = cfma(spans[THREADS + t + m * LINES], l, down[t + m * LINES]);
    cplx sum[ROWS];
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        r = cfma(constant(k, 0), r, f[k]);
        sum[k] = cfma(constant(k, 2), f[k], r);
    }
#pragma unroll
    for (int k = ROWS - 1; k >= 0; --k) {
        l = cfma(constant(k, 1), l, f[k]);
        f[k] = sum[k] + l;
        if (scaled) f[k] *= constant(k, 3);
    }
}
#endif

struct Filter {  // lambda, alpha / beta, lambda^ROWS, and the neighbours on either side that are felt
    cplx turn, own, power;
    int reach;
};

QSIM_DEVICE Filter filter_of(const real* constants, int reach) {
    return {{constants[0], constants[1]}, {constants[2], constants[3]}, {constants[4], constants[5]}, reach};
}

// Make f_k = own f_k + r_k + l_k for the points of all threads of a line; up, down: work space of THREADS numbers.
QSIM_DEVICE void filtered(cplx* f, const Filter& a, cplx* up, cplx* down) {
    const int t = threadIdx.x, group = t / LINES;
    // sums of the own points as seen from either end
    cplx r = f[0], l = f[ROWS - 1];
#pragma unroll
    for (int k = 1; k < ROWS; ++k) {
        r = cfma(a.turn, r, f[k]);
        l = cfma(a.turn, l, f[ROWS - 1 - k]);
    }
    up[t] = r;
    down[t] = l;
    __syncthreads();
    // what the threads on either side bring, the farthest first; there is nothing beyond the halos
    r = l = {0, 0};
    for (int m = a.reach; m > 0; --m) {
        if (m <= group) r = cfma(a.power, r, up[t - m * LINES]);
        if (m < GROUPS - group) l = cfma(a.power, l, down[t + m * LINES]);
    }
    cplx sum[ROWS];
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        r = cfma(a.turn, r, f[k]);
        sum[k] = cfma(a.own, f[k], r);
    }
#pragma unroll
    for (int k = ROWS - 1; k >= 0; --k) {
        l = cfma(a.turn, l, f[k]);
        f[k] = sum[k] + l;
    }
}

// One pass: the end of a kinetic step, the phases, the begin of the next one.
//   in, out      (n1, pitch) states, in != out;  tiles: windows of all lines
//   constants    12 reals: of the filter before and of that after the phases;  reach: neighbours of both.  ROWWISE: (2, points, 4)
//   line, across factors of the points of a line, those of lines
//   table        factors of both coordinates: TABLE 1 at origin + stride j + line, TABLE 2 as the state with its pitch
//   weight       |beta|^2 of the filter before: the state between the filters is divided by beta
//   bend         phase per |psi|^2;  kept_line, kept_across: squares of the factors of the absorber
//   twist        of a factor exp(i twist x y) in front of all;  at[0], at[1]: first point along the line, spacing;  at[2], at[3]: across
//   inside, edges  shares of the points of a line, and of lines, that lie inside;  lost: (blocks, 2), added to
extern "C" __global__ void __launch_bounds__(THREADS, MINBLOCKS)
step_pass(const cplx* __restrict__ in, cplx* __restrict__ out, int64 pitch, int points, int lines, int windows, int window,
          int halo, int gang, int tiles, const real* __restrict__ constants, int reach_before, int reach_after,
          const cplx* __restrict__ line, const cplx* __restrict__ across, const cplx* __restrict__ table, int64 origin,
          int stride, real weight, real bend, real twist, const real* __restrict__ at, const real* __restrict__ kept_line, const real* __restrict__ kept_across,
          const real* __restrict__ inside, const real* __restrict__ edges, real* __restrict__ lost) {
    extern __shared__ __align__(16) char raw[];
    cplx* sums = (cplx*)raw;
    cplx* coming = sums + (ROWWISE ? 8 : 4) * THREADS;
    // the table of a window, then what is written of it
    [[maybe_unused]] cplx* stage = coming + (AXIS == 0 ? ROWS * THREADS : LINES * STRIDE);
    const Layout layout = {pitch, points, lines, windows, window, halo, gang};
    const int own = threadIdx.x % LINES, group = threadIdx.x / LINES;
#if LOSSY
    real single = 0, both = 0;
#endif

    fetch(coming, in, layout, tile_of(layout, blockIdx.x));
    for (int id = blockIdx.x; id < tiles; id += gridDim.x) {
        const Tile t = tile_of(layout, id);
        const int mine = t.line + own, place = t.start + ROWS * group;
        const bool there = mine < lines;
        copies_wait<0>();
#if AXIS == 1
        __syncthreads();
#endif
        cplx f[ROWS];
#pragma unroll
        for (int k = 0; k < ROWS; ++k) f[k] = coming[own_slot(k)];
#if TWIST
        const real turned = twist * fma(at[3], real(mine), at[2]);
#pragma unroll
        for (int k = 0; k < ROWS; ++k) {
            real sign;
            const int j = t.inner ? place + k : image(place + k, points, sign);
            f[k] *= expi(turned * fma(at[1], real(j), at[0]));
        }
#endif
        if (!t.inner) {
#pragma unroll
            for (int k = 0; k < ROWS; ++k) {
                real sign;
                image(place + k, points, sign);
                f[k] = sign * f[k];
            }
        }
#if AXIS == 1
        // all have their points, and the window before is written
        __syncthreads();
#endif
#if TABLE == 2
        fetch(stage, table, layout, t);
#endif
        if (id + gridDim.x < tiles)
            fetch(coming, in, layout, tile_of(layout, id + gridDim.x));
        else
            copies_end();

#if ROWWISE
        const cplx* rows = (const cplx*)constants;
        filtered_rows(f, rows, place, points, reach_before, false, sums, sums + THREADS, sums + 4 * THREADS);
#else
        filtered(f, filter_of(constants, reach_before), sums, sums + THREADS);
#endif

#if TABLE == 2
        copies_wait<1>();
#if AXIS == 1
        __syncthreads();
#endif
#endif
        const cplx turn = there ? across[mine] : cplx{0, 0};
#if LOSSY
        real gone = 0, within = 0;
        const real kept = there ? kept_across[mine] : real(1);
#endif
        // what the phases at place k, the point j of the line, make of f_k
        const auto phases = [&](int k, int j) {
#if LOSSY
            // the kinetic steps keep the norm: what the phases take here is all that is lost
            if (place + k >= t.begin && place + k < t.end) {
                const real scale = ROWWISE ? abs2(((const cplx*)constants)[4 * j + 3]) : weight;
                const real taken = scale * abs2(f[k]) * (1 - kept_line[j] * kept);
                gone += taken;
                within += inside[j] * taken;
            }
#endif
            cplx g = line[j] * turn;
#if TABLE == 1
            g *= table[origin + (int64)(stride * j) + (there ? mine : 0)];
#elif TABLE == 2
            g *= stage[own_slot(k)];
#endif
#if BEND
            // exp(-i p) as (a - i b) / (a + i b) of order 8 (Pade), as on a CPU
            const real p = bend * (weight * abs2(f[k])), q = p * p;
            const real a = fma(q, fma(q, real(1.0 / 1680.0), real(-3.0 / 28.0)), real(1));
            const real b = p * fma(q, real(-1.0 / 84.0), real(0.5));
            const real c = 1 / fma(a, a, b * b);
            g *= cplx{(a * a - b * b) * c, -2 * a * b * c};
#endif
            f[k] *= g;
        };
        if (t.inner) {
#pragma unroll
            for (int k = 0; k < ROWS; ++k) phases(k, place + k);
        } else {
#pragma unroll
            for (int k = 0; k < ROWS; ++k) {
                real sign;
                phases(k, image(place + k, points, sign));
            }
        }
#if LOSSY
        // where one coordinate lies inside, and where none does
        const real edge = there ? edges[mine] : real(0);
        single += within + edge * (gone - within);
        both += (1 - edge) * (gone - within);
#endif

#if ROWWISE
        filtered_rows(f, rows + 4 * points, place, points, reach_after, true, sums + 2 * THREADS, sums + 3 * THREADS,
                      sums + 6 * THREADS);
#else
        filtered(f, filter_of(constants + 6, reach_after), sums + 2 * THREADS, sums + 3 * THREADS);
#endif

#if AXIS == 0
        cplx* to = out + (int64)place * pitch + mine;
        if (there && place >= t.begin && place + ROWS <= t.end) {
#pragma unroll
            for (int k = 0; k < ROWS; ++k, to += pitch) *to = f[k];
        } else if (there) {
#pragma unroll
            for (int k = 0; k < ROWS; ++k, to += pitch)
                if (place + k >= t.begin && place + k < t.end) *to = f[k];
        }
#else
        // all have taken their factors: there was a barrier in the second filter
#pragma unroll
        for (int k = 0; k < ROWS; ++k) stage[own_slot(k)] = f[k];
        __syncthreads();
        cplx* to = out + (int64)t.line * pitch + t.start + (int)threadIdx.x;
#pragma unroll
        for (int k = 0; k < ROWS; ++k) {
            const int at = t.start + column_of(k);
            if (t.line + line_of(k) < lines && at >= t.begin && at < t.end) to[(k % PARTS) * THREADS] = stage[copy_slot(k)];
            if (k % PARTS == PARTS - 1) to += pitch;
        }
#endif
    }
#if LOSSY
    real* scratch = (real*)sums;
    __syncthreads();
    single = block_sum(single, scratch);
    both = block_sum(both, scratch);
    if (threadIdx.x == 0) {
        lost[2 * blockIdx.x] += single;
        lost[2 * blockIdx.x + 1] += both;
    }
#endif
}

#define STRIP 32  // rows of a block of `marginals`

// Density of a state summed over either coordinate, and over both with up to two tables.
//   along (rows, warps, 2), across (strips, columns), weighted (blocks, 2): parts of the sums; a block has THREADS columns
extern "C" __global__ void __launch_bounds__(THREADS)
marginals(const cplx* __restrict__ s, int64 pitch, int rows, int columns, const real* __restrict__ inside,
          const real* __restrict__ tables, int count, real* __restrict__ along, real* __restrict__ across,
          real* __restrict__ weighted) {
    __shared__ real scratch[QSIM_WARP];
    const int column = blockIdx.x * THREADS + threadIdx.x, lane = threadIdx.x % QSIM_WARP;
    const int warp = column / QSIM_WARP, warps = gridDim.x * (THREADS / QSIM_WARP);
    const bool there = column < columns;
    const real share = there ? inside[column] : real(0);
    const int64 size = (int64)rows * columns;
    real sum = 0, first = 0, second = 0;
    for (int row = blockIdx.y * STRIP; row < min((int)(blockIdx.y + 1) * STRIP, rows); ++row) {
        const real density = there ? abs2(s[row * pitch + column]) : real(0);
        sum += density;
        const int64 at = (int64)row * columns + column;
        if (there && count > 0) first += tables[at] * density;
        if (there && count > 1) second += tables[size + at] * density;
        const real norm = warp_sum(density), within = warp_sum(share * density);
        if (lane == 0) {
            along[2 * ((int64)row * warps + warp)] = norm;
            along[2 * ((int64)row * warps + warp) + 1] = within;
        }
    }
    if (there) across[(int64)blockIdx.y * columns + column] = sum;
    first = block_sum(first, scratch);
    second = block_sum(second, scratch);
    if (threadIdx.x == 0) {
        const int64 block = (int64)blockIdx.y * gridDim.x + blockIdx.x;
        weighted[2 * block] = first;
        weighted[2 * block + 1] = second;
    }
}
