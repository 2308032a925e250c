"""Slow electrons: the target beyond the box, branches of phases, scattering lengths, the length of the contour, and the deck."""

from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import spherical_jn, spherical_yn

from qsim.core.device.device import cpu
from qsim.core.errors import DeckError
from qsim.sturmian.deck.blocks import System
from qsim.sturmian.driven.numbers import Numbers
from qsim.sturmian.driven.setup import Setup
from qsim.sturmian.radial.potentials import OneBody
from qsim.sturmian.scatter.cross_sections import breit_wigner, eigenphases, phases

ALPHA, CORE = 4.5, 1.2
FAR = 3000.0
DECK = {
    "system": {"Z": 1},
    "grid": {"R": 25, "order": 7},
    "basis": "fedvr",
    "channels": {"L": 0, "S": [0, 1], "l_max": 2},
    "task": {
        "type": "scatter",
        "process": "e_h",
        "energy": [0.002, 0.004, 0.008, 0.014, 0.02],
        "observables": ["sigma", "scattering_length"],
    },
    "solver": {"tolerance": 1e-6},
}


@cache
def wave(k, L, cut):
    """Return u and u' at `cut` bohr of the regular wave in -alpha/(2 (r^2 + d^2)^2)."""

    def slope(r, y):
        V = -0.5 * ALPHA / (r * r + CORE * CORE) ** 2
        return [y[1], (2.0 * V + L * (L + 1) / r**2 - k * k) * y[0]]

    start = 1e-3
    found = solve_ivp(
        slope, (start, cut), [start ** (L + 1), (L + 1) * start**L], "DOP853", rtol=1e-10, atol=1e-14
    )
    return found.y[:, -1]


def phase(k, L, cut):
    """Return the phase, modulo pi, of the model potential up to `cut` bohr, by the logarithmic derivative there."""
    u, slope = wave(k, L, cut)
    x = k * cut
    F, G = x * spherical_jn(L, x), -x * spherical_yn(L, x)
    dF = k * (spherical_jn(L, x) + x * spherical_jn(L, x, derivative=True))
    dG = -k * (spherical_yn(L, x) + x * spherical_yn(L, x, derivative=True))
    return np.arctan2(F * slope - dF * u, dG * u - G * slope) % np.pi


@pytest.mark.slow
@pytest.mark.parametrize("L", [0, 1])
@pytest.mark.parametrize("k", [0.05, 0.2])
def test_the_part_beyond_the_box_is_that_of_the_polarisation(k, L):
    for cut in (15.0, 30.0):
        inside, whole = phase(k, L, cut), phase(k, L, 400.0)
        added = phases.beyond(ALPHA, L, k, inside, cut)
        missing = (whole - inside + 0.5 * np.pi) % np.pi - 0.5 * np.pi
        assert added == pytest.approx(missing, rel=phases.FIRST_ORDER, abs=3e-6)
    assert phases.beyond(0.0, L, k, 1.0, 15.0) == 0.0


@pytest.mark.slow
def test_a_scattering_length_is_that_of_the_wave_at_zero_energy():
    """The line to which u tends has its zero at a, but for alpha/r."""
    u, slope = wave(0.0, 0, FAR)
    exact = FAR - u / slope
    # u = r - a - alpha/r ... in the tail: correct the end by its first order
    exact += ALPHA / FAR
    k = np.array([0.03, 0.05, 0.08, 0.12, 0.16, 0.2])
    found = phases.scattering_length(k[::-1], np.array([phase(x, 0, 400.0) for x in k[::-1]]), ALPHA)
    assert abs(found.value - exact) < found.spread + 1e-3 * abs(exact)
    assert found.spread < 0.05 * abs(exact)
    # so slow that a wrong coefficient of the known terms shows: 3.5 in place of either 3 misses by 0.004
    slower = np.linspace(0.01, 0.08, 6)
    found = phases.scattering_length(slower, np.array([phase(x, 0, 400.0) for x in slower]), ALPHA)
    assert abs(found.value - exact) < 0.002


def test_phases_are_continued_from_the_smallest_wave_number():
    k = np.array([0.9, 0.1, 0.5, 0.7, 0.8])
    true = np.array([4.2, 3.0, 1.9, 2.6, 3.3])
    branches = phases.continuous(true % np.pi, k, (0.0, np.pi))
    assert true % np.pi + np.pi * branches == pytest.approx(true)
    small = phases.continuous(np.array([3.13, np.nan, 0.2]), np.array([0.1, 0.2, 0.3]), (-1.57, 1.57))
    assert list(small) == [-1, 0, 0]


