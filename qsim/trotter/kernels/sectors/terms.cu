// Products in spaces of strings with any matrices of one and of two sites, and the orbits of strings; see terms.py and images.py.
//
//     out[a] = alpha (E_a psi[a] + sum_e value_e psi[index of s + change_e]) + beta psi[a] + gamma out[a],
//
// a thread for each row a, whose string is s.  With characters the index is that of the smallest image of the string, and the value
// is multiplied by chi(g) sqrt(nu_b / nu_a).
//
// Bytes a row: 40 and, for each element, 16 (double, complex); of orbits 32 bytes more for the bucket, and for each of about three
// probes of the list of strings.  A flip of an orbit takes some hundred integer operations for each coset.
//
// qsim-compile: -DWIDTH=2
// qsim-compile: -DWIDTH=1
#include "../amplitudes.cuh"

#define THREADS 256
#if WIDTH == 2
typedef complex_of<double> number;  // of tables, in double precision
QSIM_DEVICE cplx add_product(number c, cplx x, cplx sum) { return add_product(c.re, c.im, x, sum); }
QSIM_DEVICE double real_part(number c) { return c.re; }
QSIM_DEVICE bool is_zero(number c) { return c.re == 0 && c.im == 0; }
#else
typedef double number;
QSIM_DEVICE real add_product(number c, real x, real sum) { return add_times(c, x, sum); }
QSIM_DEVICE double real_part(number c) { return c; }
QSIM_DEVICE bool is_zero(number c) { return c == 0; }
#endif

// ------------------------------------------------------------------------------------------ images

// A group of cosets of rotations by whole cells; as `Images` of images.py.
struct Group {
    const int64* tables;
    const number* characters;
    int cosets, pieces, turns, cell, bits;
    int64 marks;
};

QSIM_DEVICE int64 image(const Group& g, int64 s, int r) {
    if (r == 0) return s;
    int64 out = 0;
    for (int c = 0; c < g.pieces; ++c) out |= g.tables[(r * g.pieces + c) << 8 | (int)(s >> (8 * c) & 255)];
    return out;
}

QSIM_DEVICE int64 rotated(int64 x, int k, int bits) { return (x << k | x >> (bits - k)) & (((int64)1 << bits) - 1); }

// Length of the longest run of zero cells; `ends`: the lowest bits of the cells at their tops.
QSIM_DEVICE int runs(const Group& g, int64 x, int64& ends) {
    ends = g.marks;
    if (g.marks == 1) return 0;
    int64 filled = x;
    for (int i = 1; i < g.cell; ++i) filled |= x >> i;
    int64 y = ~filled & g.marks;
    if (y == 0 || y == g.marks) return y == 0 ? 0 : g.bits;
    int length = 0;
    while (y) {
        ends = y;
        ++length;
        y &= rotated(y, g.cell, g.bits);
    }
    return length;
}

// Smallest image of a string, and the coset and the rotation (bits) of the element that leads to it.
QSIM_DEVICE int64 smallest(const Group& g, int64 s, int& coset, int& turn) {
    int64 best = 0, ends;
    int longest = -1;
    coset = turn = 0;
    for (int r = 0; r < g.cosets; ++r) {
        const int64 x = image(g, s, r);
        const int length = runs(g, x, ends);
        if (length < longest) continue;  // an image with a longer run of zeros at the top is smaller
        bool first = length > longest;
        longest = length;
        for (; ends; ends &= ends - 1) {
            const int k = g.bits - g.cell - (__ffsll(ends) - 1);
            const int64 t = rotated(x, k, g.bits);
            if (first || t < best) {
                best = t;
                coset = r;
                turn = k;
                first = false;
            }
        }
    }
    return best;
}

// nu of a string that is the smallest of its orbit, 0 of others.
QSIM_DEVICE double norm(const Group& g, int64 s) {
    double nu = 0;
    int own = 0;
    int64 ends;
    for (int r = 0; r < g.cosets; ++r) {
        const int64 x = image(g, s, r);
        const int length = runs(g, x, ends);
        if (r == 0) own = length;
        if (length < own) continue;
        if (length > own) return 0;
        for (; ends; ends &= ends - 1) {
            const int k = g.bits - g.cell - (__ffsll(ends) - 1);
            const int64 t = rotated(x, k, g.bits);
            if (t < s) return 0;
            if (t == s) nu += real_part(g.characters[r * g.turns + k / g.cell]);
        }
    }
    return nu;
}

