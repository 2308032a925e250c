"""Steps on a CPU against plain linear algebra: ranges of rows, tiles of lanes, and what is no longer felt.

Tolerance: the matrices of a step have condition numbers below 10 (velocity gauge) and 1e3 (radial step); a few steps with states
of norm 1 leave less than 1e-12.
"""

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg

from qsim.tridiag.atom.evolution.propagator import AtomLattice, Propagator, radial_arrays
from qsim.tridiag.atom.states.grid import mapped, uniform
from qsim.tridiag.atom.states.lanes import Lanes, PlanarLanes
from qsim.tridiag.kernels.atom import sharing as atom_sharing
from qsim.tridiag.kernels.atom.sharing import TRIAL, Sharing
from qsim.tridiag.kernels.simd import WIDTH

ROUNDING = 1e-12
LONG, DENSE = uniform(40.2, 0.3), mapped(30.0, 0.3, 0.02, 40.0)


def atom(grid, mask):
    far = np.maximum(grid.r - 0.7 * grid.r[-1], 0.0)
    return AtomLattice(
        grid, -1 / grid.r, 1 / grid.r**2, 1.0, 0.01 * far**2, np.exp(-0.05 * far) if mask else None
    )


def radial(lattice, lanes, dt, f):
    """``(M2 + q) w = -q f``, ``f' = w + M2 w / conj(q')`` by banded elimination, every l by itself."""
    a, potential, rotation, ll, first = radial_arrays(lattice, lanes, dt, cap=True)
    out = np.zeros_like(f)
    for l, lane in zip(lanes.ls, lanes.order, strict=True):
        b = potential[:, 0] + rotation * ll[lane] - 1.0
        q = 1.0 / (b - 1j * (a - potential[:, 1]))
        m2 = np.full((3, len(q)), 1.0 / 12.0, dtype=complex)
        m2[1] = 10.0 / 12.0
        m2[1, 0] = first[lane]
        matrix = m2.copy()
        matrix[1] += q
        k = l - lanes.lowest
        w = scipy.linalg.solve_banded((1, 1), matrix, -q * f[k])
        mw = m2[1] * w
        mw[1:] += w[:-1] / 12.0
        mw[:-1] += w[1:] / 12.0
        out[k] = w + (b + 1j * (a + potential[:, 1])) * mw
    return out


def turned(f, first, angle, couplings, r):
    out = f.copy()
    for l in range(first, len(f) - 1, 2):
        phi = angle * r * couplings[l]
        # the tangent of half the angle is a polynomial; angles here are small enough for rounding
        out[l] = np.cos(phi) * f[l] - 1j * np.sin(phi) * f[l + 1]
        out[l + 1] = np.cos(phi) * f[l + 1] - 1j * np.sin(phi) * f[l]
    return out


