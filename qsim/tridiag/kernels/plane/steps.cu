// Kinetic steps in two coordinates as recursive filters, with the phases of a potential between them: one pass over memory.
//
// The Cayley step of a kinetic energy is  psi'_j = beta (alpha/beta psi_j + r_j + l_j),  r_j = psi_j + lambda r_(j-1),
// l_j = psi_j + lambda l_(j+1)  with one complex lambda for all points (steps_cpu.py).  |lambda|^H falls below rounding within
// some tens of points, so that the points of a window do not feel what lies beyond a halo of H points: a block takes a window of
// LINES lines with its halos into registers, makes [filter, phases, filter], and writes the window to another array.  Walls are
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
// qsim-compile: -DAXIS=1 -DTABLE=1 -DLOSSY=1 -DLINES=1 -DTHREADS=512 -DMINBLOCKS=1
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
#define ROWS 8                       // points of a thread
#define GROUPS (THREADS / LINES)     // threads of a line
#define SPAN (GROUPS * ROWS)         // points of a line in a block, halos included
#define STRIDE (SPAN + GROUPS + 8 / LINES)  // of lines in shared memory: eight threads beside each other meet in no bank

// Point of a line whose value, times `sign`, is the image at any place of the endless line; walls lie at -1 and `points`.
QSIM_DEVICE int image(int place, int points, real& sign) {
    const int period = 2 * (points + 1);
    int p = (place + 1) % period;
    if (p < 0) p += period;
    const bool turned = p > points + 1;
    if (turned) p = period - p;
    const bool wall = p == 0 || p == points + 1;
    sign = wall ? real(0) : turned ? real(-1) : real(1);
    return wall ? 0 : p - 1;
}

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
    for (int m = min(a.reach, group); m > 0; --m) r = cfma(a.power, r, up[t - m * LINES]);
    for (int m = min(a.reach, GROUPS - 1 - group); m > 0; --m) l = cfma(a.power, l, down[t + m * LINES]);
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
//   in, out      (n1, pitch) states, in != out
//   points       along a line;  lines: their number;  windows, window, halo: of a line;  gang: lines of blocks side by side
//   constants    12 reals: of the filter before and of that after the phases;  reach: neighbours of both
//   line, across factors of the points of a line, those of lines
//   table        factors of both coordinates: TABLE 1 at origin + stride j + line, TABLE 2 as the state with its pitch
//   weight       |beta|^2 of the filter before: the state between the filters is divided by beta
//   bend         phase per |psi|^2;  kept_line, kept_across: squares of the factors of the absorber
//   inside, edges  shares of the points of a line, and of lines, that lie inside;  lost: (blocks, 2), added to
extern "C" __global__ void __launch_bounds__(THREADS, MINBLOCKS)
step_pass(const cplx* __restrict__ in, cplx* __restrict__ out, int64 pitch, int points, int lines, int windows, int window,
          int halo, int gang, const real* __restrict__ constants, int reach_before, int reach_after,
          const cplx* __restrict__ line, const cplx* __restrict__ across, const cplx* __restrict__ table, int64 origin,
          int stride, real weight, real bend, const real* __restrict__ kept_line, const real* __restrict__ kept_across,
          const real* __restrict__ inside, const real* __restrict__ edges, real* __restrict__ lost) {
    extern __shared__ __align__(16) char raw[];
    cplx* sums = (cplx*)raw;
    [[maybe_unused]] cplx* stage = sums + 4 * THREADS;

    // blocks side by side share rows of memory, those after them the halos: both are still in the cache
    const int within = blockIdx.x % gang, rest = blockIdx.x / gang;
    const int first_line = ((rest / windows) * gang + within) * LINES;
    if (first_line >= lines) return;
    const int begin = (rest % windows) * window, start = begin - halo;
    const int end = min(begin + window, points), used = end + halo - start;
    const int own = threadIdx.x % LINES, group = threadIdx.x / LINES, mine = first_line + own;
    const bool there = mine < lines;
    const bool inner = start >= 0 && start + SPAN <= points;
    const int place = start + ROWS * group;

    cplx f[ROWS];
#if AXIS == 0
    const cplx* column = in + (there ? mine : 0);
    const bool active = there && ROWS * group < used;
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        f[k] = {0, 0};
        if (active) {
            real sign = 1;
            const int j = inner ? place + k : image(place + k, points, sign);
            f[k] = sign * column[j * pitch];
        }
    }
#else
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const int i = k * THREADS + threadIdx.x, c = i % SPAN, ln = first_line + i / SPAN;
        f[k] = {0, 0};
        if (ln < lines && c < used) {
            real sign = 1;
            const int j = inner ? start + c : image(start + c, points, sign);
            f[k] = sign * in[ln * pitch + j];
        }
    }
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const int i = k * THREADS + threadIdx.x, c = i % SPAN;
        stage[(i / SPAN) * STRIDE + c + c / ROWS] = f[k];
    }
    __syncthreads();
    cplx* slot = stage + own * STRIDE + (ROWS + 1) * group;
#pragma unroll
    for (int k = 0; k < ROWS; ++k) f[k] = slot[k];
#if TABLE == 2
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const int i = k * THREADS + threadIdx.x, c = i % SPAN, ln = first_line + i / SPAN;
        cplx w = {0, 0};
        if (ln < lines && c < used) {
            [[maybe_unused]] real sign;
            const int j = inner ? start + c : image(start + c, points, sign);
            w = table[ln * pitch + j];
        }
        stage[(i / SPAN) * STRIDE + c + c / ROWS] = w;
    }
#endif
#endif

    filtered(f, filter_of(constants, reach_before), sums, sums + THREADS);

    const cplx turn = there ? across[mine] : cplx{0, 0};
#if LOSSY
    real gone = 0, within_both = 0;
    const real kept = there ? kept_across[mine] : real(1);
#endif
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        [[maybe_unused]] real sign;
        const int j = inner ? place + k : image(place + k, points, sign);
#if LOSSY
        // the kinetic steps keep the norm: what the phases take here is all that is lost
        if (place + k >= begin && place + k < end) {
            const real taken = weight * abs2(f[k]) * (1 - kept_line[j] * kept);
            gone += taken;
            within_both += inside[j] * taken;
        }
#endif
        cplx g = line[j] * turn;
#if TABLE == 1
        g *= there ? table[origin + (int64)stride * j + mine] : cplx{0, 0};
#elif TABLE == 2 && AXIS == 0
        g *= active ? table[j * pitch + mine] : cplx{0, 0};
#elif TABLE == 2
        g *= slot[k];
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
    }

    filtered(f, filter_of(constants + 6, reach_after), sums + 2 * THREADS, sums + 3 * THREADS);

#if AXIS == 0
#pragma unroll
    for (int k = 0; k < ROWS; ++k)
        if (there && place + k >= begin && place + k < end) out[(place + k) * pitch + mine] = f[k];
#else
    // all have taken their factors: the last barrier was in the second filter
#pragma unroll
    for (int k = 0; k < ROWS; ++k) slot[k] = f[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const int i = k * THREADS + threadIdx.x, c = i % SPAN, ln = first_line + i / SPAN;
        if (ln < lines && start + c >= begin && start + c < end)
            out[ln * pitch + start + c] = stage[(i / SPAN) * STRIDE + c + c / ROWS];
    }
#endif
#if LOSSY
    // where one coordinate lies inside, and where none does
    const real edge = there ? edges[mine] : real(0), beyond = gone - within_both;
    real* scratch = (real*)sums;
    const real single = block_sum(within_both + edge * beyond, scratch);
    const real both = block_sum((1 - edge) * beyond, scratch);
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
