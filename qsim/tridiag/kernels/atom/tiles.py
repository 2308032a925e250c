"""Parts of a step of an electron in a central potential on a range of rows: `WIDTH` lanes at a time, recurrences in registers.

Rows are numbered in the order of a sweep: position i is row ``begin + step i``.  What goes on from one range to the next
lies in an array of carries, tile after tile; a kernel works on the positions ``low <= i < high`` of one tile.  Each kernel
is made twice, for a whole tile and for the last one, which may be narrower.  All arrays are flat.

The Cayley step of velocity gauge, ``(M1 + k D / r') v' = (M1 - k D / r') v`` for sums (k > 0) and differences (-k) of pairs, is
eliminated on the way and substituted back as soon as the rows that follow are too far away to be felt, with zero in their
place.  ``y`` holds, tile after tile and in a ring of positions, four right-hand sides over their pivots (real and imaginary
part of sum and difference), two off-diagonals over them, and the two numbers of the rotation.
"""

from __future__ import annotations

from qsim.core.device.jit import variant
from qsim.tridiag.kernels.jit import PART
from qsim.tridiag.kernels.simd import WIDTH, fma, full, load, load_some, store, store_some

__all__ = [
    "MIX_CARRY",
    "MIX_ROW",
    "RADIAL_CARRY",
    "eliminate",
    "mix_down",
    "mix_up",
    "substitute",
    "turn",
]

# elements beside the diagonals of M2 and M1
TWELFTH, SIXTH = 1.0 / 12.0, 1.0 / 6.0
# y of the corners of M1 and D, for which the derivative is antisymmetric
CORNER = 3.0**0.5 - 2.0
# numbers per tile
RADIAL_CARRY, MIX_CARRY, MIX_ROW = 6 * WIDTH, 16 * WIDTH, 8 * WIDTH


