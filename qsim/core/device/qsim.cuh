// Common device code of qsim: real and complex numbers, reductions in a fixed order, random numbers.
//
// Compiled by NVRTC, so no header of the C++ library is included.  The working precision is a macro:
// -DREAL=float or -DREAL=double (default).  Kernels are extern "C"; templates stay inside device code.

#ifndef QSIM_CUH
#define QSIM_CUH

#ifndef REAL
#define REAL double
#endif

typedef REAL real;
#define REAL_INFINITY ((real)__longlong_as_double(0x7ff0000000000000ll))
typedef unsigned int uint32;
typedef unsigned long long uint64;
typedef long long int64;

#define QSIM_DEVICE static __device__ __forceinline__
#define QSIM_MEMBER __device__ __forceinline__

// ------------------------------------------------------------------------------------- complex numbers
// Same layout as numpy's complex64 and complex128; the alignment makes loads and stores single instructions.

template <typename T>
struct __align__(2 * sizeof(T)) complex_of {
    T re, im;
};

typedef complex_of<real> cplx;

QSIM_DEVICE cplx make_cplx(real re, real im) { return {re, im}; }

template <typename T> QSIM_DEVICE complex_of<T> operator+(complex_of<T> a, complex_of<T> b) {
    return {a.re + b.re, a.im + b.im};
}
template <typename T> QSIM_DEVICE complex_of<T> operator-(complex_of<T> a, complex_of<T> b) {
    return {a.re - b.re, a.im - b.im};
}
template <typename T> QSIM_DEVICE complex_of<T> operator-(complex_of<T> a) { return {-a.re, -a.im}; }
template <typename T> QSIM_DEVICE complex_of<T> operator*(complex_of<T> a, complex_of<T> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <typename T> QSIM_DEVICE complex_of<T>& operator+=(complex_of<T>& a, complex_of<T> b) { return a = a + b; }
template <typename T> QSIM_DEVICE complex_of<T>& operator-=(complex_of<T>& a, complex_of<T> b) { return a = a - b; }
template <typename T> QSIM_DEVICE complex_of<T>& operator*=(complex_of<T>& a, complex_of<T> b) { return a = a * b; }

// The real factor takes the type of the complex one, so that 2 * z and 0.5 * z work in both precisions.
template <typename T> struct same_type { typedef T type; };
template <typename T> QSIM_DEVICE complex_of<T> operator*(typename same_type<T>::type s, complex_of<T> a) {
    return {s * a.re, s * a.im};
}
template <typename T> QSIM_DEVICE complex_of<T> operator*(complex_of<T> a, typename same_type<T>::type s) {
    return {s * a.re, s * a.im};
}

// a * b + c in four fused operations
template <typename T> QSIM_DEVICE complex_of<T> cfma(complex_of<T> a, complex_of<T> b, complex_of<T> c) {
    return {fma(a.re, b.re, fma(-a.im, b.im, c.re)), fma(a.re, b.im, fma(a.im, b.re, c.im))};
}
// s * b + c with a real factor, in two
template <typename T>
QSIM_DEVICE complex_of<T> cfma(typename same_type<T>::type s, complex_of<T> b, complex_of<T> c) {
    return {fma(s, b.re, c.re), fma(s, b.im, c.im)};
}
template <typename T> QSIM_DEVICE complex_of<T> conj(complex_of<T> a) { return {a.re, -a.im}; }
template <typename T> QSIM_DEVICE complex_of<T> times_i(complex_of<T> a) { return {-a.im, a.re}; }
template <typename T> QSIM_DEVICE T abs2(complex_of<T> a) { return fma(a.re, a.re, a.im * a.im); }

// 1 / a.  Exact to rounding while |a|^2 neither overflows nor underflows (1e-154 < |a| < 1e154 in double).
template <typename T> QSIM_DEVICE complex_of<T> reciprocal(complex_of<T> a) {
    T s = T(1) / abs2(a);
    return {a.re * s, -a.im * s};
}
template <typename T> QSIM_DEVICE complex_of<T> operator/(complex_of<T> a, complex_of<T> b) {
    return a * reciprocal(b);
}

// exp(i * phase)
QSIM_DEVICE complex_of<double> expi(double phase) {
    complex_of<double> z;
    sincos(phase, &z.im, &z.re);
    return z;
}
QSIM_DEVICE complex_of<float> expi(float phase) {
    complex_of<float> z;
    sincosf(phase, &z.im, &z.re);
    return z;
}

// ----------------------------------------------------------------------------------------- reductions
// Order of summation is fixed, so a result depends on the launch shape but never on the run.  Blocks are
// one-dimensional multiples of 32 threads, and every thread of the block must take part.

#define QSIM_WARP 32
#define QSIM_ALL_LANES 0xffffffffu

template <typename T> QSIM_DEVICE T shift_down(T value, int lanes) {
    return __shfl_down_sync(QSIM_ALL_LANES, value, lanes);
}
template <typename T> QSIM_DEVICE complex_of<T> shift_down(complex_of<T> value, int lanes) {
    return {shift_down(value.re, lanes), shift_down(value.im, lanes)};
}

struct add_values {
    template <typename T> QSIM_MEMBER T operator()(T a, T b) const { return a + b; }
};
struct larger_value {
    template <typename T> QSIM_MEMBER T operator()(T a, T b) const { return a > b ? a : b; }
};

// Lane 0 holds the result.
template <typename T, typename Op> QSIM_DEVICE T warp_reduce(T value, Op op) {
    // Halves: 16 + 8 + 4 + 2 + 1, always in this order, so that the sum of a warp has the same
    // bits in every run.
#pragma unroll
    for (int lanes = QSIM_WARP / 2; lanes > 0; lanes /= 2) value = op(value, shift_down(value, lanes));
    return value;
}

// Every thread holds the result.  scratch: 32 values in shared memory; the next reduction may use them again at once.
template <typename T, typename Op> QSIM_DEVICE T block_reduce(T value, T* scratch, T neutral, Op op) {
    int lane = threadIdx.x % QSIM_WARP, warp = threadIdx.x / QSIM_WARP, warps = blockDim.x / QSIM_WARP;
    // Sums of warps first, in registers; then one warp adds these sums in the same way.
    value = warp_reduce(value, op);
    // Three barriers: the scratch is free again; the sums of all warps are in it; the result is
    // there for every thread.
    __syncthreads();  // all have read the result of the reduction before
    if (lane == 0) scratch[warp] = value;
    __syncthreads();
    if (warp == 0) {
        value = warp_reduce(lane < warps ? scratch[lane] : neutral, op);
        if (lane == 0) scratch[0] = value;
    }
    __syncthreads();
    return scratch[0];
}

template <typename T> QSIM_DEVICE T warp_sum(T value) { return warp_reduce(value, add_values()); }
template <typename T> QSIM_DEVICE T warp_max(T value) { return warp_reduce(value, larger_value()); }
template <typename T> QSIM_DEVICE T block_sum(T value, T* scratch) {
    return block_reduce(value, scratch, T(), add_values());
}
// neutral: a value that none is below, such as -REAL_INFINITY
template <typename T> QSIM_DEVICE T block_max(T value, T* scratch, T neutral) {
    return block_reduce(value, scratch, neutral, larger_value());
}

// -------------------------------------------------------------------------------------- random numbers
// Philox4x32-10; counter = (step, index, pair, stream).  Same bits as qsim/core/device/rng.py.

QSIM_DEVICE uint4 philox4x32(uint4 c, uint2 k) {
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        uint32 high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
        uint32 high1 = __umulhi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
        c = make_uint4(high1 ^ c.y ^ k.x, low1, high0 ^ c.w ^ k.y, low0);
        k.x += 0x9E3779B9u;
        k.y += 0xBB67AE85u;
    }
    return c;
}

// (k + 1/2) / 2^52 with the upper 52 bits k of two words: never 0 or 1.
QSIM_DEVICE double to_unit(uint32 low, uint32 high) {
    uint64 bits = (((uint64)high << 32) | low) >> 12;
    return (double)bits * 0x1p-52 + 0x1p-53;
}

// Uniforms of draws 2 * pair and 2 * pair + 1.
QSIM_DEVICE double2 uniform2(uint2 key, uint32 stream, uint32 step, uint32 index, uint32 pair) {
    uint4 w = philox4x32(make_uint4(step, index, pair, stream), key);
    return make_double2(to_unit(w.x, w.y), to_unit(w.z, w.w));
}

// Normals of draws 2 * pair and 2 * pair + 1, by Box and Muller.
QSIM_DEVICE double2 normal2(uint2 key, uint32 stream, uint32 step, uint32 index, uint32 pair) {
    double2 u = uniform2(key, stream, step, index, pair);
    double radius = sqrt(-2.0 * log(u.x)), s, c;
    sincos(6.283185307179586 * u.y, &s, &c);
    return make_double2(radius * c, radius * s);
}

#endif  // QSIM_CUH
