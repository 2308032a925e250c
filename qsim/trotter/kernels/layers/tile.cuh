// A tile of the state in the registers of a block: 2^BITS amplitudes, 16 of a thread; rotations of its bits, in registers, between
// lanes and through shared memory, and products of phases.

#ifndef TILE_CUH
#define TILE_CUH

#ifndef BITS
#define BITS 12  // bits of a tile: 9 to 13
#endif
#ifndef LOW
#define LOW BITS  // of these, the lowest of the state that are not rotated: 2 to BITS - 4; or BITS: the lowest tile, all are rotated
#endif
#define THREADS (1 << (BITS - 4))
#define TOP (BITS - 4)  // lowest register bit of the outer layout
#define ALL (LOW == BITS)
#define LOWEST (ALL ? 0 : LOW)  // bit from which on a tile is rotated

// ------------------------------------------------------------------------------------------------ rotations

template <int R> QSIM_DEVICE void rotate_register(cplx (&v)[16]) {
#pragma unroll
    for (int j = 0; j < 16; ++j)
        if (!(j >> R & 1)) {
            const cplx a = v[j], b = v[j | 1 << R];
            v[j] = a + b;
            v[j | 1 << R] = a - b;
        }
}

QSIM_DEVICE double negated_if(bool negative, double x) {
    return __longlong_as_double(__double_as_longlong(x) ^ (int64)((uint64)negative << 63));
}
QSIM_DEVICE float negated_if(bool negative, float x) { return __int_as_float(__float_as_int(x) ^ (int)((unsigned)negative << 31)); }

// A bit that numbers lanes changes places with one that numbers registers, half of the amplitudes going to the partner, and is rotated.
template <int LANE, int R, bool ROTATE> QSIM_DEVICE void cross(cplx (&v)[16]) {
    const bool down = threadIdx.x >> LANE & 1;
#pragma unroll
    for (int j = 0; j < 16; ++j)
        if (!(j >> R & 1)) {
            const cplx a = v[j], b = v[j | 1 << R], own = down ? b : a, give = down ? a : b;
            const cplx got = {__shfl_xor_sync(QSIM_ALL_LANES, give.re, 1 << LANE), __shfl_xor_sync(QSIM_ALL_LANES, give.im, 1 << LANE)};
            if constexpr (ROTATE) {
                const cplx d = own - got;
                v[j] = own + got;
                v[j | 1 << R] = {negated_if(down, d.re), negated_if(down, d.im)};
            } else {
                v[j] = down ? got : own;
                v[j | 1 << R] = down ? own : got;
            }
        }
}

// Bits beyond the eight that the registers of two layouts hold cross over from the lanes: 8 (tiles of 13 bits) with 5, 3 with 7, 2 with
// 6.
#define CROSS8 (TOP > 8 && LOWEST <= 8)
#define CROSS3 (!ALL && LOWEST <= 3)
#define CROSS2 (!ALL && LOWEST <= 2)

// Layouts: the registers hold the top bits of the tile (outer), bits 4 to 7 (middle), these after crossing (crossed), or bits 0 to 3
// (inner).  Index in the tile of register 0, and the distance to register j.
struct outer {
    QSIM_MEMBER static int first(int t) { return t; }
    QSIM_MEMBER static constexpr int to(int j) { return j << TOP; }
};
struct middle {
    QSIM_MEMBER static int first(int t) { return (t & 15) | (t >> 4) << 8; }
    QSIM_MEMBER static constexpr int to(int j) { return j << 4; }
};
struct crossed {
    QSIM_MEMBER static int first(int t) {
        int i = (t & 3) | (t >> 5) << 9;
        i |= (t >> 2 & 1) << (CROSS2 ? 6 : 2) | (t >> 3 & 1) << (CROSS3 ? 7 : 3) | (t >> 4 & 1) << (CROSS8 ? 5 : 8);
        return i;
    }
    QSIM_MEMBER static constexpr int to(int j) {
        return (j & 1) << 4 | (j >> 1 & 1) << (CROSS8 ? 8 : 5) | (j >> 2 & 1) << (CROSS2 ? 2 : 6) | (j >> 3) << (CROSS3 ? 3 : 7);
    }
};
struct inner {
    QSIM_MEMBER static int first(int t) { return t << 4; }
    QSIM_MEMBER static constexpr int to(int j) { return j; }
};

