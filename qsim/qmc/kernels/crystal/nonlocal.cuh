// Nonlocal pseudopotentials of a walker in a crystal, by spherical rules, and T-moves.
//
// Points of a rule are taken together: lanes find places, weights and phases of a point each; then all lanes sum the Jastrow functions of
// all points, and the orbitals of one point after the other, loads of VEC channels at a time.

#ifndef QSIM_QMC_CRYSTAL_NONLOCAL_CUH
#define QSIM_QMC_CRYSTAL_NONLOCAL_CUH
#include "moves.cuh"

#ifndef AHEAD
#define AHEAD 4  // of four groups of four loads, how many are under way together
#endif
#define HEAD 24    // numbers kept of an electron within the range of an ion: rotation, vector, distance, number, factors by channel
#define VECTOR 9   // the vector from the ion
#define LENGTH 12
#define NUMBER 13  // of ion and image
#define FACTOR 16

// ----------------------------------------------------------------------------------------- pseudopotentials
// Scratch of a walker: powers of the waves (N, 3, most_wave + 1) complex, numbers of ions within range (N,), and for each electron and
// ion of those HEAD numbers and (Q, 4) points with their values.

QSIM_DEVICE complex_of<double>* powers_of(const Crystal& m, const State& s, int64 w) {
    return (complex_of<double>*)(s.scratch + w * s.stride);
}

QSIM_DEVICE double* counts_of(const Crystal& m, const State& s, int64 w) {
    return s.scratch + w * s.stride + m.electrons * 6 * (m.most_wave + 1);
}

QSIM_DEVICE double* slot_of(const Crystal& m, const State& s, int64 w, int e, int slot) {
    return counts_of(m, s, w) + m.electrons + ((int64)e * m.slots + slot) * (HEAD + 5 * m.quadrature);
}

// Ions within the range of electron e, in their order; every lane holds their number.
QSIM_DEVICE int find_ions(const Crystal& m, const State& s, int64 w, int e) {
    const int A = (int)m.atoms, I = (int)m.image_count;
    const double* R = s.R + (w * m.electrons + e) * 3;
    int count = 0;
    for (int base = 0; base < A * I; base += LANES) {
        const int i = base + lane_of(), a = i / I;
        double x = 0, y = 0, z = 0, r = 0;
        bool within = false;
        if (a < A) {
            const int64 p = m.potential[a];
            if (p >= 0 && m.channels[p] > 0) {
                const double* t = m.images + 3 * (i % I);
                x = R[0] - m.atom[3 * a], y = R[1] - m.atom[3 * a + 1], z = R[2] - m.atom[3 * a + 2];
                fold(m, x, y, z);
                x += t[0], y += t[1], z += t[2];
                r = sqrt(x * x + y * y + z * z);
                within = r < m.cutoff[p];
            }
        }
        const unsigned votes = group_votes(within);
        const int place = count + __popc(votes & ((1u << lane_of()) - 1));
        if (within && place < m.slots) {
            double* slot = slot_of(m, s, w, e, place);
            slot[VECTOR] = x, slot[VECTOR + 1] = y, slot[VECTOR + 2] = z, slot[LENGTH] = r, slot[NUMBER] = i;
        }
        count += __popc(votes);
    }
    return min(count, (int)m.slots);
}

// Rotation of the points of a slot, and the factors of its angular momenta.
QSIM_DEVICE void prepare_slot(const Crystal& m, double* slot, int e, const Draw& draw) {
    const int number = (int)slot[NUMBER];
    const uint32 pair = (uint32)(PER_ELECTRON * m.electrons + 2 * (e * m.atoms * m.image_count + number));
    const uint4 c = words(draw, pair), d = words(draw, pair + 1);
    const double f = uniform52(c.x, c.y), p = sqrt(1 - f), t = sqrt(f);
    double sg, cg, sh, ch;
    sincospi(2 * uniform52(c.z, c.w), &sg, &cg), sincospi(2 * uniform52(d.x, d.y), &sh, &ch);
    const double x = p * sg, y = p * cg, z = t * sh, v = t * ch;
    slot[0] = 1 - 2 * (y * y + z * z), slot[1] = 2 * (x * y - z * v), slot[2] = 2 * (x * z + y * v);
    slot[3] = 2 * (x * y + z * v), slot[4] = 1 - 2 * (x * x + z * z), slot[5] = 2 * (y * z - x * v);
    slot[6] = 2 * (x * z - y * v), slot[7] = 2 * (y * z + x * v), slot[8] = 1 - 2 * (x * x + y * y);
    const int64 potential = m.potential[number / m.image_count];
    const double* delta = m.delta + potential * m.most_channels * m.intervals * 6;
    for (int l = 0; l < m.channels[potential]; ++l)
        slot[FACTOR + l] = (2 * l + 1) * table_value(delta + l * m.intervals * 6, slot[LENGTH]);
}