def mixed(f, first, g, couplings, ls, grid):
    """A rotation by Cayley's form, a Cayley step of the sum and the difference, the rotation again."""
    n, corner = grid.points, np.sqrt(3.0) - 2.0
    m1 = (np.diag(np.full(n, 4.0)) + np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)) / 6.0
    m1[0, 0] = m1[-1, -1] = (4.0 + corner) / 6.0
    d = np.diag(np.ones(n - 1), 1) - np.diag(np.ones(n - 1), -1)
    d[0, 0], d[-1, -1] = corner, -corner
    out = f.copy()
    for l in range(first, len(f) - 1, 2):
        t = 0.25 * g * couplings[l] * (ls[l] + 1.0) / grid.r
        cos, sin = (1.0 - t * t) / (1.0 + t * t), 2.0 * t / (1.0 + t * t)
        a, b = out[l] / np.sqrt(grid.slope), out[l + 1] / np.sqrt(grid.slope)
        a, b = cos * a - sin * b, sin * a + cos * b
        k = 0.25 * g * couplings[l] * d / grid.slope
        s = np.linalg.solve(m1 + k, (m1 - k) @ (a + b))
        d_ = np.linalg.solve(m1 - k, (m1 + k) @ (a - b))
        a, b = 0.5 * (s + d_), 0.5 * (s - d_)
        out[l] = (cos * a - sin * b) * np.sqrt(grid.slope)
        out[l + 1] = (sin * a + cos * b) * np.sqrt(grid.slope)
    return out


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("velocity", [False, True])
@pytest.mark.parametrize(
    ("lanes", "grid"), [(Lanes(0, 18), LONG), (Lanes(1, 4), DENSE), (Lanes(0, 0), DENSE)]
)
def test_steps(lanes, grid, velocity, mask):
    lattice, dt, steps = atom(grid, mask), 0.04, 3
    rng = np.random.default_rng(1)
    phi = rng.normal(size=(lanes.used, grid.points, 2)) @ np.array([1.0, 1.0j])
    phi /= np.linalg.norm(phi)
    strength = (
        1.5 if velocity else 0.05
    )  # velocity gauge: k from 0.01 to 0.4, where rows are felt ten times as far

    def field(t):
        return strength * np.cos(2.0 * np.asarray(t))

    run = Propagator(lattice, lanes, phi, dt, velocity=velocity, field=field)
    run.advance(steps)
    couplings, f = lanes.coupling(lanes.ls), phi * grid.slope
    for k in range(steps):
        before, middle, after = (field((k + part) * dt) * dt for part in (0.0, 0.5, 1.0))
        if velocity:
            f = mixed(f, 0, 0.5 * before, couplings, lanes.ls, grid)
            f = mixed(f, 1, 0.5 * middle, couplings, lanes.ls, grid)
            f = radial(lattice, lanes, dt, f)
            f = mixed(f, 1, 0.5 * middle, couplings, lanes.ls, grid)
            if mask or k + 1 == steps:
                f = mixed(f, 0, 0.5 * after, couplings, lanes.ls, grid)
            else:  # neighbouring steps share one step of the even pairs
                f = mixed(f, 0, after, couplings, lanes.ls, grid)
                f = mixed(f, 0, -0.5 * after, couplings, lanes.ls, grid)
        else:
            f = turned(f, 0, 0.5 * middle, couplings, grid.r)
            f = turned(f, 1, 0.5 * middle, couplings, grid.r)
            f = radial(lattice, lanes, dt, f)
            f = turned(f, 1, 0.5 * middle, couplings, grid.r)
            f = turned(f, 0, 0.5 * middle, couplings, grid.r)
        if mask:
            f = f * lattice.mask
    np.testing.assert_allclose(run.phi, f / grid.slope, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("gauge", ["length", "velocity"])
@pytest.mark.parametrize(
    ("points", "momenta", "mask", "parts", "m"),
    [
        (300, 2 * WIDTH + 3, False, 0, 0),
        (211, 4 * WIDTH + 7, True, 0, 1),
        (333, 65, True, 2, 0),
        (150, 65, False, 1, 0),
    ],
)
def test_threads_share_steps_to_the_bit(gauge, points, momenta, mask, parts, m):
    """All numbers of threads, also such as leave a thread with fewer lanes than a vector holds."""
    lanes, lattice = Lanes(m, m + momenta - 1), atom(uniform(0.25 * (points + 1), 0.25), mask)
    phi = np.random.default_rng(3).normal(size=(momenta, points)) + 0j
    found = []
    for threads in range(1, 6):
        run = Propagator(
            lattice,
            lanes,
            phi / np.linalg.norm(phi),
            0.05,
            velocity=gauge == "velocity",
            field=lambda t: 0.5 * np.cos(0.3 * t),
            parts=parts,
        )
        run.sharing = Always(threads, lanes.pairs)
        run.advance(3)
        run.advance(4)
        found.append((run.state, run.lost))
    assert all(np.array_equal(state, found[0][0]) and lost == found[0][1] for state, lost in found)
    assert (found[0][1] > 0.0) == (gauge == "velocity" and parts > 0)


MARKS = [2, 3, 8]


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("lanes", [Lanes(0, 2 * WIDTH + 2), Lanes(-1, 6), PlanarLanes((0,), 6)])
def test_samples_on_the_way_are_those_of_calls_that_end_there(lanes, mask):
    """To the bit, in states and sums, on any number of threads and with empty pairs."""
    lattice = atom(uniform(20.1, 0.3), mask)
    phi = np.random.default_rng(4).normal(size=(lanes.used, lattice.grid.points)) + 0j
    turning = isinstance(lanes, PlanarLanes)

    def field(t):
        t = np.asarray(t)
        return 0.4 * (np.array([np.cos(0.3 * t), np.sin(0.3 * t)]) if turning else np.cos(0.3 * t))

    def run(threads, width=1):
        wide = lanes if turning else replace(lanes, width=width)
        made = Propagator(lattice, wide, phi / np.linalg.norm(phi), 0.05, velocity=False, field=field)
        made.sharing = Always(threads, 4 * WIDTH)
        return made

    alone, sums = run(1), []
    for mark in MARKS:
        alone.advance(mark - alone.step)
        sums.append(alone.sums())
    for threads in (2, 3):
        shared = run(threads, WIDTH)
        assert shared.in_one
        assert np.array_equal(shared.sampled(MARKS), sums)
        assert np.array_equal(shared.phi, alone.phi)
        # a checkpoint has no empty pairs
        again = run(1)
        again.restore(shared.snapshot(), MARKS[-1], 0.0)
        assert np.array_equal(again.state, alone.state)


class Always(Sharing):
    """As many threads as there are."""

    def do(self, steps, run, trial):
        run(self.choices[-1])


class Clock:
    """A machine on which a step takes so many seconds by threads, and one call in eleven of several threads ten times as long."""

    def __init__(self, seconds, hiccup=1):
        self.seconds, self.hiccup, self.now, self.calls = seconds, hiccup, 0.0, []

    def run(self, parts, steps):
        self.calls.append((parts, steps))
        late = parts > 1 and len(self.calls) % 11 == 0
        self.now += steps * self.seconds[parts] * (self.hiccup if late else 1)


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        ({1: 1.0, 2: 0.6, 4: 0.4}, 4),
        ({1: 1.0, 2: 0.6, 4: 0.59}, 2),
        ({1: 1.0, 2: 1.2, 4: 0.5}, 4),
        ({1: 1.0, 2: 50.0, 4: 100.0}, 1),
    ],
)
@pytest.mark.parametrize("hiccup", [1, 10])
def test_the_quickest_number_of_threads_is_taken(monkeypatch, seconds, best, hiccup):
    clock = Clock({parts: 1e-3 * each for parts, each in seconds.items()}, hiccup)
    monkeypatch.setattr(atom_sharing, "perf_counter", lambda: clock.now)
    sharing = Sharing(4, 4 * WIDTH)
    assert sharing.choices == [1, 2, 4]
    for _ in range(200):
        sharing.do(50, lambda parts: clock.run(parts, 50), lambda: lambda parts: clock.run(parts, TRIAL))
    made = [parts for parts, steps in clock.calls if steps == 50]
    assert len(made) == 200
    assert np.mean([parts == best for parts in made]) > (0.95 if hiccup == 1 or best == 1 else 0.5)
    # trials of what does not pay cost little
    assert clock.now < 200 * 50 * 1e-3 * (1.1 if hiccup == 1 or best == 1 else 1.8) * seconds[1]


def test_threads_that_lose_their_cores_are_given_up(monkeypatch):
    clock = Clock({1: 1.0, 2: 0.6})
    monkeypatch.setattr(atom_sharing, "perf_counter", lambda: clock.now)
    sharing, made = Sharing(2, 2 * WIDTH), []

    def run(parts):
        made.append(parts)
        clock.run(parts, 1)

    for _ in range(2):
        sharing.do(1, run, lambda: run)
    assert sharing.parts == 2
    clock.seconds[2] = 30.0
    made.clear()
    for _ in range(20):
        sharing.do(1, run, lambda: run)
    assert made.count(2) <= 6
    assert made[-5:] == [1] * 5


def test_one_thread_needs_no_trial():
    def trial():
        raise AssertionError

    made = []
    for sharing in (Sharing(), Sharing(1, 100), Sharing(8, 1)):
        sharing.do(5, made.append, trial)
    assert made == [1, 1, 1]
