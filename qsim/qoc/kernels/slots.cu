// Columns under a generator that is constant in each slot: a Taylor sum per slot and its exact derivative, all slots in one launch.
//
// A team of TEAM threads carries a group of columns of one member; a block of at least a warp holds as many teams as fit.
// A thread owns elements (row, column) of the block of columns.  A of the slot is put together in shared memory, a product is
// one barrier: every thread reads the columns of the product before, which stay in a second buffer meanwhile.  The adjoint
// product goes along a pattern of its own, row by row, so that nothing is added by several threads.
//
// qsim-compile: -DTEAM=8
// qsim-compile: -DTEAM=32
// qsim-compile: -DTEAM=256
#include "qsim.cuh"

#ifndef TEAM
#define TEAM 16
#endif
#define THREADS (TEAM < 32 ? 32 : TEAM)
#define TEAMS (THREADS / TEAM)
#define BLOCKS (THREADS > 128 ? 2 : THREADS > 32 ? 4 : 16)  // at once on a multiprocessor: 128 registers a thread

__device__ __forceinline__ void together() {
    if (THREADS == 32) __syncwarp();
    else __syncthreads();
}

struct Sizes {
    int members, rows, entries, columns, controls, slots, terms, parts, group, shift, table, outside;
};

// The pattern of A and of its adjoint, and the arrays of one team in shared memory.
struct Room {
    const int *start, *column, *row, *back_start, *back_row, *back_entry;
    cplx *a, *k, *x, *v, *w, *sums, *powers;
    const cplx* values;
    int lane, member, first, width, elements, pitch;
    bool on;

    __device__ __forceinline__ Room(const int* packed, const cplx* matrices, const Sizes& n, unsigned char* raw) {
        const int team = threadIdx.x / TEAM;
        lane = threadIdx.x % TEAM;
        member = blockIdx.x * TEAMS + team;
        on = member < n.members;
        if (!on) member = n.members - 1;  // works along, so that barriers are met, and writes nothing
        first = blockIdx.y * n.group;
        width = n.columns - first < n.group ? n.columns - first : n.group;
        pitch = 1 << n.shift;
        elements = n.rows << n.shift;
        int* integers = reinterpret_cast<int*>(raw);
        const int count = 2 * (n.rows + 1) + 4 * n.entries;
        for (int i = threadIdx.x; i < count; i += THREADS) integers[i] = packed[i];
        start = integers;
        column = start + n.rows + 1;
        row = column + n.entries;
        back_start = row + n.entries;
        back_row = back_start + n.rows + 1;
        back_entry = back_row + n.entries;
        const int table = n.table ? (n.controls + 1) * n.entries : 0;
        cplx* own = reinterpret_cast<cplx*>(raw + (4 * count + 15) / 16 * 16);
        own += (size_t)team * (2 * n.entries + 3 * elements + TEAM + table);
        a = own;
        k = a + n.entries;
        x = k + n.entries;
        v = x + elements;
        w = v + elements;
        sums = w + elements;
        cplx* kept = sums + TEAM;
        values = matrices + (size_t)member * (n.controls + 1) * n.entries;
        if (n.table) {
            for (int i = lane; i < table; i += TEAM) kept[i] = values[i];
            values = kept;
        }
        // behind the arrays of all teams
        cplx* behind = reinterpret_cast<cplx*>(raw + (4 * count + 15) / 16 * 16);
        behind += (size_t)TEAMS * (2 * n.entries + 3 * elements + TEAM + table);
        powers = behind + (size_t)team * n.terms * elements;
        together();
    }

    // tau (A0 + sum_c f_c A_c) of slot j
    __device__ __forceinline__ void assemble(const real* factors, int j, real tau, const Sizes& n) {
        for (int e = lane; e < n.entries; e += TEAM) {
            cplx z = values[e];
            for (int c = 0; c < n.controls; ++c)
                z = cfma(factors[(size_t)c * n.slots + j], values[(size_t)(c + 1) * n.entries + e], z);
            a[e] = tau * z;
        }
    }