// Place of point q of a slot, and what the ratio of the wavefunction there is multiplied by.
QSIM_DEVICE void prepare_point(const Crystal& m, double* slot, int q, const double* R) {
    const double *p = m.points + 3 * q, *d = slot + VECTOR, r = slot[LENGTH];
    double* target = slot + HEAD + 4 * q;
    double cosine = 0;
    for (int k = 0; k < 3; ++k) {
        const double u = slot[3 * k] * p[0] + slot[3 * k + 1] * p[1] + slot[3 * k + 2] * p[2];
        cosine += u * d[k];
        target[k] = R[k] - d[k] + r * u;
    }
    cosine /= fmax(r, TINY);
    const int count = (int)m.channels[m.potential[(int)slot[NUMBER] / m.image_count]];
    double factor = 0;
    for (int l = 0; l < count; ++l) factor += slot[FACTOR + l] * legendre(l, cosine);
    target[3] = m.weights[q] * factor;
}

// Where a point lies in the splines and among the other particles.
QSIM_DEVICE void prepare_spot(const Crystal& m, int spin, double x, double y, double z, Spot& spot) {
    const Spline s = spline_of(m, spin, x, y, z);
#pragma unroll
    for (int d = 0; d < 3; ++d) {
        value_weights(s.t[d], spot.w[d]);
        spot.cell[d] = (int)s.cell[d];
    }
    spot.first = s.first;
    site_of(m, x, y, z, spot.site);
#if TINS
    spot.tin = tin_of(m, x, y, z);
#endif
}

// The column that values without phases have to be multiplied by in a primitive cell, for the real part of a ratio of determinants.
QSIM_DEVICE void dress(const Crystal& m, int spin, const int* cell, const elem* column, int n, real* dressed) {
#if !COMPLEX
    if (!m.has_phase) {
        for (int c = lane_of(); c < m.all_channels; c += LANES) dressed[c] = c < n ? column[c] : 0;
        return;
    }
#endif
    const int64 offset = (spin < m.spins ? spin : m.spins - 1) * m.functions;
    for (int p = lane_of(); p < m.functions; p += LANES) {
        const int parts = (int)m.parts[offset + p], first = (int)m.channel[offset + p];
        if (parts == 0) continue;
        real cosine = 1, sine = 0;
        if (m.has_phase) phase_of(m, offset + p, cell, cosine, sine);
#if COMPLEX
        if (p >= n) continue;
        const elem f = column[p] * make_cplx(cosine, sine);
        dressed[first] = f.re, dressed[first + 1] = -f.im;
#else
        const real a = first < n ? column[first] : 0;
        if (parts == 1) {
            dressed[first] = cosine * a;
        } else {
            const real b = first + 1 < n ? column[first + 1] : 0;
            dressed[first] = cosine * a + sine * b, dressed[first + 1] = cosine * b - sine * a;
        }
#endif
    }
}

// Sum of the values of all channels with the dressed column: the part of this lane.  Four rows of a line are one piece of memory, and a
// lane takes VEC channels of one of them.
QSIM_DEVICE real spline_ratio(const Crystal& m, const Spot& spot, const real* dressed) {
    CLOCK(SPLINES);
    const int quads = (int)m.all_channels / VEC;
    const int64 line = (m.mesh2 + 3) * quads, plane = (m.mesh1 + 3) * line;
    real ratio = 0;
    for (int k = lane_of(); k < 4 * quads; k += LANES) {
        const int row = k / quads;
        const Channels* q = (const Channels*)(m.table + spot.first) + k;
        Channels sum = {};
#pragma unroll (AHEAD)
        for (int a = 0; a < 4; ++a) {
            Channels part = {};
#pragma unroll
            for (int b = 0; b < 4; ++b) {
                const Channels c = q[a * plane + b * line];
                const real w = spot.w[1][b];
#pragma unroll
                for (int v = 0; v < VEC; ++v) part.x[v] += w * c.x[v];
            }
            const real w = spot.w[0][a];
#pragma unroll
            for (int v = 0; v < VEC; ++v) sum.x[v] += w * part.x[v];
        }
        const Channels f = *((const Channels*)dressed + (k - row * quads));
        real dot = 0;
#pragma unroll
        for (int v = 0; v < VEC; ++v) dot += sum.x[v] * f.x[v];
        ratio += spot.w[2][row] * dot;
    }
    return ratio;
}

