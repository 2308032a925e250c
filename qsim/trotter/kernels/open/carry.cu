// Quantum trajectories of small systems, one block each: steps, norm, times of jumps, jumps and random numbers without leaving the
// chip, until the next output.
//
// A step is a sequence of layers exp(-tau (i E_a + G_a)), E_a the energies of the couplings and fields along axis a, G_a half of the
// rates of the jumps, between Hadamard rotations of all spins; (-i)^(spins down) beside them makes y of x.  The time of a jump is
// that of qsim/trotter/evolve/open/carrier.py, its twin: a cubic through ln ||psi||^2 and its slopes at both ends of the step in
// which the norm fell below the random number, one step back from the end, and steps of Newton.  Blocks share nothing, so that the
// bits of a trajectory do not depend on the others.
//
// FP64 instructions an amplitude and layer: 2 BITS (additions) + 30.
//
// qsim-compile: may-spill=carry
// qsim-compile: -DREAL=double -DBITS=12 -DLOW=12
// qsim-compile: -DREAL=double -DBITS=9 -DLOW=9
#include "qsim.cuh"
#include "../layers/tile.cuh"

#define NEWTON 12        // steps of a jump at most
#define CLOSE 1e-12      // of the logarithm of the norm at a jump
#define AGAIN 1          // status: the records are full
#define NO_RATE 2        // status: no jump has a rate where the norm has fallen

struct Energy {  // of H, and half of the rate of the jumps
    double e, g;
};

struct Stage {  // of a step
    double share, shift, scale;  // time over that of the step, half turns of a spin down, factor
    int axis, rotate;            // rotation before
};

struct Jump {  // of one spin: <up|L|down>, <down|L|up>, <up|L|up>
    cplx up, down, z;
};

struct System {
    const Energy *fields, *tables;  // (realisations, 3, BITS), (realisations, 3, TABLE)
    const double* decay;            // (2^BITS) half of the rate of the jumps along z
    const Stage* stages;
    const Jump* jumps;  // (channels, spins)
    const int* sites;   // (channels) -1 of several
    int count, channels, spins, plain;
};

// exp(-tau (i e + g)) exp(i pi shift)
QSIM_DEVICE cplx decayed(Energy x, double tau, double shift) {
    double s, c;
    sincospi(fma(-tau * 0.3183098861837907, x.e, shift), &s, &c);
    const double r = exp(-tau * x.g);
    return {r * c, r * s};
}
QSIM_DEVICE Energy added(Energy a, double s, Energy b) { return {fma(s, b.e, a.e), fma(s, b.g, a.g)}; }

// Multiply the amplitudes by the exponential of a layer; inner layout.
QSIM_DEVICE void apply_layer(cplx (&v)[16], const Energy* fields, const Energy* table, const cplx* inside, const Stage& stage,
                             double tau) {
    const int t = threadIdx.x;
    Energy all = table[t];
#pragma unroll
    for (int b = 4; b < BITS; ++b) all = added(all, t >> (b - 4) & 1 ? -0.5 : 0.5, fields[b]);
    cplx flip[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        const Energy f = added(table[(1 + r) * THREADS + t], 1.0, fields[r]);
        all = added(all, 0.5, f);
        flip[r] = decayed({-f.e, -f.g}, tau, stage.shift);
    }
    multiply<3, 0>(v, flip, inside, stage.scale * decayed(all, tau, stage.shift * (double)__popc(t)));
}

// A step; outer layout.  fields: (3, BITS) and inside: (16), in shared memory.
QSIM_DEVICE void make_step(cplx (&v)[16], const Tile& tile, const System& system, const Energy* tables, const Energy* fields,
                           cplx* inside, double dt) {
    const int t = threadIdx.x;
    for (int k = 0; k < system.count; ++k) {
        const Stage stage = system.stages[k];
        const Energy* table = tables + stage.axis * TABLE;
        const double tau = stage.share * dt;
        // all have read the numbers of the layer before; barriers of go_in make these visible
        if (t < 16) inside[t] = decayed(table[5 * THREADS + t], tau, 0.0);
        if (stage.rotate) go_in<true>(tile, v);
        else go_in<false>(tile, v);
        apply_layer(v, fields + stage.axis * BITS, table, inside, stage, tau);
        go_out<false>(tile, v);
    }
}

