// Images of strings under a group of permutations of sites and the inversion of all spins; see images.py.
#ifndef QSIM_IMAGES_CUH
#define QSIM_IMAGES_CUH
#include "../amplitudes.cuh"

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

#endif  // QSIM_IMAGES_CUH
