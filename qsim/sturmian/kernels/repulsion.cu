// Repulsion integrals R[(a'b'), (ab)] = int int a'(r1) a(r1) r<^l/r>^(l+1) b'(r2) b(r2) dr1 dr2 of radial functions.
//
// Matrix products: the pair densities a' a and b' b on the grid (pair_densities), their products with the Poisson kernel by cuBLAS,
// and the expansion of the packed result to all N^4 numbers (expand_pairs); Kronecker products (kronecker_products).
// Quadrature: the nested sums of Colavecchia, Comput. Phys. Commun. 185, 1955 (2014), sec. 3.2 (simpson_terms), kept to compare with.
//
// Equal functions n', n of one electron make packed pairs p = n (n + 1)/2 + n', n' <= n; different ones full pairs p = n' N + n.
//
// Bytes (complex): pair_densities writes 16 Nq P.  expand_pairs reads 16 P Q (8 P^2 of a lower triangle) and writes 16 N^4, each once; a
// Kronecker product writes 16 N^4.
// Operations: simpson_terms 16 Nq N^4 for both terms of Eq. (21) (complex multiply-adds of 8), the inner integrals are negligible.
//
// qsim-compile: -DCOMPLEX=1 -DSIDE=8
// qsim-compile: -DCOMPLEX=1 -DSIDE=16
// qsim-compile: -DCOMPLEX=0 -DSIDE=8
// qsim-compile: -DCOMPLEX=0 -DSIDE=2
#include "qsim.cuh"

#ifndef COMPLEX
#define COMPLEX 1
#endif
#ifndef SIDE
#define SIDE 8  // the paper's TILE_W: a block of simpson_terms has SIDE x SIDE threads
#endif

#if COMPLEX
typedef cplx num;
QSIM_DEVICE num scaled(real s, num a) { return {s * a.re, s * a.im}; }
QSIM_DEVICE num fused(num a, num b, num c) { return cfma(a, b, c); }
QSIM_DEVICE num nothing() { return {0, 0}; }
#else
typedef real num;
QSIM_DEVICE num scaled(real s, num a) { return s * a; }
QSIM_DEVICE num fused(num a, num b, num c) { return fma(a, b, c); }
QSIM_DEVICE num nothing() { return 0; }
#endif

#define TILE 16
#define RUN 4  // packed pairs of a block: 64 bytes of each row where a lower triangle is read across

// Larger and smaller function of packed pair p: a guess in single precision, which FP64 units would make slowly, set right.
QSIM_DEVICE void unpack(int p, int& large, int& small) {
    large = (int)((sqrtf(8.0f * p + 1.0f) - 1.0f) * 0.5f);
    // The root may be off by one in either direction.
    while (large * (large + 1) / 2 > p) --large;
    while ((large + 1) * (large + 2) / 2 <= p) ++large;
    small = p - large * (large + 1) / 2;
}

// rho[i, p] = first[i, n'] second[i, n].  Grid: (pairs / 256, points).
extern "C" __global__ void __launch_bounds__(256)
    pair_densities(const num* __restrict__ first, const num* __restrict__ second, int n1, int n0, int pairs, int packed,
                   num* __restrict__ rho) {
    const int p = blockIdx.x * blockDim.x + threadIdx.x;
    const int64 i = blockIdx.y;
    if (p >= pairs) return;
    // Threads of a block share the point and take neighbouring pairs: rho is written in whole
    // lines, the functions at this point come from cache.
    int bra, ket;
    if (packed) {
        unpack(p, ket, bra);
    } else {
        bra = p / n0;
        ket = p - bra * n0;
    }
    rho[i * pairs + p] = fused(first[i * n1 + bra], second[i * n0 + ket], nothing());
}