@pytest.mark.exhaustive
def test_scattering_lengths_of_hydrogen_within_their_errors(sturmian):
    """C. Schwartz, Phys. Rev. 124, 1468 (1961): 5.965, 1.7686; at k = 0.2 the phases 2.0673 and 2.7171."""
    result = sturmian.run(**DECK)
    for label, exact in (("singlet", 5.965), ("triplet", 1.7686)):
        value, error = result.elastic.lengths[label]
        assert abs(value - exact) < error < 0.03 * exact
    for label, exact in (("singlet", 2.0673), ("triplet", 2.7171)):
        found = result.elastic.phases[4, label, 0]
        assert abs(found.value - exact) < found.error < 0.02
        assert found.branch == 0
    # the contour was made for the slowest electron
    assert result.problem.numbers.length > 200.0
    assert result.elastic.polarisability == pytest.approx(4.5, rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"system": {"Z": 2}}, "task.observables: the field of the ion, Z = 2, has no scattering length"),
        ({"channels": {"L": 1, "l_max": 2}}, "channels.L: only L = 0 has a scattering length; add it"),
        (
            {"task": {**DECK["task"], "energy": [0.01, 0.02]}},
            "task.observables: a scattering length needs 4 energies up to 0.03125 hartree at least, found 2",
        ),
    ],
)
def test_what_a_scattering_length_needs(sturmian, changes, message):
    with pytest.raises(DeckError, match=message):
        sturmian.load(**{**DECK, **changes})


@pytest.mark.parametrize(
    ("energy", "longest"),
    [(0.005, 160.0), (1.0, 31.0), (0.3752, 400.0), (0.3748, 220.0)],
)
def test_an_automatic_contour_waits_for_the_slowest_channel(sturmian, energy, longest):
    """At 0.375 hartree n = 2 opens: slow electrons above, a wide closed channel below."""
    task = {"type": "scatter", "process": "e_h", "energy": [energy], "observables": ["sigma"]}
    problem = sturmian.build(**{**DECK, "grid": {"R": 25, "order": 10}, "task": task})
    assert 0.6 * longest < problem.numbers.length <= longest


def test_a_resonance_is_found_in_a_phase():
    """A phase with a background and two resonances, one of which the energies do not resolve."""
    E = np.linspace(0.33, 0.37, 161)
    delta = 0.9 - 3.0 * (E - 0.35)
    for energy, width in ((0.3502, 1.7e-3), (0.3651, 2e-6)):
        delta = delta + np.arctan2(0.5 * width, energy - E)
    (found,) = breit_wigner.resonances(E, delta % np.pi)
    assert abs(found.energy - 0.3502) < max(found.energy_error, 1e-7)
    assert abs(found.width - 1.7e-3) < max(found.width_error, 1e-7)
    assert found.width_error < 0.02 * found.width
    assert not breit_wigner.resonances(E, (0.9 - 3.0 * (E - 0.35)) % np.pi)


RANGE = {
    **DECK,
    "grid": {"R": 18, "order": 7, "ecs": {"angle": 0.3, "length": 25}},
    "channels": {"L": 0, "S": 0, "pairs": [[0, 0]]},
    "task": {
        "type": "scatter",
        "process": "e_h",
        "energy": {"from": 0.12, "to": 0.3, "points": 26},
        "observables": ["sigma", "excitation"],
        "errors": False,
    },
}


@pytest.mark.slow
def test_many_energies_start_from_each_other(sturmian):
    """The same numbers as one by one, in fewer steps."""
    many = sturmian.run(**{**RANGE, "solver": {"tolerance": 1e-7}})
    places = [3, 20]
    energies = [many.problem.energies()[i] for i in places]
    few = sturmian.run(
        **{**RANGE, "solver": {"tolerance": 1e-7}, "task": {**RANGE["task"], "energy": energies}}
    )
    for place, seen in zip(places, few.observed, strict=True):
        assert many.observed[place]["singlet"].total[0] == pytest.approx(seen["singlet"].total[0], rel=1e-6)
        assert many.observed[place]["singlet"].matrix[0][0] == pytest.approx(
            seen["singlet"].matrix[0][0], abs=1e-6
        )
    (solved,), (other,) = many.solved, few.solved
    assert solved.residuals.max() <= 1e-6
    assert solved.iterations.mean() < 0.6 * other.iterations.mean()
    assert len(many.observed) == 26


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"from": 0.3, "to": 0.2}, "task.energy.to: the range ends at 0.2 hartree"),
        ({"from": 0.1, "to": 0.2, "points": 2001}, "task.energy.*2000"),
    ],
)
def test_ranges_that_are_no_range(sturmian, given, message):
    with pytest.raises(DeckError, match=message):
        sturmian.load(**{**RANGE, "task": {**RANGE["task"], "energy": given}})


