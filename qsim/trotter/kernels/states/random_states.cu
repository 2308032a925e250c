// Random amplitudes of initial states: each depends on seed, member and its own index only, to the last bit, on every device.
//
// Counter of Philox: (member, low word of the index, high word of the index, STREAM).  Its two uniforms u, v give the random phase
// exp(2 pi i u), or the normal amplitude sqrt(-log u) exp(2 pi i v), whose squared size has mean 1.  Sine, cosine and logarithm are
// polynomials here, in operations that are rounded one by one (never fused), since libraries differ in the last bit; they are
// correct to 2 rounding units.  Amplitudes are made in double precision and rounded once.
//
// The norm of normal amplitudes is needed before they are written: normal_sums makes them once more and stores nothing but the
// sum of each run of SUM_RUN, in their order.  Bytes per amplitude: 16 written (double); about 120 instructions.
#include "qsim.cuh"

#define STREAM 0x57A7E001u
#define SUM_RUN 1024

QSIM_DEVICE double mul(double a, double b) { return __dmul_rn(a, b); }
QSIM_DEVICE double add(double a, double b) { return __dadd_rn(a, b); }

// exp(2 pi i u) for 0 <= u <= 1: the quarter turn nearest to u, and series on what is left, at most pi / 4.
QSIM_DEVICE complex_of<double> turn(double u) {
    double quarters = mul(4.0, u), nearest = floor(add(quarters, 0.5));
    double x = mul(add(quarters, -nearest), 1.5707963267948966), z = mul(x, x);
    double s = 2.8114572543455206e-15;  // 1 / 17!
    s = add(mul(s, z), -7.6471637318198164e-13);
    s = add(mul(s, z), 1.6059043836821613e-10);
    s = add(mul(s, z), -2.5052108385441720e-08);
    s = add(mul(s, z), 2.7557319223985893e-06);
    s = add(mul(s, z), -1.9841269841269841e-04);
    s = add(mul(s, z), 8.3333333333333332e-03);
    s = add(mul(s, z), -1.6666666666666666e-01);
    s = add(x, mul(x, mul(z, s)));
    double c = 4.7794773323873853e-14;  // 1 / 16!
    c = add(mul(c, z), -1.1470745597729725e-11);
    c = add(mul(c, z), 2.0876756987868100e-09);
    c = add(mul(c, z), -2.7557319223985888e-07);
    c = add(mul(c, z), 2.4801587301587302e-05);
    c = add(mul(c, z), -1.3888888888888889e-03);
    c = add(mul(c, z), 4.1666666666666664e-02);
    c = add(mul(c, z), -0.5);
    c = add(1.0, mul(z, c));
    switch ((int)nearest & 3) {
        case 0: return {c, s};
        case 1: return {-s, c};
        case 2: return {-c, -s};
        default: return {s, -c};
    }
}

// -log u for 0 < u < 1: u = m 2^e with sqrt(1/2) <= m < sqrt 2, log m = 2 artanh((m - 1) / (m + 1)).
QSIM_DEVICE double minus_log(double u) {
    int e;
    double m = frexp(u, &e);
    if (m < 0.70710678118654752) {
        m = mul(2.0, m);
        e -= 1;
    }
    double t = __ddiv_rn(add(m, -1.0), add(m, 1.0)), z = mul(t, t), p = 1.0 / 23.0;
#pragma unroll
    for (int k = 10; k >= 1; --k) p = add(mul(p, z), __ddiv_rn(1.0, 2.0 * k + 1.0));
    double log_m = mul(mul(2.0, t), add(1.0, mul(z, p)));
    return -add(mul((double)e, 0.69314718055994531), log_m);
}

QSIM_DEVICE uint64 splitmix64(uint64 x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

QSIM_DEVICE double2 uniforms(uint64 key, uint32 member, uint64 index) {
    return uniform2(make_uint2((uint32)key, (uint32)(key >> 32)), STREAM, member, (uint32)index, (uint32)(index >> 32));
}

// psi[n] = scale exp(2 pi i u) of index first + n, zero where a bit of mask is set.  generator 0: Philox with key; 1: splitmix64 with the base
// seed 0x100000001 in key.
extern "C" __global__ void random_phases(cplx* psi, int64 count, uint64 key, uint32 member, int generator, uint64 mask, double scale,
                                         int64 first) {
    for (int64 n = blockIdx.x * (int64)blockDim.x + threadIdx.x; n < count; n += (int64)gridDim.x * blockDim.x) {
        const uint64 index = (uint64)(first + n);
        if (index & mask) {
            psi[n] = make_cplx((real)0, (real)0);
            continue;
        }
        double u = generator ? (double)(splitmix64(key + index) >> 11) * 0x1p-53 : uniforms(key, member, index).x;
        complex_of<double> z = turn(u);
        psi[n] = make_cplx((real)mul(scale, z.re), (real)mul(scale, z.im));
    }
}

// psi[n] = scale sqrt(-log u) exp(2 pi i v) of index first + n
extern "C" __global__ void random_normals(cplx* psi, int64 count, uint64 key, uint32 member, double scale, int64 first) {
    for (int64 n = blockIdx.x * (int64)blockDim.x + threadIdx.x; n < count; n += (int64)gridDim.x * blockDim.x) {
        double2 u = uniforms(key, member, (uint64)(first + n));
        double size = mul(scale, __dsqrt_rn(minus_log(u.x)));
        complex_of<double> z = turn(u.y);
        psi[n] = make_cplx((real)mul(size, z.re), (real)mul(size, z.im));
    }
}

// sums[r] = sum of -log u over n = r SUM_RUN ... (r + 1) SUM_RUN - 1, in this order
extern "C" __global__ void normal_sums(double* sums, int64 count, uint64 key, uint32 member) {
    int64 runs = (count + SUM_RUN - 1) / SUM_RUN;
    for (int64 r = blockIdx.x * (int64)blockDim.x + threadIdx.x; r < runs; r += (int64)gridDim.x * blockDim.x) {
        double sum = 0.0;
        int64 last = (r + 1) * SUM_RUN < count ? (r + 1) * SUM_RUN : count;
        for (int64 n = r * SUM_RUN; n < last; ++n) sum = add(sum, minus_log(uniforms(key, member, n).x));
        sums[r] = sum;
    }
}