// Norm squared, and the rate of all jumps along z times it.
QSIM_DEVICE cplx weight(const cplx (&v)[16], const double* decay, cplx* scratch) {
    cplx sum = {0, 0};
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        const double p = abs2(v[j]);
        sum = {sum.re + p, fma(2.0 * p, decay[j << TOP | threadIdx.x], sum.im)};
    }
    return block_sum(sum, scratch);
}

// L psi of a channel; the state lies in the tile.  Outer layout.
QSIM_DEVICE void apply_jump(const cplx (&v)[16], const Tile& tile, const System& system, int channel, cplx (&out)[16]) {
    const int site = system.sites[channel], first = site < 0 ? 0 : site, last = site < 0 ? system.spins : site + 1;
#pragma unroll
    for (int j = 0; j < 16; ++j) out[j] = {0, 0};
    for (int b = first; b < last; ++b) {
        const Jump L = system.jumps[channel * system.spins + b];
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            const int i = j << TOP | threadIdx.x, other = i ^ 1 << b;
            const bool down = i >> b & 1;
            out[j] = cfma(down ? -L.z : L.z, v[j], cfma(down ? L.down : L.up, tile.s[other + (other >> 4)], out[j]));
        }
    }
}
QSIM_DEVICE double norm_of(const cplx (&v)[16], double* scratch) {
    double sum = 0;
#pragma unroll
    for (int j = 0; j < 16; ++j) sum += abs2(v[j]);
    return block_sum(sum, scratch);
}

// Rates of all channels times the norm squared, in shared memory; return their sum.
QSIM_DEVICE double rates_of(const cplx (&v)[16], const Tile& tile, const System& system, double* rates, double* scratch) {
    tile.put<outer>(v);
    __syncthreads();
    double total = 0;
    for (int k = 0; k < system.channels; ++k) {
        cplx out[16];
        apply_jump(v, tile, system, k, out);
        const double rate = norm_of(out, scratch);
        if (threadIdx.x == 0) rates[k] = rate;
        total += rate;
    }
    __syncthreads();
    return total;
}

// Time within a step at which the cubic through ln w at both ends, with slopes -q / w, is at the target.
QSIM_DEVICE double hermite(cplx before, cplx after, double dt, double target) {
    const double least = after.re > 1e-300 ? after.re : 1e-300;
    const double y0 = log(before.re), y1 = log(least), d0 = -before.im / before.re * dt, d1 = -after.im / least * dt;
    double low = 0, high = 1, x = y0 > y1 ? (y0 - target) / (y0 - y1) : 0.5;
    x = fmin(fmax(x, 0.0), 1.0);
    for (int k = 0; k < 60; ++k) {
        const double s = 1 - x;
        const double f = (1 + 2 * x) * s * s * y0 + x * s * s * d0 + x * x * (3 - 2 * x) * y1 - x * x * s * d1 - target;
        if (f > 0) low = x;
        else high = x;
        const double slope = 6 * x * s * (y1 - y0) + (1 - 4 * x + 3 * x * x) * d0 + (3 * x * x - 2 * x) * d1;
        const double step = slope != 0 ? x - f / slope : -1.0;
        const double next = low < step && step < high ? step : 0.5 * (low + high);
        if (fabs(next - x) < 1e-15) break;
        x = next;
    }
    return x * dt;
}

// The two numbers of a jump, of its time in (0, 1] and of its channel in [0, 1): Philox4x64-10 as in NumPy, whose counter goes on
// before the first number.
QSIM_DEVICE double2 randoms(uint64 seed, uint64 member, uint64 number) {
    uint64 c0 = number + 1, c1 = 0, c2 = 0, c3 = 0, k0 = seed, k1 = member;
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const uint64 high0 = __umul64hi(0xD2E7470EE14C6C93ull, c0), low0 = 0xD2E7470EE14C6C93ull * c0;
        const uint64 high1 = __umul64hi(0xCA5A826395121157ull, c2), low1 = 0xCA5A826395121157ull * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B97F4A7C15ull;
        k1 += 0xBB67AE8584CAA73Bull;
    }
    return make_double2(1.0 - (double)(c0 >> 11) * 0x1p-53, (double)(c1 >> 11) * 0x1p-53);
}

