// Products in spaces of strings with any matrices of one and of two sites; see terms.py.
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
#include "images.cuh"

#define THREADS 256

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
    orbit_rows(const amplitude* __restrict__ psi, amplitude* out, int64 rows, int square, const int64* __restrict__ own,
               const unsigned short* __restrict__ own_nu, int64 columns, const int64* __restrict__ strings,
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
    const int64 s = own[row];
    const double inverse = 1.0 / sqrt((double)own_nu[row]);
    amplitude sum = {};
    for (int term = 0; term < terms; ++term) {
        const int local = local_of(h, s, term);
        if (square) sum = add_product(energies[(term << 2 * digit) + local], psi[row], sum);
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
            if (low >= columns || strings[low] != t) continue;  // an orbit without a state
            const number c = characters[coset * turns + turn / cell] * value[e];
            sum = add_product((inverse * roots[nu[low]]) * c, psi[low], sum);
        }
    }
    finish(psi, out, row, sum, alpha, beta, gamma);
}