// Rotate the bits that a layout reaches.
QSIM_DEVICE void rotate_outer(cplx (&v)[16]) {
    if constexpr (TOP >= 8 && TOP >= LOWEST) rotate_register<0>(v);
    if constexpr (TOP + 1 >= 8 && TOP + 1 >= LOWEST) rotate_register<1>(v);
    if constexpr (TOP + 2 >= 8 && TOP + 2 >= LOWEST) rotate_register<2>(v);
    if constexpr (TOP + 3 >= LOWEST) rotate_register<3>(v);
}
// From the middle layout to the crossed one.
template <bool ROTATE> QSIM_DEVICE void cross_over(cplx (&v)[16]) {
    if constexpr (ROTATE) {
        if constexpr (4 >= LOWEST) rotate_register<0>(v);
        if constexpr (5 >= LOWEST) rotate_register<1>(v);
        if constexpr (6 >= LOWEST) rotate_register<2>(v);
        if constexpr (7 >= LOWEST) rotate_register<3>(v);
    }
    if constexpr (CROSS8) cross<4, 1, ROTATE>(v);
    if constexpr (CROSS2) cross<2, 2, ROTATE>(v);
    if constexpr (CROSS3) cross<3, 3, ROTATE>(v);
}
// And back.
template <bool ROTATE> QSIM_DEVICE void cross_back(cplx (&v)[16]) {
    if constexpr (ROTATE) {
        if constexpr (4 >= LOWEST) rotate_register<0>(v);
        if constexpr (CROSS8 || 5 >= LOWEST) rotate_register<1>(v);
        if constexpr (CROSS2 || 6 >= LOWEST) rotate_register<2>(v);
        if constexpr (CROSS3 || 7 >= LOWEST) rotate_register<3>(v);
    }
    if constexpr (CROSS8) cross<4, 1, ROTATE && 5 >= LOWEST>(v);
    if constexpr (CROSS2) cross<2, 2, ROTATE>(v);
    if constexpr (CROSS3) cross<3, 3, ROTATE>(v);
}
QSIM_DEVICE void rotate_inner(cplx (&v)[16]) {
    rotate_register<0>(v);
    rotate_register<1>(v);
    rotate_register<2>(v);
    rotate_register<3>(v);
}

// The tile in shared memory, with a gap after every 16 amplitudes: no bank conflicts in any layout.  A thread puts where it got last,
// so that it need not wait for others before.  A warp holds the same
// amplitudes in the middle layout, after crossing, and in the inner one.
struct Tile {
    cplx* s;

    template <typename Layout> QSIM_MEMBER void put(const cplx (&v)[16]) const {
        const int i = Layout::first(threadIdx.x);
        cplx* at = s + i + (i >> 4);
#pragma unroll
        for (int j = 0; j < 16; ++j) at[Layout::to(j) + Layout::to(j) / 16] = v[j];
    }
    template <typename Layout> QSIM_MEMBER void get(cplx (&v)[16]) const {
        const int i = Layout::first(threadIdx.x);
        const cplx* at = s + i + (i >> 4);
#pragma unroll
        for (int j = 0; j < 16; ++j) v[j] = at[Layout::to(j) + Layout::to(j) / 16];
    }
};

// From the outer layout to the layout of the phases: the inner one of the lowest tile, the crossed one of others.
template <bool ROTATE> QSIM_DEVICE void go_in(const Tile& tile, cplx (&v)[16]) {
    if constexpr (ROTATE) rotate_outer(v);
    tile.put<outer>(v);
    __syncthreads();
    tile.get<middle>(v);
    cross_over<ROTATE>(v);
    if constexpr (ALL) {
        tile.put<crossed>(v);
        __syncwarp();
        tile.get<inner>(v);
        if constexpr (ROTATE) rotate_inner(v);
    }
}
// And back.
template <bool ROTATE> QSIM_DEVICE void go_out(const Tile& tile, cplx (&v)[16]) {
    if constexpr (ALL) {
        if constexpr (ROTATE) rotate_inner(v);
        tile.put<inner>(v);
        __syncwarp();
        tile.get<middle>(v);
        cross_over<ROTATE>(v);
        tile.put<crossed>(v);
    } else {
        cross_back<ROTATE>(v);
        tile.put<middle>(v);
    }
    __syncthreads();
    tile.get<outer>(v);
    if constexpr (ROTATE) rotate_outer(v);
}

// ------------------------------------------------------------------------------------------------ tables
// Energies from couplings within a tile, as a table: (THREADS) of the thread's bits, (4, THREADS) their fields on the register bits,
// (16) of the register bits; which bits these are, `layout` of tables.py knows, too.

#define TABLE (5 * THREADS + 16)

// Multiply amplitude j by the product of w, of flip[r] for every set bit r of j, and of inside[j]; depth first, so that only
// one product a level is alive.
template <int R, int J> QSIM_DEVICE void multiply(cplx (&v)[16], const cplx (&flip)[4], const cplx* inside, cplx w) {
    if constexpr (R < 0) {
        v[J] = v[J] * (w * inside[J]);
    } else {
        multiply<R - 1, J>(v, flip, inside, w);
        multiply<R - 1, J | 1 << R>(v, flip, inside, w * flip[R]);
    }
}

#endif  // TILE_CUH