    // element i of A from
    __device__ __forceinline__ cplx product(const cplx* from, int i, int shift) const {
        const int r = i >> shift, s = i & (pitch - 1);
        cplx sum = {0, 0};
#pragma unroll 2
        for (int e = start[r]; e < start[r + 1]; ++e) sum = cfma(a[e], from[(column[e] << shift) + s], sum);
        return sum;
    }

    // element i of A+ from, added to sum
    __device__ __forceinline__ cplx adjoint(const cplx* from, int i, int shift, cplx sum) const {
        const int r = i >> shift, s = i & (pitch - 1);
#pragma unroll 2
        for (int e = back_start[r]; e < back_start[r + 1]; ++e)
            sum = cfma(conj(a[back_entry[e]]), from[(back_row[e] << shift) + s], sum);
        return sum;
    }

    // columns of this group from an array (D, 2 S), real parts first; the rest of the pitch is zero
    __device__ __forceinline__ cplx load(const real* from, int i, const Sizes& n) const {
        const int r = i >> n.shift, s = i & (pitch - 1);
        if (s >= width) return {0, 0};
        const real* line = from + (size_t)r * 2 * n.columns + first + s;
        return {line[0], line[n.columns]};
    }

    __device__ __forceinline__ void store(real* to, int i, cplx z, const Sizes& n) const {
        const int r = i >> n.shift, s = i & (pitch - 1);
        if (!on || s >= width) return;
        real* line = to + (size_t)r * 2 * n.columns + first + s;
        line[0] = z.re;
        line[n.columns] = z.im;
    }
};

#define SIZES                                                                                                       \
    int members, int rows, int entries, int columns, int controls, int slots, int terms, int parts, int group, int shift, \
        int table, int outside
#define GIVEN {members, rows, entries, columns, controls, slots, terms, parts, group, shift, table, outside}

// packed: both patterns; values (M, C + 1, E); factors (C, N); x (M, D, 2 S) in/out; trajectory (M, N parts, D, 2 S) out
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
slot_forward(const int* packed, const cplx* values, const real* factors, real tau, real* x, real* trajectory, int keep, SIZES) {
    extern __shared__ __align__(16) unsigned char raw[];
    const Sizes n = GIVEN;
    Room room(packed, values, n, raw);
    const size_t size = (size_t)rows * 2 * columns;
    x += room.member * size;
    trajectory += room.member * size * slots * parts * keep;
    for (int i = room.lane; i < room.elements; i += TEAM) room.x[i] = room.load(x, i, n);
    for (int j = 0; j < slots; ++j) {
        room.assemble(factors, j, tau, n);
        for (int part = 0; part < parts; ++part) {
            real* kept = trajectory + (size_t)(j * parts + part) * size;
            cplx *from = room.v, *to = room.w;
            for (int i = room.lane; i < room.elements; i += TEAM) {
                from[i] = room.x[i];
                if (keep) room.store(kept, i, room.x[i], n);
            }
            together();
            // x <- sum_k A^k x / k!, the k-th term from the one before
            for (int k = 1; k <= terms; ++k) {
                const real inverse = real(1) / real(k);
                for (int i = room.lane; i < room.elements; i += TEAM) {
                    to[i] = inverse * room.product(from, i, shift);
                    room.x[i] += to[i];
                }
                together();
                cplx* other = from;
                from = to;
                to = other;
            }
        }
    }
    for (int i = room.lane; i < room.elements; i += TEAM) room.store(x, i, room.x[i], n);
}

// K += conj(mu) x^T, summed over the columns of the group, on the pattern; a thread owns entries
__device__ __forceinline__ void outer(const Room& room, const cplx* mu, const cplx* x, const Sizes& n) {
    for (int e = room.lane; e < n.entries; e += TEAM) {
        const cplx *left = mu + (room.row[e] << n.shift), *right = x + (room.column[e] << n.shift);
        cplx sum = room.k[e];
#pragma unroll 2
        for (int s = 0; s < room.width; ++s) sum = cfma(conj(left[s]), right[s], sum);
        room.k[e] = sum;
    }
}