// Count the orbits that begin with an upper half, a block for each, or list them in ascending order from where `at` says.
extern "C" __global__ void list_orbits(const int64* highs, const int64* classes, const int64* starts, const int64* lows, int64* at,
                                       int64* strings, unsigned short* nu, int fill, const int64* tables,
                                       const number* characters, int cosets, int pieces, int turns, int cell, int bits,
                                       int64 marks) {
    __shared__ int found[THREADS / QSIM_WARP];
    const Group g = {tables, characters, cosets, pieces, turns, cell, bits, marks};
    const int64 high = highs[blockIdx.x], first = starts[classes[blockIdx.x]], end = starts[classes[blockIdx.x] + 1];
    const int warp = threadIdx.x / QSIM_WARP, lane = threadIdx.x % QSIM_WARP;
    int64 place = fill ? at[blockIdx.x] : 0;
    for (int64 begin = first; begin < end; begin += THREADS) {
        const int64 j = begin + threadIdx.x;
        const int64 s = j < end ? high | lows[j] : 0;
        const double size = j < end ? norm(g, s) : 0;
        // nu is 0 or a positive integer: 0.5 leaves room for rounding of the characters
        const unsigned here = __ballot_sync(0xffffffffu, size > 0.5);
        __syncthreads();
        if (lane == 0) found[warp] = __popc(here);
        __syncthreads();
        int before = __popc(here & ((1u << lane) - 1)), all = 0;
        for (int w = 0; w < THREADS / QSIM_WARP; ++w) {
            if (w < warp) before += found[w];
            all += found[w];
        }
        if (fill && size > 0.5) {
            strings[place + before] = s;
            nu[place + before] = (unsigned short)(size + 0.5);
        }
        place += all;
    }
    if (!fill && threadIdx.x == 0) at[blockIdx.x] = place;
}

// ------------------------------------------------------------------------------------------ products

// Terms of H; as `Terms` of terms.py.
struct Terms {
    int count, bits;
    const int64 *sites, *first, *change;
    const number *value, *energies;
};

// Rows of a term are numbered by the digits of its two sites.
QSIM_DEVICE int local_of(const Terms& h, int64 s, int term) {
    const int64 mask = ((int64)1 << h.bits) - 1;
    return (int)((s >> h.sites[2 * term] & mask) << h.bits | (s >> h.sites[2 * term + 1] & mask));
}

// Write alpha sum + beta psi + gamma out; gamma = 0 does not read out.
QSIM_DEVICE void finish(const amplitude* psi, amplitude* out, int64 row, amplitude sum, double alpha, double beta, double gamma) {
    amplitude found = (real)alpha * sum;
    if (beta != 0) found = add_times(beta, psi[row], found);
    if (gamma != 0) found = add_times(gamma, out[row], found);
    out[row] = found;
}

extern "C" __global__ void term_rows(const amplitude* __restrict__ psi, amplitude* out, int64 rows,
                                     const int64* __restrict__ strings, int square, int split,
                                     const int64* __restrict__ above, const int64* __restrict__ below, int terms, int bits,
                                     const int64* __restrict__ sites, const int64* __restrict__ first,
                                     const int64* __restrict__ change, const number* __restrict__ value,
                                     const number* __restrict__ energies, double alpha, double beta, double gamma) {
    const int64 row = (int64)blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    const Terms h = {terms, bits, sites, first, change, value, energies};
    const int64 s = strings[row], low = ((int64)1 << split) - 1;
    amplitude sum = {};
    for (int term = 0; term < terms; ++term) {
        const int local = local_of(h, s, term);
        if (square) sum = add_product(energies[(term << 2 * bits) + local], psi[row], sum);
        const int64 width = (first[term + 1] - first[term]) >> 2 * bits, begin = first[term] + local * width;
        for (int64 e = begin; e < begin + width; ++e) {
            const number c = value[e];
            if (change[e] == 0 && (square || is_zero(c))) continue;  // an element that is missing
            const int64 t = s + change[e];
            sum = add_product(c, psi[above[t >> split] + below[t & low]], sum);
        }
    }
    finish(psi, out, row, sum, alpha, beta, gamma);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    orbit_rows(const amplitude* __restrict__ psi, amplitude* out, int64 rows, const int64* __restrict__ strings,
               const unsigned short* __restrict__ nu, const double* __restrict__ roots, const uint32* __restrict__ starts,
               int shift, int64 buckets, const int64* __restrict__ tables, const number* __restrict__ characters, int cosets,
               int pieces, int turns, int cell, int bits, int64 marks, int terms, int digit,
               const int64* __restrict__ sites, const int64* __restrict__ first, const int64* __restrict__ change,
               const number* __restrict__ value, const number* __restrict__ energies, double alpha, double beta,
               double gamma) {
    const int64 row = (int64)blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    const Terms h = {terms, digit, sites, first, change, value, energies};
    const Group g = {tables, characters, cosets, pieces, turns, cell, bits, marks};
    const int64 s = strings[row];
    const double inverse = 1.0 / roots[nu[row]];
    amplitude sum = {};
    for (int term = 0; term < terms; ++term) {
        const int local = local_of(h, s, term);
        sum = add_product(energies[(term << 2 * digit) + local], psi[row], sum);
        const int64 width = (first[term + 1] - first[term]) >> 2 * digit, begin = first[term] + local * width;
        for (int64 e = begin; e < begin + width; ++e) {
            if (change[e] == 0) continue;  // an element that is missing
            int coset, turn;
            const int64 t = smallest(g, s + change[e], coset, turn);
            const int64 bucket = t >> shift;
            if (bucket >= buckets) continue;
            int64 low = starts[bucket], high = starts[bucket + 1];
            while (low < high) {
                const int64 middle = (low + high) >> 1;
                if (strings[middle] < t) low = middle + 1;
                else high = middle;
            }
            if (low >= rows || strings[low] != t) continue;  // an orbit without a state
            const number c = characters[coset * turns + turn / cell] * value[e];
            sum = add_product((inverse * roots[nu[low]]) * c, psi[low], sum);
        }
    }
    finish(psi, out, row, sum, alpha, beta, gamma);
}