def _substitute(name, load, store):
    """Return the kernel that substitutes the radial step, for whole tiles or for the last one."""

    @variant(name, **PART)
    def kernel(s, p, tile, rows, n, radial, carry):
        """``w = p (y - w(before) / 12)`` in place of y, and ``f' = w + (B + i a) M2 w`` of the row before, in its place."""
        lanes, at, count = tile
        begin, step, low, high = rows
        a, potential, rotation, ll, first = radial
        # kept from range to range: w of the row before, and the part of M2 w there that does not wait for the next row
        c = (at // WIDTH) * RADIAL_CARRY
        wr, wi = load(carry, c, WIDTH), load(carry, c + WIDTH, WIDTH)
        tr, ti = load(carry, c + 2 * WIDTH, WIDTH), load(carry, c + 3 * WIDTH, WIDTH)
        number = load(ll, at, count)
        for i in range(low, high):
            j = begin + step * i
            cr, ci = wr, wi
            # position n is beyond the grid, with w = 0: it completes the last row
            if i < n:
                here = 2 * lanes * j + at
                pr, pi = load(p, here, count), load(p, here + lanes, count)
                dr = load(s, here, count) - TWELFTH * cr
                di = load(s, here + lanes, count) - TWELFTH * ci
                wr = pr * dr - pi * di
                wi = pr * di + pi * dr
            else:
                wr = full(0.0)
                wi = full(0.0)
            # M2 w of the row before has all three terms now: its f' can be written over its y
            if i > 0:
                last = j - step
                mr, mi = fma(TWELFTH, wr, tr), fma(TWELFTH, wi, ti)
                br = fma(rotation[last], number, potential[2 * last] - 1.0)
                bi = a[last] + potential[2 * last + 1]
                there = 2 * lanes * last + at
                store(s, there, cr + br * mr - bi * mi, count)
                store(s, there + lanes, ci + br * mi + bi * mr, count)
            # two of three terms of M2 w in this row; in the first row of the grid M2 has the entry of u ~ r^(l+1)
            if j == 0:
                m = load(first, at, count)
                tr, ti = TWELFTH * cr + m * wr, TWELFTH * ci + m * wi
            else:
                tr, ti = TWELFTH * cr + (10.0 * TWELFTH) * wr, TWELFTH * ci + (10.0 * TWELFTH) * wi
        store(carry, c, wr, WIDTH)
        store(carry, c + WIDTH, wi, WIDTH)
        store(carry, c + 2 * WIDTH, tr, WIDTH)
        store(carry, c + 3 * WIDTH, ti, WIDTH)

    return kernel


def _eliminate(name, load, store):
    """Return the kernel that eliminates the radial step, for whole tiles or for the last one."""

    @variant(name, **PART)
    def kernel(s, p, tile, rows, radial, carry):
        """``y = -q f - p(before) y(before) / 12`` in place of f."""
        lanes, at, count = tile
        begin, step, low, high = rows
        a, potential, rotation, ll, _ = radial
        # the imaginary part is carried with the other sign: one negation less per row
        c = (at // WIDTH) * RADIAL_CARRY + 4 * WIDTH
        yr, yi = load(carry, c, WIDTH), load(carry, c + WIDTH, WIDTH)
        number = load(ll, at, count)
        for i in range(low, high):
            j = begin + step * i
            here = 2 * lanes * j + at
            # q = 1 / (B - i a), B and a as in `length`
            br = fma(rotation[j], number, potential[2 * j] - 1.0)
            bi = a[j] - potential[2 * j + 1]
            d = 1.0 / fma(br, br, bi * bi)
            qr, qi = br * d, bi * d
            fr, fi = load(s, here, count), load(s, here + lanes, count)
            # -q f, its imaginary part with the other sign
            gr = qi * fi - qr * fr
            gi = qr * fi + qi * fr
            if i > 0:
                before = here - 2 * lanes * step
                pr, pi = TWELFTH * load(p, before, count), TWELFTH * load(p, before + lanes, count)
                yr, yi = gr - (pr * yr - pi * yi), -gi - (pr * yi + pi * yr)
            else:
                yr, yi = gr, -gi
            store(s, here, yr, count)
            store(s, here + lanes, yi, count)
        store(carry, c, yr, WIDTH)
        store(carry, c + WIDTH, yi, WIDTH)

    return kernel


def _turn(name, load, store):
    """Return the kernel that turns pairs in length gauge, for whole tiles or for the last one."""

    @variant(name, **PART)
    def kernel(s, pairs, rows, coupling, angle, r):
        """Turn the pairs of lanes ``lower + i``, ``upper + i`` by ``exp(-i angle r c sigma_x)``."""
        lanes, lower, upper, at, count = pairs
        begin, step, low, high = rows
        c = 0.5 * angle * load(coupling, at, count)
        for i in range(low, high):
            j = begin + step * i
            here, there = 2 * lanes * j + lower, 2 * lanes * j + upper
            # t = tan(x) to x^9; cos and sin of 2 x from it make a rotation that is unitary for every value of t
            x = r[j] * c
            y = x * x
            t = x * fma(
                y, fma(y, fma(y, fma(y, 62.0 / 2835.0, 17.0 / 315.0), 2.0 / 15.0), 1.0 / 3.0), full(1.0)
            )
            square = t * t
            scale = 1.0 / (1.0 + square)
            cos, sin = scale - square * scale, 2.0 * t * scale
            ar, ai = load(s, here, count), load(s, here + lanes, count)
            br, bi = load(s, there, count), load(s, there + lanes, count)
            store(s, here, cos * ar + sin * bi, count)
            store(s, here + lanes, cos * ai - sin * br, count)
            store(s, there, cos * br + sin * ai, count)
            store(s, there + lanes, cos * bi - sin * ar, count)

    return kernel


def _mix_down(name, load, store):
    """Return the kernel that eliminates a Cayley step of velocity gauge, for whole tiles or for the last one."""

    @variant(name, **PART)
    def kernel(s, pairs, rows, n, cayley, mix, ring, carry):
        """Take the positions low to high, and eliminate those up to high - 1 (at the end, ``high = n + 1``, all)."""
        lanes, lower, upper, at, count = pairs
        begin, step, low, high = rows
        inverse_r, inverse_slope, root = mix
        coupling, growth = cayley.coupling, cayley.growth
        # in an odd pair the lower l is the odd lane; going up, d/dr has the other sign
        angle = -0.5 * cayley.g if cayley.odd else 0.5 * cayley.g
        # k = g c / 4 of the row, without its 1 / r'
        rate = -0.25 * cayley.g if cayley.mirrored else 0.25 * cayley.g
        y, size = ring
        tile = at // WIDTH
        # kept from range to range: sums and differences z of the row before, two terms b of its right side, y and the
        # off-diagonals over the pivots of the row before that, and k D / r' of both (r, i: parts; s: sums, d: differences)
        c = tile * MIX_CARRY
        zsr, zsi = load(carry, c, WIDTH), load(carry, c + WIDTH, WIDTH)
        zdr, zdi = load(carry, c + 2 * WIDTH, WIDTH), load(carry, c + 3 * WIDTH, WIDTH)
        bsr, bsi = load(carry, c + 4 * WIDTH, WIDTH), load(carry, c + 5 * WIDTH, WIDTH)
        bdr, bdi = load(carry, c + 6 * WIDTH, WIDTH), load(carry, c + 7 * WIDTH, WIDTH)
        ysr, ysi = load(carry, c + 8 * WIDTH, WIDTH), load(carry, c + 9 * WIDTH, WIDTH)
        ydr, ydi = load(carry, c + 10 * WIDTH, WIDTH), load(carry, c + 11 * WIDTH, WIDTH)
        us, ud = load(carry, c + 12 * WIDTH, WIDTH), load(carry, c + 13 * WIDTH, WIDTH)
        kb, kc = load(carry, c + 14 * WIDTH, WIDTH), load(carry, c + 15 * WIDTH, WIDTH)
        k = rate * load(coupling, at, count)
        g = 0.5 * angle * load(growth, at, count)
        base = tile * size * MIX_ROW
        for i in range(low, high):
            j = begin + step * i
            ka = full(0.0)
            if i < n:
                ka = inverse_slope[j] * k
            # the elements beside the diagonal that this row's 1 / r' enters, in the rows before and after it
            plus, minus = SIXTH + ka, SIXTH - ka
            nsr, nsi, ndr, ndi = full(0.0), full(0.0), full(0.0), full(0.0)
            # turn the pair by its angle, and go over to sums and differences of v = f / sqrt(r')
            if i < n:
                t = inverse_r[j] * g
                square = t * t
                scale = (inverse_slope[j] * root[j]) / (1.0 + square)
                one, two = scale - square * scale, 2.0 * t * scale
                sum_, difference = one + two, one - two
                out = base + (i & (size - 1)) * MIX_ROW + 6 * WIDTH
                store(y, out, sum_, WIDTH)
                store(y, out + WIDTH, difference, WIDTH)
                here, there = 2 * lanes * j + lower, 2 * lanes * j + upper
                ar, ai = load(s, here, count), load(s, here + lanes, count)
                br, bi = load(s, there, count), load(s, there + lanes, count)
                nsr, nsi = sum_ * ar + difference * br, sum_ * ai + difference * bi
                ndr, ndi = difference * ar - sum_ * br, difference * ai - sum_ * bi
            # the row before has all three terms now
            if i > 0:
                m, corner = 4.0 * SIXTH, 0.0
                if i == 1:
                    m, corner = (4.0 + CORNER) * SIXTH, CORNER
                if i == n:
                    m, corner = (4.0 + CORNER) * SIXTH, -CORNER
                middle = corner * kb
                # one division for the pivots of the sum and of the difference
                down, up = SIXTH - kc, SIXTH + kc
                ps = m + middle - down * us
                pd = m - middle - up * ud
                both = 1.0 / (ps * pd)
                ps, pd = both * pd, both * ps
                us, ud = ps * plus, pd * minus
                ysr = ps * (bsr + minus * nsr - down * ysr)
                ysi = ps * (bsi + minus * nsi - down * ysi)
                ydr = pd * (bdr + plus * ndr - up * ydr)
                ydi = pd * (bdi + plus * ndi - up * ydi)
                out = base + ((i - 1) & (size - 1)) * MIX_ROW
                store(y, out, ysr, WIDTH)
                store(y, out + WIDTH, ysi, WIDTH)
                store(y, out + 2 * WIDTH, ydr, WIDTH)
                store(y, out + 3 * WIDTH, ydi, WIDTH)
                store(y, out + 4 * WIDTH, us, WIDTH)
                store(y, out + 5 * WIDTH, ud, WIDTH)
            # right side of this row, (M1 - k D / r') v, but for the term of the next row; corners of M1 and D at the ends
            m, corner = 4.0 * SIXTH, 0.0
            if i == 0:
                m, corner = (4.0 + CORNER) * SIXTH, CORNER
            if i == n - 1:
                m, corner = (4.0 + CORNER) * SIXTH, -CORNER
            middle = corner * ka
            left, right = SIXTH + kb, SIXTH - kb
            own, other = m - middle, m + middle
            bsr, bsi = left * zsr + own * nsr, left * zsi + own * nsi
            bdr, bdi = right * zdr + other * ndr, right * zdi + other * ndi
            zsr, zsi, zdr, zdi = nsr, nsi, ndr, ndi
            kc = kb
            kb = ka
        store(carry, c, zsr, WIDTH)
        store(carry, c + WIDTH, zsi, WIDTH)
        store(carry, c + 2 * WIDTH, zdr, WIDTH)
        store(carry, c + 3 * WIDTH, zdi, WIDTH)
        store(carry, c + 4 * WIDTH, bsr, WIDTH)
        store(carry, c + 5 * WIDTH, bsi, WIDTH)
        store(carry, c + 6 * WIDTH, bdr, WIDTH)
        store(carry, c + 7 * WIDTH, bdi, WIDTH)
        store(carry, c + 8 * WIDTH, ysr, WIDTH)
        store(carry, c + 9 * WIDTH, ysi, WIDTH)
        store(carry, c + 10 * WIDTH, ydr, WIDTH)
        store(carry, c + 11 * WIDTH, ydi, WIDTH)
        store(carry, c + 12 * WIDTH, us, WIDTH)
        store(carry, c + 13 * WIDTH, ud, WIDTH)
        store(carry, c + 14 * WIDTH, kb, WIDTH)
        store(carry, c + 15 * WIDTH, kc, WIDTH)

    return kernel


def _mix_up(name, load_ring, store):
    """Return the kernel that substitutes a Cayley step; the ring has whole vectors of every tile."""

    @variant(name, **PART)
    def kernel(s, pairs, rows, end, root, ring):
        """Substitute from position ``end - 1`` back, and write the pairs of the positions low to high."""
        lanes, lower, upper, at, count = pairs
        # v = y - u v(after), for sums with +k and differences with -k; see `_mix_down` for y and u
        begin, step, low, high = rows
        y, size = ring
        base = (at // WIDTH) * size * MIX_ROW
        vsr, vsi, vdr, vdi = full(0.0), full(0.0), full(0.0), full(0.0)
        # from the last eliminated position backwards: v(end) = 0 is wrong, but felt only down to `high`
        for back in range(end - low):
            i = end - 1 - back
            row = base + (i & (size - 1)) * MIX_ROW
            us, ud = load(y, row + 4 * WIDTH, WIDTH), load(y, row + 5 * WIDTH, WIDTH)
            vsr = load(y, row, WIDTH) - us * vsr
            vsi = load(y, row + WIDTH, WIDTH) - us * vsi
            vdr = load(y, row + 2 * WIDTH, WIDTH) - ud * vdr
            vdi = load(y, row + 3 * WIDTH, WIDTH) - ud * vdi
            # positions from high on only start the recurrence: v is zero at `end`, and no longer felt at high
            if i < high:
                j = begin + step * i
                # back from sums and differences to the pair, turned by the same angle again
                scale = 0.5 * root[j] * root[j]
                sum_ = scale * load(y, row + 6 * WIDTH, WIDTH)
                difference = scale * load(y, row + 7 * WIDTH, WIDTH)
                here, there = 2 * lanes * j + lower, 2 * lanes * j + upper
                store(s, here, difference * vsr + sum_ * vdr, count)
                store(s, here + lanes, difference * vsi + sum_ * vdi, count)
                store(s, there, sum_ * vsr - difference * vdr, count)
                store(s, there + lanes, sum_ * vsi - difference * vdi, count)

    return kernel


# whole tiles load and store vectors; the last tile of a share masks the lanes that are not its own
substitute = _substitute("whole", load, store), _substitute("some", load_some, store_some)
eliminate = _eliminate("whole", load, store), _eliminate("some", load_some, store_some)
turn = _turn("whole", load, store), _turn("some", load_some, store_some)
mix_down = _mix_down("whole", load, store), _mix_down("some", load_some, store_some)
mix_up = _mix_up("whole", load, store), _mix_up("some", load, store_some)