// What the values at points of a slot are without the ratio of determinants.
QSIM_DEVICE double& factor_of(const Crystal& m, const State& s, int64 w, int e, int i) {
    const int Q = (int)m.quadrature;
    return slot_of(m, s, w, e, i / Q)[HEAD + 4 * Q + i % Q];
}

// Place and value of point i of electron e.
QSIM_DEVICE double* target_of(const Crystal& m, const State& s, int64 w, int e, int i) {
    const int Q = (int)m.quadrature;
    return slot_of(m, s, w, e, i / Q) + HEAD + 4 * (i % Q);
}

// Prepare the spots of points begin ... begin + size of electron e; spots beyond are as the last one.
QSIM_DEVICE void prepare_spots(const Crystal& m, const State& s, int64 w, int e, int spin, int begin, int size, const Local& local) {
    join();
    for (int q = lane_of(); q < BATCH; q += LANES) {
        const double* target = target_of(m, s, w, e, begin + min(q, size - 1));
        prepare_spot(m, spin, target[0], target[1], target[2], local.spots[q]);
    }
    join();
}

// Set the ratios of determinants of `size` spots; `local.rows` is work space, whose first row is zero where there is no function.
QSIM_DEVICE void spot_ratios(const Crystal& m, const State& s, int64 w, const Electron& at, int size, const Local& local) {
    const elem* column = inverse_of(m, s, w, at.spin) + at.i * (int)m.orbitals;
    for (int q = 0; q < size; ++q) {
        const Spot& spot = local.spots[q];
#if TINS
        const Tin& tin = spot.tin;
        double weight = 0;  // of the tin
        if (tin.ion >= 0) weight = tin.r <= m.tin_inner ? 1 : tin_weight(m, tin.r);
        real ratio = 0;
        join();
        if (weight < 1) {
            dress(m, at.spin, spot.cell, column, at.n, local.rows);
            join();
            ratio = (real)(1 - weight) * spline_ratio(m, spot, local.rows);
            join();
        }
        if (weight > 0) {
            dress(m, at.spin, tin.cell, column, at.n, local.rows);
            ratio += (real)weight * tin_ratio(m, at.spin, tin, local.rows, local.rows + 10 * m.all_channels);
        }
#else
        const int *now = spot.cell, *before = local.spots[max(q - 1, 0)].cell;
        if (q == 0 || (m.has_phase && (now[0] != before[0] || now[1] != before[1] || now[2] != before[2]))) {
            join();
            dress(m, at.spin, now, column, at.n, local.rows);
            join();
        }
        real ratio = spline_ratio(m, spot, local.rows);
#endif
        ratio = group_total(ratio);
        if (lane_of() == 0) local.spots[q].ratio = ratio;
    }
    join();
}

// Values at all points of all electrons, which stay in scratch; returns their sum.
QSIM_DEVICE double nonlocal_points(const Crystal& m, const State& s, int64 w, const Draw& draw, const Local& local) {
    CLOCK(NONLOCAL_PART);
    const int N = (int)m.electrons, K = (int)m.slots, Q = (int)m.quadrature;
    const double* R = s.R + w * N * 3;
    double* counts = counts_of(m, s, w);
    for (int e = 0; e < N; ++e) {
        const int count = find_ions(m, s, w, e);
        if (lane_of() == 0) counts[e] = count;
    }
    join();
    for (int i = lane_of(); i < N * K; i += LANES) {
        const int e = i / K;
        if (i % K < counts[e]) prepare_slot(m, slot_of(m, s, w, e, i % K), e, draw);
    }
    join();
    for (int i = lane_of(); i < N * K * Q; i += LANES) {
        const int e = i / (K * Q), slot = i / Q % K;
        if (slot < counts[e]) prepare_point(m, slot_of(m, s, w, e, slot), i % Q, R + 3 * e);
    }
    double total = 0;  // of this lane
    for (int e = 0; e < N; ++e) {
        const int points = (int)counts[e] * Q;
        if (points == 0) continue;
        const Electron at = electron(m, e);
        const real old = group_total(electron_value(m, local, e, local.electrons[e]));
        for (int c = lane_of(); c < m.all_channels; c += LANES) local.rows[c] = 0;
        for (int begin = 0; begin < points; begin += BATCH) {
            const int size = min(BATCH, points - begin);
            prepare_spots(m, s, w, e, at.spin, begin, size, local);
            real sums[BATCH];
            electron_values<BATCH>(m, local, e, sums);
            spread_totals<BATCH, LANES / 2>(sums, 0, BATCH, [&](int q, real total) { local.spots[q].jastrow = total; });
            spot_ratios(m, s, w, at, size, local);
            for (int q = lane_of(); q < size; q += LANES) {
                double& value = target_of(m, s, w, e, begin + q)[3];
                const Spot& spot = local.spots[q];
                const double factor = value * (double)exp(old - spot.jastrow);
                factor_of(m, s, w, e, begin + q) = factor;
                value = factor * spot.ratio;
                total += value;
            }
        }
        join();
    }
    return group_total(total);
}