@pytest.mark.slow
def test_a_resonance_in_the_phase_is_the_complex_eigenvalue(sturmian):
    """2s^2 1S of the negative ion of hydrogen with two pairs of momenta, by a fit and as a pole on the contour."""
    model = {**RANGE, "channels": {"L": 0, "S": 0, "pairs": [[0, 0], [1, 1]]}, "solver": {"tolerance": 1e-5}}
    task = {"type": "scatter", "process": "resonances", "near": [-0.148], "errors": False}
    (pole,) = sturmian.run(**{**model, "task": task}).resonances
    middle, width = pole.energy.real + 0.5, pole.width
    task = {
        **RANGE["task"],
        "energy": {"from": middle - 6.0 * width, "to": middle + 6.0 * width, "count": 25},
    }
    result = sturmian.run(**{**model, "task": task})
    (((energy, _), (fitted, error)),) = result.elastic.resonances["singlet", 0]
    # the background is not quite a straight line
    assert abs(energy - middle) < 0.1 * width
    assert abs(fitted - width) < 0.1 * width
    assert error < 0.1 * width
    # the phase rises by pi on its branch
    first, last = (result.elastic.phases[i, "singlet", 0].value for i in (0, 24))
    assert 2.2 < last - first < 3.4


@pytest.mark.slow
def test_eigenphases_above_the_first_excitation(sturmian):
    """S waves on He+ between n = 2 and 3: the S-matrix is symmetric and unitary, and its phase rises by pi across a pole of H.

    The pole, -0.32155 hartree and 0.002574 wide, is that of `process: resonances`, which has neither channels nor sources.
    """
    E_r, width = -0.32155, 0.002574
    places = np.array([-6.0, -0.4, 0.4, 6.0])
    deck = {
        "system": {"Z": 2},
        "grid": {"R": 15, "order": 7, "ecs": {"angle": 0.3, "length": 40}},
        "basis": "fedvr",
        "channels": {"L": 0, "S": 0, "pairs": [[0, 0]]},
        "task": {
            "type": "scatter",
            "process": "e_h",
            "energy": [float(value) for value in 2.0 + E_r + width * places],
            "observables": ["eigenphases"],
        },
    }
    result = sturmian.run(**deck)
    assert all(one["singlet"].levels.keys() == {(1, 0), (2, 0)} for one in result.observed)
    sums = [result.elastic.eigenphases[i, "singlet", 0] for i in range(places.size)]
    delta, errors = np.array([one.value for one in sums]), np.array([one.error for one in sums])
    # A background and its slope are left free.
    rest = delta - np.arctan2(0.5, -places)
    line = np.polynomial.Polynomial.fit(places, rest, 1)
    assert rest == pytest.approx(line(places), abs=0.02)
    assert np.all(errors < 0.02)
    assert delta[-1] - delta[0] > 2.5


def test_a_box_without_an_open_level_has_no_eigenphases():
    """n = 2 of hydrogen needs some 30 bohr; above -0.0078 hartree n = 8 is open, too."""
    setups = [
        Setup(cpu(1), Numbers(R, 6, 0.3, 20.0), 1.0, OneBody(System(Z=1).potential, 1.0))
        for R in (18.0, 45.0)
    ]
    assert [eigenphases.holds_all(one, [(0, 0), (1, 1)], -0.1) for one in setups] == [False, True]
    assert eigenphases.holds_all(setups[0], [(0, 0)], -0.2)
    assert not eigenphases.holds_all(setups[1], [(0, 0)], -0.007)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"energy": [0.6, 0.8]}, "above ionisation the open channels have no end"),
        ({"process": "resonances", "near": -0.15, "energy": None}, "eigenphases belong to process: e_h"),
    ],
)
def test_eigenphases_where_there_are_none(sturmian, changes, message):
    sturmian.refuses(message, **{**DECK, "task": {**DECK["task"], "observables": ["eigenphases"], **changes}})
