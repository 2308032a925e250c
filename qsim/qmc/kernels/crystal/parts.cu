// Parts of a walker's move in a crystal alone, with the functions and the launch of walkers/walk.cu: what bench/qmc/crystal_parts.py
// holds against the ceilings of device memory.  No run uses them.
//
// Bytes: of a point, 64 coefficients of all channels read and five rows written; of an update, an inverse read and written and a row
// read, or with windows of electrons (WINDOW) that for each window.
//
// qsim-compile: may-spill=replace_rows
// qsim-compile: -DWARPS=4 -DPART=4 -DROW_LANES=8
// qsim-compile: -DWARPS=4 -DPART=4 -DWINDOW=8
#include "nonlocal.cuh"

// Values, gradients and Laplacians of the orbitals of a spin at points (count, 3): out (count, 5, C).
extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT * 4 / WARPS)
    orbital_rows(Crystal m, int spin, const double* points, int64 count, real* out) {
    extern __shared__ char shared[];
    const int numbers = 5 * (int)m.all_channels;
    real* rows = (real*)(shared + GROUP * walker_bytes(m));
    for (int64 p = WALKER; p < count; p += (int64)gridDim.x * GROUPS) {
        bloch_rows(m, spin, points[3 * p], points[3 * p + 1], points[3 * p + 2], rows);
        for (int c = lane_of(); c < numbers; c += LANES) out[p * numbers + c] = rows[c];
    }
}

// Bring the inverses of a spin up to date with new rows (W, count, M) of its first electrons, one after the other.
extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT * 4 / WARPS)
    replace_rows(Crystal m, State s, int spin, int count, const elem* fresh) {
    extern __shared__ char shared[];
    const int64 w = WALKER;
    if (w >= s.walkers) return;
    const int M = (int)m.orbitals, n = spin == 0 ? (int)m.n_up : (int)(m.electrons - m.n_up);
    elem* row = (elem*)(shared + GROUP * walker_bytes(m));
    elem* inverse = inverse_of(m, s, w, spin);
#if WINDOW
    elem* kept = (elem*)(s.scratch + w * s.stride);
    int moved = 0;
#else
    elem* column = row + M;
#endif
    for (int i = 0; i < count; ++i) {
        const elem* replaced = fresh + (w * count + i) * M;
        const elem ratio = along(replaced, inverse + i * M, n);
        join();
        for (int o = lane_of(); o < M; o += LANES) row[o] = replaced[o];
        join();
#if WINDOW
        update_window(inverse, row, i, i / WINDOW * WINDOW, n, M, ratio, kept, moved++);
        if (i % WINDOW == WINDOW - 1 || i == count - 1) close_window(inverse, i / WINDOW * WINDOW, n, M, kept, moved), moved = 0;
#else
        update_inverse(inverse, row, i, n, M, ratio, column);
#endif
    }
}