// dJ/df_c = 2 Re (tau sum_e K_e A_c,e): several threads per control, then one, always in the same order
__device__ __forceinline__ void derivatives(const Room& room, real tau, int j, real* gradient, const Sizes& n) {
    const int shares = n.controls < TEAM ? TEAM / n.controls : 1;
    for (int base = 0; base < n.controls; base += TEAM) {
        const int c = base + room.lane / shares;
        real sum = 0;
        if (c < n.controls) {
            const cplx* matrix = room.values + (size_t)(c + 1) * n.entries;
            for (int e = room.lane % shares; e < n.entries; e += shares)
                sum += fma(room.k[e].re, matrix[e].re, -room.k[e].im * matrix[e].im);
        }
        room.sums[room.lane].re = sum;
        together();
        const int own = base + room.lane;
        if (own < n.controls && room.lane * shares < TEAM) {
            real total = 0;
            for (int p = 0; p < shares; ++p) total += room.sums[room.lane * shares + p].re;
            if (room.on) gradient[(size_t)own * n.slots + j] = 2 * tau * total;
        }
        together();
    }
}

// lam (M, D, 2 S) in/out; trajectory (M, N parts, D, 2 S); gradient (M, groups, C, N) out; scratch: A^j x of all blocks
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
slot_backward(const int* packed, const cplx* values, const real* factors, real tau, real* lam, const real* trajectory,
              real* gradient, cplx* scratch, SIZES) {
    extern __shared__ __align__(16) unsigned char raw[];
    const Sizes n = GIVEN;
    Room room(packed, values, n, raw);
    const size_t size = (size_t)rows * 2 * columns;
    lam += room.member * size;
    trajectory += room.member * size * slots * parts;
    gradient += ((size_t)room.member * gridDim.y + blockIdx.y) * controls * slots;
    if (outside) {
        const size_t block = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
        room.powers = scratch + (block * TEAMS + threadIdx.x / TEAM) * terms * room.elements;
    }
    real last = 1;
    for (int k = 1; k <= terms; ++k) last /= real(k);
    for (int i = room.lane; i < room.elements; i += TEAM) room.x[i] = room.load(lam, i, n);
    for (int j = slots - 1; j >= 0; --j) {
        room.assemble(factors, j, tau, n);
        for (int e = room.lane; e < entries; e += TEAM) room.k[e] = {0, 0};
        for (int part = parts - 1; part >= 0; --part) {
            const real* kept = trajectory + (size_t)(j * parts + part) * size;
            for (int i = room.lane; i < room.elements; i += TEAM) room.powers[i] = room.load(kept, i, n);
            together();
            for (int k = 1; k < terms; ++k) {
                const cplx* before = room.powers + (size_t)(k - 1) * room.elements;
                for (int i = room.lane; i < room.elements; i += TEAM)
                    room.powers[(size_t)k * room.elements + i] = room.product(before, i, shift);
                together();
            }
            // Horner's scheme backwards: mu_{m-1} = lam/m!, mu_{j-1} = A+ mu_j + lam/j!
            real inverse = last;
            cplx *mu = room.v, *next = room.w;
            for (int i = room.lane; i < room.elements; i += TEAM) mu[i] = inverse * room.x[i];
            together();
            for (int k = terms - 1; k >= 0; --k) {
                outer(room, mu, room.powers + (size_t)k * room.elements, n);
                inverse *= real(k + 1);
                for (int i = room.lane; i < room.elements; i += TEAM)
                    next[i] = room.adjoint(mu, i, shift, inverse * room.x[i]);
                together();
                cplx* other = mu;
                mu = next;
                next = other;
            }
            // at k = 0 this is the costate at the start of the part: lam/0! + A+ mu_0
            for (int i = room.lane; i < room.elements; i += TEAM) room.x[i] = mu[i];
        }
        derivatives(room, tau, j, gradient, n);
    }
    for (int i = room.lane; i < room.elements; i += TEAM) room.store(lam, i, room.x[i], n);
}
