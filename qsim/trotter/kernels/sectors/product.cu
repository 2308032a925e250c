// H psi in a sector of conserved Sz, and sums of spin flips; one launch for each block of the sector.
//
// The block of high weight p is a matrix (rows, columns): row = string of the high bits, column = string of the low bits, both by
// their rank among strings of the same weight.  A thread makes one column of ROWS rows and gathers what flips into it: the index of
// another string is block[p'] + rank_high * columns' + rank_low, with two tables of 2^H and 2^L ranks.
//
// Mirrored flips: with inversion the last site is left out (it is up), and a flip of it with site j, which is down, leads to a string
// with the last site down; its complement has j down again and all others turned over.
//
// Bytes an element: 16 written, 16 read and 16 for each flip whose row is not in cache (double, complex).
//
// qsim-compile: -DWIDTH=2 -DROWS=3 -DRESIDENT=4
// qsim-compile: -DWIDTH=2 -DROWS=4 -DRESIDENT=6
// qsim-compile: -DWIDTH=1 -DROWS=4 -DRESIDENT=6
// qsim-compile: may-spill=sector_product
#include "../amplitudes.cuh"
#include "strings.cuh"

#define THREADS 256
#ifndef ROWS
#define ROWS 4  // that a thread makes at a time
#endif
#ifndef RESIDENT
#define RESIDENT 4  // blocks of a multiprocessor that registers are kept for; a few spilled cost less than a block fewer
#endif

// What the rows of a block of threads need of their high strings, in shared memory: entries by flip, then by row.
struct Rows {
    double *factor, *sign;            // values of the flips within the high part; Jz / 4 with the sign of the high spin
    int64 *source, *across, *mirror;  // first index of the partner row, or -1; complement of it (-index - 2) if the high spin is down
};

QSIM_DEVICE Rows rows_in(char* memory, int within_high, int across, int mirrored, int couplings) {
    Rows r;
    r.factor = (double*)memory;
    r.sign = r.factor + within_high;
    r.source = (int64*)(r.sign + couplings * ROWS);
    r.across = r.source + within_high * ROWS;
    r.mirror = r.across + across * ROWS;
    return r;
}

