// What the warps of march.cuh have to do with: rows, columns of lanes, and blocks of rows on their way into shared memory.
#ifndef QSIM_ATOM_MARCH_COLUMNS_CUH
#define QSIM_ATOM_MARCH_COLUMNS_CUH
#include "chunks.cuh"

#define MARCH_THREADS 128  // of a block
#ifndef MARCH_BLOCKS
#define MARCH_BLOCKS 2  // on a multiprocessor
#endif
#ifndef STAGES
#define STAGES 4  // blocks of rows of a warp in shared memory: the last one, this one, the next one, and those on their way
#endif
#define OWNED 30  // columns of a warp without those that only pass on what their neighbours need
#define FIRST_PIVOT real(1.5)  // of a Cayley step where a march begins: forgotten before its chunk
// bits of a sweep: it ends an operation, it begins one, and what lies between
#define ENDING 1
#define BEGINNING 2
#define CLEARED 4
#define MASKED 8
#define KIND 16  // times the number of a kind of sweep: in length gauge whether the state is needed whole, else two operations

// What the rows have in common for all lanes; beyond the grid `diagonal` and `mix` are so large that all pivots vanish.
struct __align__(16) Row {
    real potential, rotation;  // B = potential + rotation l (l + 1)
    real near, far, twice;     // a of q and of f', 24 a
    real diagonal;             // 12 (M2)_jj; of the first row: of each lane
    real r, weight, force, mask, inverse_r, slope, root, inverse_root;  // slope: 1/r'; root: sqrt(r')
    real mix, corner;          // T_jj = mix + k corner
};

struct March {
    const cplx* from;         // (members, rows, lanes)
    cplx* to;
    const cplx *down, *up;    // (blocks, lanes): pivots of the row before each block of ROWS rows, and of the row after it
    const Row* rows;
    const real *of_lanes;     // (2, lanes): l (l + 1), 12 (M2)_11
    const real *of_columns;   // (4, columns): couplings of the pairs (2k, 2k+1) and (2k-1, 2k), and these times (l + 1)
    const real* edge;         // (lanes): 1 for the last l
    const int* begins;        // (2, chunks): blocks where marches down and up begin
    const int* alike;         // (1 + blocks + 1): whether pivots of Cayley steps have the closed form
    const real* moves;        // (members, moves, width)
    const real* inner;        // (inner_rows, lanes): 1 / r'^2 where the core is emptied
    const real* pivots_from;  // (members, blocks, lanes): of a Cayley step, of the row behind each block
    real* pivots_to;
    real* sums;               // (members, places, chunks, strips, SUMS)
    real* lost;               // (members, chunks, strips)
    int lanes, length, chunks, strips, blocks, members, sweeps, places, inner_rows;  // length: blocks of a chunk
    int direction, sweep, place, what;
};

// A warp's place, and the lanes of a thread: [odd, even].
struct Column {
    int member, chunk, strip, at, first, end;  // at: which column; first ... end - 1: blocks of the chunk
    int lane[2];
    bool is[2], own;
};

QSIM_DEVICE bool column_of(const March& m, Column& c) {
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / QSIM_WARP, thread = threadIdx.x % QSIM_WARP;
    const int half = m.lanes / 2;
    c.strip = warp % m.strips, c.chunk = warp / m.strips % m.chunks, c.member = warp / m.strips / m.chunks;
    c.at = c.strip * OWNED + thread;
    c.first = c.chunk * m.length, c.end = min(c.first + m.length, m.blocks);
    c.is[0] = c.at >= 1 && c.at <= half, c.is[1] = c.at < half;
    c.lane[0] = c.is[0] ? half + c.at - 1 : 0, c.lane[1] = c.is[1] ? c.at : 0;
    // the first and the last column have no neighbour that would have to be known
    c.own = (thread > 0 || c.strip == 0) && (thread < QSIM_WARP - 1 || c.strip == m.strips - 1);
    return c.member < m.members;
}