// Carry every trajectory to a time.
//
// psi: (M, 2^BITS).  times, numbers: (M) time of each trajectory and number of its jumps so far.  members: (M) numbers of the
// trajectories; realisations: (M) of their tables.  dt: step.  close: ends of a step that rounding cannot tell.  jump_times,
// jump_channels: (M, room) records of this call; made: (M) their number; status: (M) 0, AGAIN or NO_RATE.
extern "C" __global__ void __launch_bounds__(THREADS)
    carry(cplx* __restrict__ psi, double* __restrict__ times, int* __restrict__ numbers, const uint64* __restrict__ members,
          const int* __restrict__ realisations, const Energy* __restrict__ all_fields, const Energy* __restrict__ all_tables,
          const double* __restrict__ decay, const Stage* __restrict__ stages, const Jump* __restrict__ jumps,
          const int* __restrict__ sites, int count, int channels, int spins, int plain, uint64 seed, double end, double dt,
          double close, double* __restrict__ jump_times, int* __restrict__ jump_channels, int room, int* __restrict__ made,
          int* __restrict__ status) {
    extern __shared__ __align__(16) char raw[];
    __shared__ Energy fields[3 * BITS];
    __shared__ cplx inside[16], scratch[32];
    const Tile tile = {(cplx*)raw};
    double* const rates = (double*)(raw + sizeof(cplx) * ((1 << BITS) / 16 * 17));
    double* const single = (double*)scratch;
    const int t = threadIdx.x, m = blockIdx.x;
    const uint64 which = realisations[m];
    const Energy* const tables = all_tables + which * 3 * TABLE;
    const System system = {all_fields + which * 3 * BITS, tables, decay, stages, jumps, sites, count, channels, spins, plain};
    for (int k = t; k < 3 * BITS; k += THREADS) fields[k] = system.fields[k];
    cplx v[16];
    psi += (uint64)m << BITS;
#pragma unroll
    for (int j = 0; j < 16; ++j) v[j] = psi[j << TOP | t];
    double now = times[m];
    int number = numbers[m], kept = 0, state = 0;
    cplx w = weight(v, decay, scratch);  // its barriers show the fields to all
    while (end - now > close) {
        if (kept == room) {
            state = AGAIN;
            break;
        }
        // Full steps until the norm falls below u, or one to the end where less than a step is left.
        const double2 drawn = randoms(seed, members[m], number);
        const int fitting = (int)((end - now) / dt * (1.0 + 1e-12)), most = fitting > 0 ? fitting : 1;
        const double length = fitting > 0 ? dt : end - now, target = log(drawn.x);
        double tau = length, last = 0;
        int steps = 0, tries = 0;
        bool searching = false, due = false;
        while (true) {
            const cplx before = w;
            make_step(v, tile, system, tables, fields, inside, tau);
            w = weight(v, decay, scratch);
            if (!searching) {
                ++steps;
                if (!(w.re < drawn.x)) {
                    if (steps < most) continue;
                    now += steps * length;
                    break;
                }
                now += steps * length;
                last = now;
                searching = true;
                tau = hermite(before, w, length, target) - length;
                continue;
            }
            // Newton's method, never out of the step.
            now += tau;
            const double q = plain ? w.im : rates_of(v, tile, system, rates, single), off = log(w.re) - target;
            tau = q > 0 ? off * w.re / q : 0.0;
            tau = fmin(fmax(tau, last - length - now), last - now);
            due = fabs(off) < CLOSE || tau == 0 || ++tries == NEWTON;
            if (due) break;
        }
        if (!due) continue;
        // The jump: a channel by its rate, never one without.
        const double total = rates_of(v, tile, system, rates, single);
        if (!(total > 0)) {
            state = NO_RATE;
            break;
        }
        double sum = 0;
        int channel = -1;
        for (int k = 0; k < channels; ++k) {
            const double rate = rates[k];
            if (rate > 0 && (channel < 0 || !(sum > drawn.y * total))) channel = k;
            sum += rate;
        }
        cplx out[16];
        apply_jump(v, tile, system, channel, out);
        const double scale = 1.0 / sqrt(norm_of(out, single));  // its barriers: all have read the tile
#pragma unroll
        for (int j = 0; j < 16; ++j) v[j] = scale * out[j];
        w = weight(v, decay, scratch);
        if (t == 0) {
            jump_times[(uint64)m * room + kept] = now;
            jump_channels[(uint64)m * room + kept] = channel;
        }
        ++kept;
        ++number;
    }
#pragma unroll
    for (int j = 0; j < 16; ++j) psi[j << TOP | t] = v[j];
    if (t == 0) {
        times[m] = now;
        numbers[m] = number;
        made[m] = kept;
        status[m] = state;
    }
}