// An electron that has made a T-move, and where it was.
struct Moved {
    Site before;
    int electron;
};

// Those of a walker; the waves of its energy are not needed any more.
QSIM_DEVICE Moved* moved_of(const Crystal& m, const State& s, int64 w) { return (Moved*)powers_of(m, s, w); }

// Bring the values at the points of electron e up to date after others have moved: their pair functions, and if some of them have
// its spin (`turned`) the ratios of determinants.
QSIM_DEVICE void renew_points(const Crystal& m, const State& s, int64 w, int e, int points, int moves, bool turned, const Local& local) {
    CLOCK(NONLOCAL_PART);
    const Moved* moved = moved_of(m, s, w);
    const Electron at = electron(m, e);
    const int stride = curve_stride(m);
    if (turned) {
        join();
        for (int c = lane_of(); c < m.all_channels; c += LANES) local.rows[c] = 0;
    }
    for (int begin = 0; begin < points; begin += BATCH) {
        const int size = min(BATCH, points - begin);
        prepare_spots(m, s, w, e, at.spin, begin, size, local);
        if (turned) spot_ratios(m, s, w, at, size, local);
        for (int q = lane_of(); q < size; q += LANES) {
            const Spot& spot = local.spots[q];
            real change = 0;
            for (int k = 0; k < moves; ++k) {
                const int j = moved[k].electron;
                const Quad* curve = local.curves + function_number(m, local, e < (int)m.n_up, j) * stride;
                const Site &here = local.electrons[e], before = moved[k].before, now = local.electrons[j];
                change += pair_value(m, local, curve, here, now) - pair_value(m, local, curve, here, before);
                change -= pair_value(m, local, curve, spot.site, now) - pair_value(m, local, curve, spot.site, before);
            }
            double& value = target_of(m, s, w, e, begin + q)[3];
            value = (turned ? factor_of(m, s, w, e, begin + q) * spot.ratio : value) * (double)exp(change);
        }
    }
    join();
}

QSIM_DEVICE void nonlocal_moves(const Crystal& m, const State& s, int64 w, double tau, const Draw& draw, const Local& local) {
    const int N = (int)m.electrons, M = (int)m.orbitals, Q = (int)m.quadrature;
    const double* counts = counts_of(m, s, w);
    int moves = 0;
    bool turned[2] = {false, false};
    for (int e = 0; e < N; ++e) {
        const int points = (int)counts[e] * Q;
        if (points == 0) continue;
        const Electron at = electron(m, e);
        if (moves) renew_points(m, s, w, e, points, moves, turned[at.spin], local);
        double total = 1;
        for (int i = 0; i < points; ++i) total -= tau * fmin(target_of(m, s, w, e, i)[3], 0.0);
        const uint4 v = words(draw, PER_ELECTRON * e + T_MOVE);
        double place = uniform52(v.x, v.y) * total - 1;  // below 0: stay
        if (place < 0) continue;
        int chosen = -1;
        for (int i = 0; i < points && place >= 0; ++i) {
            const double value = target_of(m, s, w, e, i)[3];
            if (value < 0) chosen = i, place += tau * value;
        }
        if (chosen < 0) continue;
        const double* target = target_of(m, s, w, e, chosen);
        const double x = target[0], y = target[1], z = target[2];
        elem* inverse = inverse_of(m, s, w, at.spin);
        bloch_rows(m, at.spin, x, y, z, local.rows);
        const elem ratio = along(row_of(m, local, 0), inverse + at.i * M, at.n);
        if (!(modulus(ratio) > 0)) continue;
        const Site before = local.electrons[e];
        Site there;
        site_of(m, x, y, z, there);
        const double change = group_total(electron_value(m, local, e, before) - electron_value(m, local, e, there));
        update_inverse(inverse, row_of(m, local, 0), at.i, at.n, M, ratio, local.column);
        settle(m, s, w, e, local, x, y, z);
        if (lane_of() == 0) {
            s.log_psi[w] += log((double)modulus(ratio)) + change;
            if (!COMPLEX && real_part(ratio) < 0) s.sign[w] = -s.sign[w];
            s.moves[4 * w + 3] += 1;
            moved_of(m, s, w)[moves] = {before, e};
        }
        ++moves;
        turned[at.spin] = true;
        join();
    }
}

#endif