// out[(a' b'), (a b)] = factor values[(a' a), (b' b)] (+ out).  A block holds RUN pairs of the first electron and a tile of
// TILE x TILE pairs of the second in shared memory, so that every element is read once and written in runs of 256 bytes.
// Grid: (RUN pairs of a, tiles of b); a packed b has only tiles on and below the diagonal.
extern "C" __global__ void __launch_bounds__(TILE * TILE)
    expand_pairs(const num* __restrict__ values, int na1, int na0, int nb1, int nb0, int packed_a, int packed_b, int lower,
                 real factor, int accumulate, num* __restrict__ out) {
    __shared__ num tile[RUN][TILE][TILE + 1];
    const int x = threadIdx.x % TILE, y = threadIdx.x / TILE;
    const int pairs_a = packed_a ? na0 * (na0 + 1) / 2 : na1 * na0;
    const int pairs_b = packed_b ? nb0 * (nb0 + 1) / 2 : nb1 * nb0;
    int row, column;  // tile of b: larger and smaller function if packed, else b' and b
    if (packed_b) {
        unpack(blockIdx.y, row, column);
    } else {
        const int across = (nb0 + TILE - 1) / TILE;
        row = blockIdx.y / across;
        column = blockIdx.y - row * across;
    }
    // A tile on the diagonal holds n' <= n in its lower half alone; all others hold one order
    // of every pair and are written a second time, transposed.
    const bool diagonal = packed_b && row == column;
    row *= TILE;
    column *= TILE;
    const int i = row + y, j = column + x;
    const bool inside = i < nb1 && j < nb0 && (!packed_b || j <= i);
    const int64 q = packed_b ? (int64)i * (i + 1) / 2 + j : (int64)i * nb0 + j;
    const int first = blockIdx.x * RUN;
    // Stage 1: each thread loads its pair (b', b) for the RUN pairs of the first electron.
    // Above the diagonal of a lower triangle the element across is read, of which RUN
    // neighbours lie in one line. The column of padding in `tile` keeps the transposed reads of
    // stage 2 free of bank conflicts.
    if (inside) {
#pragma unroll
        for (int k = 0; k < RUN; ++k) {
            const int64 p = first + k;
            if (p >= pairs_a) break;
            tile[k][y][x] = scaled(factor, lower && q > p ? values[q * pairs_a + p] : values[p * pairs_b + q]);
        }
    }
    // Stage 2 reads what other threads have loaded.
    __syncthreads();
    for (int k = 0; k < RUN; ++k) {
        const int p = first + k;
        if (p >= pairs_a) break;
        int bra, ket;
        if (packed_a) {
            unpack(p, ket, bra);
        } else {
            bra = p / na0;
            ket = p - bra * na0;
        }
        // Packed pairs stand for (a', a) and (a, a'). No other block writes to these places:
        // the pair belongs to this block by its x index, the tile of b by its y index.
        for (int turn = 0; turn < (packed_a && bra != ket ? 2 : 1); ++turn) {
            const int64 a1 = turn ? ket : bra, a0 = turn ? bra : ket;
            num* base = out + a1 * nb1 * na0 * nb0 + a0 * nb0;  // element (b', b) lies b' na0 nb0 + b further
            // The tile as it lies; above the diagonal of a diagonal tile the value is the one
            // across.
            if (i < nb1 && j < nb0) {
                const num value = diagonal && j > i ? tile[k][x][y] : tile[k][y][x];
                num* place = base + (int64)i * na0 * nb0 + j;
                *place = accumulate ? value + *place : value;
            }
            // The mirrored tile, written by threads in such an order that x runs along the rows
            // of the result.
            if (packed_b && !diagonal) {
                const int b1 = column + y, b0 = row + x;
                if (b1 < nb1 && b0 < nb0) {
                    num* place = base + (int64)b1 * na0 * nb0 + b0;
                    *place = accumulate ? tile[k][x][y] + *place : tile[k][x][y];
                }
            }
        }
    }
}