// out = alpha H psi + beta psi + gamma out on one block of the sector; gamma = 0 does not read out.
//
// A block of threads makes ROWS rows and `span` columns, a thread one column of all rows at a time: what a flip does to a high
// string is found once for each row, what it does to a low string once for each column.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    sector_product(const amplitude* __restrict__ psi, amplitude* out, int low, int high, int down, int p, int64 first,
                   int64 rows, int64 columns, const int64* __restrict__ low_offset, const int64* __restrict__ high_offset,
                   const int64* __restrict__ block, const int64* __restrict__ low_string, const int* __restrict__ low_rank,
                   const int64* __restrict__ high_string, const int* __restrict__ high_rank, int within_low,
                   int within_high, int across, int mirrored, const uint64* __restrict__ mask,
                   const double* __restrict__ value, const double* __restrict__ low_energy,
                   const double* __restrict__ high_energy, int couplings, const uint64* __restrict__ coupled,
                   const double* __restrict__ strength, int span, double alpha, double beta, double gamma) {
    extern __shared__ char memory[];
    const Rows at = rows_in(memory, within_high, across, mirrored, couplings);
    const int64 row = (int64)blockIdx.y * ROWS;
    const int w = down - p;
    const uint32 under = ((uint32)1 << low) - 1, over = ((uint32)1 << high) - 1;
    const uint64* high_mask = mask + within_low;
    const uint64* across_mask = high_mask + within_high;
    const uint64* mirror_mask = across_mask + across;
    const double* across_value = value + within_low + within_high;
    const double* mirror_value = across_value + across;
    const int64* offset = low_offset;
    uint32 h[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {  // rows beyond the last are made as copies of it, and not written
        const int64 here = row + r < rows ? row + r : rows - 1;
        h[r] = (uint32)high_string[high_offset[p] + here];
    }
    // What depends on the high string alone is found once for all columns, by all threads together, and kept in shared memory:
    // where the row begins that a flip leads to (-1: both spins are equal).
    for (int k = threadIdx.x; k < within_high; k += THREADS) {
        const uint32 m = (uint32)(high_mask[k] >> low);
        at.factor[k] = value[within_low + k];
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            at.source[k * ROWS + r] = __popc(h[r] & m) == 1 ? first + high_rank[h[r] ^ m] * columns : -1;
    }
    // Couplings Jz across the cut, with the sign of the high spin.
    for (int k = threadIdx.x; k < couplings; k += THREADS) {
        const uint32 m = (uint32)(coupled[k] >> low);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) at.sign[k * ROWS + r] = (h[r] & m ? -0.25 : 0.25) * strength[k];
    }
    // Flips across the cut: the first state of the row; which low spins take part is in its sign.
    for (int k = threadIdx.x; k < across; k += THREADS) {
        const uint32 m = (uint32)(across_mask[k] >> low);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const bool filled = h[r] & m;  // then the low spin goes down, and is up here
            const int v = filled ? w + 1 : w - 1;
            int64 start = 0;  // of no use, and not used, where the low part has no such weight
            if (v >= 0 && v <= low)
                start = block[down - v] + high_rank[h[r] ^ m] * (offset[v + 1] - offset[v]);
            at.across[k * ROWS + r] = filled ? -start - 2 : start;
        }
    }
    // Flips with the site that is left out lead to the complement of the string.
    for (int k = threadIdx.x; k < mirrored; k += THREADS) {
        const uint32 m = (uint32)(mirror_mask[k] >> low);  // 0: a site of the low part
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const uint32 to = (~h[r] & over) | m;
            const int v = down - __popc(to);
            const bool taken = (m == 0 || (h[r] & m)) && v >= 0 && v <= low;
            at.mirror[k * ROWS + r] =
                taken ? block[down - v] + high_rank[to] * (offset[v + 1] - offset[v]) : -1;
        }
    }
    __syncthreads();
    // A thread makes ROWS elements of one column: the flips of its low string and their ranks are found once for all of them.
    const int64 begin = (int64)blockIdx.x * span;
    const int64 end = begin + span < columns ? begin + span : columns;
    for (int64 u = begin + threadIdx.x; u < end; u += THREADS) {
        const uint32 l = (uint32)low_string[offset[w] + u];
        const int64 base = first + row * columns;  // of the first row; r rows on, the offset is r columns or fewer
        int64 place[ROWS];
        amplitude sum[ROWS];
        double energy[ROWS];
        const double inside = low_energy[l];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            place[r] = base + (row + r < rows ? r : rows - 1 - row) * columns;
            sum[r] = amplitude{};
            energy[r] = inside + high_energy[h[r]];
        }
        // The diagonal: both parts, and the couplings between them.
        for (int k = 0; k < couplings; ++k) {
            const bool filled = l & (uint32)coupled[k];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const double e = at.sign[k * ROWS + r];
                energy[r] += filled ? -e : e;
            }
        }
        // Whole rows: neighbouring threads read neighbouring states.
        for (int k = 0; k < within_high; ++k) {
            const double c = at.factor[k];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const int64 start = at.source[k * ROWS + r];
                if (start >= 0) sum[r] = add_times(c, psi[start + u], sum[r]);
            }
        }
        // Within the row: all rows of the thread share the rank.
        for (int k = 0; k < within_low; ++k) {
            const uint32 m = (uint32)mask[k];
            if (__popc(l & m) != 1) continue;
            const double c = value[k];
            const int to = low_rank[l ^ m];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) sum[r] = add_times(c, psi[place[r] + to], sum[r]);
        }
        // Across the cut, where the low spin is the opposite of the high one.
        for (int k = 0; k < across; ++k) {
            const uint32 m = (uint32)across_mask[k] & under;
            const bool filled = l & m;
            const double c = across_value[k];
            const int to = low_rank[l ^ m];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const int64 start = at.across[k * ROWS + r];
                if (filled == (start >= 0)) sum[r] = add_times(c, psi[(start >= 0 ? start : -start - 2) + to], sum[r]);
            }
        }
        // To the complement.
        for (int k = 0; k < mirrored; ++k) {
            const uint32 m = (uint32)mirror_mask[k] & under;
            if (m && !(l & m)) continue;
            const double c = mirror_value[k];
            const int to = low_rank[(~l & under) | m];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const int64 start = at.mirror[k * ROWS + r];
                if (start >= 0) sum[r] = add_times(c, psi[start + to], sum[r]);
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            if (row + r >= rows) break;
            const int64 i = place[r] + u;
            // Each element is written once, by this thread; with gamma = 0 the old one is not read.
            amplitude found = (real)(alpha * energy[r] + beta) * psi[i];
            if (gamma != 0) found = add_times(gamma, out[i], found);
            out[i] = add_times(alpha, sum[r], found);
        }
    }
}

// sums (pairs, gridDim.x) += the parts of <S+ S- + S- S+> of one block, a pair for each blockIdx.y.
extern "C" __global__ void
    sector_flips(const amplitude* __restrict__ psi, int low, int high, int down, int p, int64 first, int64 rows,
                 int64 columns, const int64* __restrict__ low_offset, const int64* __restrict__ high_offset,
                 const int64* __restrict__ block, const int64* __restrict__ low_string, const int* __restrict__ low_rank,
                 const int64* __restrict__ high_string, const int* __restrict__ high_rank,
                 const uint64* __restrict__ mask, int sign, double* __restrict__ sums) {
    __shared__ double scratch[QSIM_WARP];
    const int64 m = mask[blockIdx.y], under = ((int64)1 << low) - 1, over = ((int64)1 << high) - 1;
    const bool single = __popcll(m) == 1;
    const Strings t = {low, down, low_offset, block, low_rank, high_rank};
    double sum = 0;
    for (int64 i = (int64)blockIdx.x * THREADS + threadIdx.x; i < rows * columns; i += (int64)gridDim.x * THREADS) {
        const int64 row = i / columns, u = i - row * columns;
        const int64 h = high_string[high_offset[p] + row], l = low_string[low_offset[down - p] + u];
        // Only antiparallel spins flip; a single bit stands for a pair with the site that is left out, which is up.
        if (__popcll((h << low | l) & m) != 1) continue;
        const int64 hf = single ? (~h & over) | (m >> low) : h ^ (m >> low);
        const int64 lf = single ? (~l & under) | (m & under) : l ^ (m & under);
        sum += product_of(psi[first + i], psi[index_of(t, hf, lf)]);
    }
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) sums[(int64)blockIdx.y * gridDim.x + blockIdx.x] += single ? sign * sum : sum;
}