QSIM_DEVICE real of_column(const March& m, const Column& c, int which) {
    const int columns = m.lanes / 2 + 1;
    return c.at < columns ? m.of_columns[which * columns + c.at] : real(0);
}

QSIM_DEVICE real of_left(real x) { return __shfl_up_sync(QSIM_ALL_LANES, x, 1); }
QSIM_DEVICE real of_right(real x) { return __shfl_down_sync(QSIM_ALL_LANES, x, 1); }
QSIM_DEVICE cplx of_left(cplx x) { return {of_left(x.re), of_left(x.im)}; }
QSIM_DEVICE cplx of_right(cplx x) { return {of_right(x.re), of_right(x.im)}; }

// What a warp has of a block of rows in shared memory.
struct Stage {
    cplx x[ROWS][2][QSIM_WARP];  // rows in the order of the march
    cplx pivot[2][QSIM_WARP];    // of the operation that ends: of the row behind the block (real ones in Cayley steps)
    Row rows[ROWS];
};

// Copy BYTES from memory into shared memory, past the registers; zeros if not `in`.
template <int BYTES> QSIM_DEVICE void fetch(void* to, const void* from, bool in) {
#ifdef __CUDACC__
    const uint32 place = (uint32)__cvta_generic_to_shared(to);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(in ? 16 : 0) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(place), "l"(from), "r"(in ? BYTES : 0), "n"(BYTES)
                     : "memory");
#else
    if (in)
        memcpy(to, from, BYTES);
    else
        memset(to, 0, BYTES);
#endif
}

// Everything fetched since the last call is one group; wait until all but the last STAGES - 4 groups are there.
QSIM_DEVICE void fetched() {
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 4) : "memory");
#endif
    __syncwarp();
}

// One thread's part of a block of rows; nothing of the state beyond the grid.
template <int ENDS> QSIM_DEVICE void fetch_rows(const March& m, const Column& c, int block, Stage& to) {
    const int thread = threadIdx.x % QSIM_WARP, whole = ROWS * (int)sizeof(Row) / 16;
    const bool in = block >= 0 && block < m.blocks;
    const int64 row = ((int64)c.member * m.blocks + block) * ROWS + (m.direction > 0 ? 0 : ROWS - 1);
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
#pragma unroll
        for (int s = 0; s < 2; ++s)
            fetch<sizeof(cplx)>(&to.x[i][s][thread], in ? m.from + (row + i * m.direction) * m.lanes + c.lane[s] : m.from, in && c.is[s]);
    const int64 beside = (int64)(in ? block : 0) * m.lanes;
    const cplx* against = m.direction > 0 ? m.up : m.down;
#pragma unroll
    for (int s = 0; s < 2; ++s)
        if (ENDS == RADIAL_STEP)
            fetch<sizeof(cplx)>(&to.pivot[s][thread], against + beside + c.lane[s], in);
        else
            fetch<sizeof(real)>((real*)to.pivot[s] + thread, m.pivots_from + (int64)c.member * m.blocks * m.lanes + beside + c.lane[s], in);
    // rows in the order of the grid: MARGIN of march.py is two blocks
    const bool known = block >= -2 && block < m.blocks + 2;
    for (int i = thread; i < whole; i += QSIM_WARP)
        fetch<16>((char*)to.rows + 16 * i, (const char*)(m.rows + (known ? block : 0) * ROWS) + 16 * i, known);
}

// Rows around a block in the order of the march: -2 ... -1 lie in the block before, ROWS in the next one.
struct Around {
    const Row *last, *here, *next;  // each the first row in the order of the march
    int d;
    QSIM_MEMBER const Row& operator[](int i) const {
        return i < 0 ? last[(i + ROWS) * d] : i < ROWS ? here[i * d] : next[(i - ROWS) * d];
    }
};

QSIM_DEVICE void store_row(const March& m, const Column& c, int row, int s, cplx value) {
    if (c.own && c.is[s]) m.to[((int64)c.member * m.blocks * ROWS + row) * m.lanes + c.lane[s]] = value;
}

#endif  // QSIM_ATOM_MARCH_COLUMNS_CUH