// out[(a' b'), (a b)] = first[a', a] second[b', b] (+ out), Eq. (20): each element written once.  Grid: (b', a').
extern "C" __global__ void __launch_bounds__(256)
    kronecker_products(const num* __restrict__ first, const num* __restrict__ second, int na0, int nb0, int accumulate,
                       num* __restrict__ out) {
    const int b1 = blockIdx.x, a1 = blockIdx.y, columns = na0 * nb0;
    num* row = out + ((int64)a1 * gridDim.x + b1) * columns;
    for (int j = threadIdx.x; j < columns; j += blockDim.x) {
        const int a0 = j / nb0, b0 = j - a0 * nb0;
        row[j] = fused(first[a1 * na0 + a0], second[b1 * nb0 + b0], accumulate ? row[j] : nothing());
    }
}

// One of the two terms of Eq. (21): out += sum_j outer'(r_j) outer(r_j) w_j g(r_j), g(r_j) = r_j^l int_{r_j}^R inner' inner u^(-l-1) du.
// One block makes one inner integral: its threads do the Simpson sums between neighbouring points, then the sums from the outside
// inwards, Eq. (24) with the power of r_j in front of the whole sum; then each takes its share of the outer sums.  inner: the pair
// of electron a, or with `swapped` the pair of electron b.  Grid: (inner ket, inner bra), blocks of SIDE x SIDE threads.
extern "C" __global__ void __launch_bounds__(SIDE* SIDE)
    simpson_terms(const num* __restrict__ inner1, const num* __restrict__ inner0, const real* __restrict__ fine_weights,
                  const real* __restrict__ weights, const num* __restrict__ outer1, const num* __restrict__ outer0, int points,
                  int fine, int m1, int m0, int swapped, num* __restrict__ out) {
    extern __shared__ __align__(16) unsigned char memory[];
    num* g = (num*)memory;     // (points,)
    num* part = g + points;    // (threads,)
    const int n0 = gridDim.x, n1 = gridDim.y, ket = blockIdx.x, bra = blockIdx.y;
    const int t = threadIdx.x, threads = SIDE * SIDE;
    // Stage 1: the Simpson sum of u^(-l-1) i' i from r_j to r_(j+1), Eq. (23), one interval per
    // thread in turn.
    for (int j = t; j < points; j += threads) {
        num sum = nothing();
        for (int s = 0; s < fine; ++s) {
            const int64 at = (int64)j * fine + s;
            sum = fused(scaled(fine_weights[at], inner1[at * n1 + bra]), inner0[at * n0 + ket], sum);
        }
        g[j] = sum;
    }
    __syncthreads();
    // Stage 2: suffix sums, Eq. (24), in parallel. Each thread adds its own range of intervals,
    // ...
    const int each = (points + threads - 1) / threads, low = min(points, t * each), high = min(points, low + each);
    num sum = nothing();
    for (int j = high - 1; j >= low; --j) sum = sum + g[j];
    part[t] = sum;
    __syncthreads();
    sum = nothing();
    // ... then takes the totals of all ranges outside of its own, the outermost first as in a
    // serial sum, ...
    for (int k = threads - 1; k > t; --k) sum = sum + part[k];
    // ... and goes through its range again, which turns sums of intervals into integrals from
    // r_j to R.
    for (int j = high - 1; j >= low; --j) {
        sum = sum + g[j];
        g[j] = scaled(weights[j], sum);  // w_j r_j^l
    }
    __syncthreads();
    // Stage 3: the outer integrals of all pairs (o', o). Threads that differ in t % SIDE take
    // neighbouring kets, whose values lie next to each other.
    for (int o1 = t / SIDE; o1 < m1; o1 += SIDE)
        for (int o0 = t % SIDE; o0 < m0; o0 += SIDE) {
            num total = nothing();
            for (int j = 0; j < points; ++j) {
                const num both = fused(outer1[(int64)j * m1 + o1], g[j], nothing());
                total = fused(both, outer0[(int64)j * m0 + o0], total);
            }
            const int64 place = swapped ? (((int64)o1 * n1 + bra) * m0 + o0) * n0 + ket  // (a', b', a, b) = (o1, bra, o0, ket)
                                        : (((int64)bra * m1 + o1) * n0 + ket) * m0 + o0;
            // No atomics: an element belongs to one (bra, ket) and one (o', o), hence to one
            // thread of one block.
            out[place] = out[place] + total;
        }
}
