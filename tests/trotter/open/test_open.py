"""Master equations and steady states against dense matrices, closed forms and exact solutions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

from qsim.core.device.device import cpu
from qsim.trotter.evolve.open.arnoldi import Arnoldi
from qsim.trotter.evolve.open.statistics import counted, numbers_of, windows_of
from qsim.trotter.evolve.result import QUANTITIES
from qsim.trotter.evolve.trajectories.averages import Averages
from qsim.trotter.sectors.digits.liouville import Doubled
from tests.trotter.open import oracle
from tests.trotter.open.test_trajectories import (
    COLLECTIVE,
    DEPHASING,
    DM,
    FIELDS,
    GAMMA,
    VECTOR,
    XXZ,
    XYZ,
    E,
    deck,
    matrices,
)


@pytest.mark.parametrize(
    ("terms", "entries", "order"),
    [([XYZ, *FIELDS], [VECTOR, GAMMA, DEPHASING], None), ([XXZ, DM], [COLLECTIVE, GAMMA, *E], 0)],
)
def test_the_generator_is_the_dense_one(terms: list[Any], entries: list[Any], order: int | None) -> None:
    problem, jumps, H = matrices(deck(terms, entries))
    doubled = Doubled(cpu(1), problem.hamiltonian(), problem.channels, (1, 1, 1), order)
    rng = np.random.default_rng(1)
    rho = rng.normal(size=(8, 8)) + 1j * rng.normal(size=(8, 8))
    rho = rho + rho.conj().T
    weight = np.bitwise_count(np.arange(8)).astype(int)
    inside = np.ones((8, 8), bool) if order is None else weight[:, None] == weight[None, :]
    rho = np.where(inside, rho, 0.0)
    kets, bras = np.nonzero(inside)
    places = doubled.space.index(kets | doubled.turned(bras) << doubled.shift)
    v = np.zeros(doubled.space.dimension, complex)
    v[places] = rho[kets, bras]
    expected = (oracle.liouvillian(H, jumps) @ rho.ravel()).reshape(8, 8)
    # of numbers of order 10 in sums of some tens of terms
    np.testing.assert_allclose((doubled.parts[0][1] @ v)[places], expected[kets, bras], atol=1e-13)
    x = doubled.real_parts[0][1] @ doubled.real_of(v)
    np.testing.assert_allclose(doubled.of_real(x)[places], expected[kets, bras], atol=1e-13)
    assert doubled.trace(v) == pytest.approx(np.trace(rho), abs=1e-13)


def test_exponentials_keep_their_tolerance() -> None:
    rng = np.random.default_rng(2)
    A = rng.normal(size=(60, 60)) - 8.0 * np.eye(60)
    x = rng.normal(size=60)
    for tolerance in (1e-6, 1e-11):
        for dtype in (float, complex):
            found = Arnoldi(60, 12, dtype).advance(lambda y: A @ y, x.astype(dtype), 1.3, tolerance)
            assert np.linalg.norm(found - expm(1.3 * A) @ x) <= 10 * tolerance * np.linalg.norm(x)


def test_one_spin_obeys_blochs_equations(trotter: Any) -> None:
    result = trotter.run(
        **without(
            [{"type": "field", "axis": "z", "values": 0.7}, {"type": "field", "axis": "x", "values": 1.3}],
            [
                {"type": "loss", "rate": 0.4},
                {"type": "pump", "rate": 0.1},
                {"type": "dephasing", "rate": 0.2},
            ],
            system={
                "spins": 1,
                "terms": [
                    {"type": "field", "axis": "z", "values": 0.7},
                    {"type": "field", "axis": "x", "values": 1.3},
                ],
            },
            open={"method": "density_matrix"},
            initial={"type": "basis", "bits": "1"},
            evolve={"t_final": 2.0, "outputs": 2, "accuracy": 1e-11},
            observe=["sx", "sy", "sz"],
        )
    )
    found = [result.mean[name][-1][0] for name in ("sx", "sy", "sz")]
    np.testing.assert_allclose(found, [-0.2248492974789, 0.1393579519893, 0.026930191452], atol=1e-10)


@pytest.mark.parametrize(
    ("spins", "intensity"),
    [(2, [1.96495380738716, 1.47151776468577]), (4, [4.62052527253792, 3.86518735982579])],
)
def test_dickes_burst(trotter: Any, spins: int, intensity: list[float]) -> None:
    result = trotter.run(
        **without(
            [],
            [COLLECTIVE | {"rate": 1.0}],
            system={"spins": spins, "terms": [{"type": "field", "axis": "z", "values": 0.0}]},
            open={"method": "density_matrix"},
            initial={"type": "basis", "bits": "0" * spins},
            evolve={"outputs": [0.1, 0.5], "accuracy": 1e-9},
            observe=["sz", {"correlator": "xx", "pairs": [[0, 1]]}],
        )
    )
    # J+ J- = sum (1/2 + Sz) + sum over pairs of 2 (SxSx + SySy), alike of all pairs
    sz = result.mean["total_sz"][1:]
    pairs = spins * (spins - 1) / 2 * 4 * result.mean["correlator_xx"][1:, 0]
    np.testing.assert_allclose(spins / 2 + sz + pairs, intensity, atol=1e-8)


def without(*args: Any, **more: Any) -> dict[str, Any]:
    """Return a deck without its method."""
    return {key: value for key, value in deck(*args, **more).items() if key != "method"}


def prosen(spins: int) -> float:
    """Return the current of the driven Heisenberg chain of rate 1 by matrix products (Prosen, PRL 107, 137201 (2011))."""
    k = np.arange(spins // 2 + 2)
    A0 = np.diag(1 + 1j * k)
    Ap = np.diag(np.ones(k.size - 1), 1)
    Am = np.diag((k * 0 + (k + 1) * 2j * (1 + 0.5j * k))[:-1], -1)
    T = 2 * np.kron(A0, A0.conj()) + np.kron(Ap, Ap.conj()) + np.kron(Am, Am.conj())
    V = np.kron(Ap, Ap.conj()) - np.kron(Am, Am.conj())
    v = np.zeros(k.size**2)
    v[0] = 1.0
    right = np.linalg.matrix_power(T, spins - 1) @ v
    z = 0.5 * (v @ V @ right / (v @ T @ right)).real
    return float(0.5 - z)


@pytest.mark.parametrize("spins", [2, 3, 5, 6])
def test_prosens_current(trotter: Any, spins: int) -> None:
    result = trotter.run(
        **{
            "task": "steady",
            "system": {"spins": spins, "terms": [{"type": "heisenberg", "lattice": "chain", "J": 1.0}]},
            "dissipation": [
                {"type": "pump", "rate": 1.0, "sites": [0]},
                {"type": "loss", "rate": 1.0, "sites": [spins - 1]},
            ],
            "observe": ["sz"],
        }
    )
    assert result.unique
    exact = {2: 0.25, 3: 0.2, 5: 0.10112359550561797}.get(spins, prosen(spins))
    assert prosen(spins) == pytest.approx(exact, abs=1e-12)
    np.testing.assert_allclose(result.values["current"], exact, atol=max(1e-10, 2 * result.error))


@pytest.mark.parametrize(("rate", "tau"), [(0.9, 2.0), (1e-4, "auto")])
def test_slowest_modes_are_those_of_the_dense_generator(trotter: Any, rate: float, tau: Any) -> None:
    """Rates and frequencies, by the search and by the dense generator of small systems."""
    result = trotter.run(
        **{
            "task": "steady",
            "system": {
                "spins": 4,
                "terms": [
                    {
                        "type": "pairs",
                        "list": [[0, 1, 1.0, 1.0, 0.4], [1, 2, 0.7, 0.7, 1.2], [2, 3, -0.9, 1.1, 0.3]],
                    },
                    {"type": "field", "axis": "x", "values": [0.8, 0.1, -0.3, 0.5]},
                ],
            },
            "dissipation": [{"type": "loss", "rate": rate, "sites": [0]}],
            "steady": {"modes": 5, "tau": tau},
        }
    )
    twos = (1, 1, 1, 1)
    S = oracle.spins(twos)
    H = 0.8 * S[0][0] + 0.1 * S[1][0] - 0.3 * S[2][0] + 0.5 * S[3][0]
    for j, k, *J in [(0, 1, 1.0, 1.0, 0.4), (1, 2, 0.7, 0.7, 1.2), (2, 3, -0.9, 1.1, 0.3)]:
        H = H + sum(J[a] * S[j][a] @ S[k][a] for a in range(3))
    G = oracle.liouvillian(H, [math.sqrt(rate) * (S[0][0] - 1j * S[0][1])])
    values = np.linalg.eigvals(G)
    values = values[np.argsort(-values.real)]
    errors = result.mode_errors[1:] + 1e-12
    assert np.all(errors < 1e-5 * np.abs(values[1:6].real) + 1e-6)
    assert np.all(np.abs(result.modes[1:].real - values[1:6].real) <= errors)
    nearest = np.abs(values[:, None] - result.modes[1:]).min(axis=0)
    assert np.all(nearest <= errors)
    assert result.residual < 1e-10


def test_parallel_eigenvectors_between_jumps(trotter: Any) -> None:
    """Spins without couplings whose states before a jump have one eigenvector alone, h = g / 2: -g / 2 four times."""
    result = trotter.run(
        **{
            "task": "steady",
            "system": {"spins": 4, "terms": [{"type": "field", "axis": "x", "values": 0.5}]},
            "dissipation": [{"type": "loss", "rate": 1.0}],
            "observe": ["sz"],
            "steady": {"modes": 4, "tau": 2.0},
        }
    )
    # the excited share is (h^2 / 4) / (g^2 / 4 + h^2 / 2)
    np.testing.assert_allclose(result.values["sz"], 1 / 6 - 1 / 2, atol=10 * result.error + 1e-12)
    assert np.all(np.abs(-result.modes.real[1:] - 0.5) <= result.mode_errors[1:] + 1e-9)


def test_fluorescence(trotter: Any) -> None:
    for W, dark, side in ((0.3, 0.0131188389836, 0.0007391493265), (3.0, 0.1653967683859, 0.0473585743768)):
        result = trotter.run(
            **{
                "task": "steady",
                "system": {"spins": 1, "terms": [{"type": "field", "axis": "x", "values": W}]},
                "dissipation": [{"type": "loss", "rate": 1.0}],
                "observe": ["sz", {"emission": {"omega": {"from": 0.0, "to": 1.0, "count": 2}}}],
                "steady": {"counting": True},
            }
        )
        # photons come one after the other
        assert result.values["fano"] == pytest.approx(1.0 - 6.0 * W**2 / (1.0 + 2.0 * W**2) ** 2, abs=1e-11)
        assert result.values["fano_entries"][0] == pytest.approx(result.values["fano"], abs=1e-12)
        assert result.values["sz"][0] + 0.5 == pytest.approx(W**2 / 4 / (0.25 + W**2 / 2), abs=1e-12)
        np.testing.assert_allclose(result.values["emission"], [dark, side], atol=1e-10)


def test_correlations_and_rates_of_a_ring(trotter: Any) -> None:
    result = trotter.run(
        **{
            "task": "steady",
            "system": {
                "spins": 4,
                "terms": [
                    {"type": "ising", "lattice": "ring", "J": 1.0},
                    {"type": "field", "axis": "x", "values": 0.8},
                ],
            },
            "dissipation": [{"type": "loss", "rate": 0.3}],
            "observe": ["sz", "sx", {"two_time": {"sites": [0], "t_final": 3.0, "count": 4}}],
        }
    )
    assert result.values["sz"][0] == pytest.approx(-0.12070849517227, abs=1e-10)
    assert result.gap == pytest.approx(0.1641654111, abs=1e-8)
    found = result.values["two_time"][[0, 1, 3], 0] + 1j * result.values["two_time_imag"][[0, 1, 3], 0]
    expected = [0.3792915048277, 0.265834222673 + 1.84481925e-05j, 0.0217896022408 + 0.0022296849053j]
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_errors_of_rare_events_reach_far_enough() -> None:
    rng = np.random.default_rng(4)
    inside = 0
    for _ in range(300):
        averages = Averages()
        count, p = 200, 0.005
        hits = rng.binomial(count, p)
        for k in range(count):
            averages.add({"x": np.array([float(k < hits)])})
        error = averages.errors({"x": (0.0, 1.0)})["x"][0]
        inside += abs(averages.mean["x"][0] - p) <= 2 * error
    # 95 % with three standard deviations of 300 draws
    assert inside >= 300 * 0.95 - 3 * math.sqrt(300 * 0.95 * 0.05)


def test_nothing_rare_can_have_happened_at_the_start() -> None:
    averages = Averages()
    for value in (0.3, 0.5, 0.4):
        averages.add({"x": np.array([0.5, value])})
    plain, found = averages.errors()["x"], averages.errors({"x": (0.0, 1.0)}, begins=True)["x"]
    assert found[0] == plain[0] == 0.0
    assert found[1] == averages.errors({"x": (0.0, 1.0)})["x"][1] > plain[1]


def test_counting_of_independent_jumps() -> None:
    rng = np.random.default_rng(3)
    jumps = [np.column_stack([np.zeros(n), np.arange(n) % 2]) for n in rng.poisson(7.0, 2000)]
    numbers = numbers_of(jumps, np.array([1, 2]))
    assert numbers.shape == (3, 2000)
    assert not numbers[0].any()
    np.testing.assert_array_equal(numbers[1] - numbers[2], [len(one) % 2 for one in jumps])
    found = counted(numbers.sum(axis=0))
    assert abs(found.mean - 7.0) <= 4 * found.mean_error
    assert abs(found.fano - 1.0) <= 4 * found.fano_error
    # sqrt(2 / R) of a variance
    assert found.fano_error == pytest.approx(math.sqrt(2 / 2000), rel=0.2)


def tilted(H: Any, jumps: list[Any], own: list[int], chi: float) -> Any:
    """Return the generator whose jumps of some operators have exp(chi) as factor."""
    G = oracle.liouvillian(H, jumps)
    return G + sum(math.expm1(chi) * np.kron(jumps[k], jumps[k].conj()) for k in own)


def cumulants(value: Any, x: float = 0.02) -> tuple[float, float]:
    """Return the first two derivatives at 0 of a function, by differences of order 6."""
    left, right = ([value(sign * k * x) for k in (1, 2, 3)] for sign in (-1, 1))
    first = sum(c * (b - a) for c, a, b in zip((45, -9, 1), left, right, strict=True)) / (60 * x)
    middle = -490 * value(0.0)
    second = sum(c * (a + b) for c, a, b in zip((270, -27, 2), left, right, strict=True)) + middle
    return float(first), float(second / (180 * x**2))


def test_counting_against_the_tilted_generator(trotter: Any) -> None:
    made = deck([XYZ, *FIELDS], [*E, {"type": "pump", "rate": 0.3}, VECTOR])
    problem, jumps, H = matrices(made)
    entries = np.array([channel.entry for channel in problem.channels])
    for name in ("method", "initial", "evolve", "open"):
        del made[name]
    found = trotter.run(**made, task="steady", steady={"counting": True})
    for entry in range(3):
        own = np.flatnonzero(entries == entry).tolist()

        def largest(chi: float, own: list[int] = own) -> float:
            return float(np.linalg.eigvals(tilted(H, jumps, own, chi)).real.max())

        rate, variance = cumulants(largest)
        assert found.jumps[entry] == pytest.approx(rate, abs=1e-9)
        assert found.values["fano_entries"][entry] == pytest.approx(variance / rate, abs=1e-7)


def test_counting_in_windows(trotter: Any) -> None:
    W, window, after = 1.0, 20.0, 10.0
    result = trotter.run(
        system={"spins": 1, "terms": [{"type": "field", "axis": "x", "values": W}]},
        dissipation=[{"type": "loss", "rate": 1.0}],
        open={"trajectories": 300, "counting": {"window": window, "after": after}},
        initial={"type": "basis", "bits": "1"},
        evolve={"t_final": 51.0, "outputs": 2, "accuracy": 1e-4},
    )
    spin = oracle.spin(1)
    H, L = W * spin[0], spin[0] - 1j * spin[1]
    rho = oracle.steady(H, [L])

    def logarithm(chi: float) -> float:
        late = expm(tilted(H, [L], [0], chi) * window) @ rho.ravel()
        return math.log(late.reshape(2, 2).trace().real)

    mean, variance = cumulants(logarithm)
    # one photon after the other; the ends of a window are a part of one
    assert variance / mean == pytest.approx(1.0 - 6.0 * W**2 / (1.0 + 2.0 * W**2) ** 2, abs=1.0 / window)
    scalars = {one.name: one for one in QUANTITIES}
    rate, fano = scalars["window_rate"], scalars["window_fano"]
    assert rate.error is not None
    assert fano.error is not None
    assert abs(rate.value(result) - mean / window) <= 4 * rate.error(result)
    assert abs(fano.value(result) - variance / mean) <= 4 * fano.error(result)
    assert fano.error(result) < 0.06
    shares = scalars["window_counts"].value(result)
    assert shares.sum() == pytest.approx(1.0)
    assert shares @ np.arange(shares.size) == pytest.approx(window * rate.value(result))


def test_windows_and_what_is_refused(trotter: Any) -> None:
    jumps = [np.array([[0.5, 0], [1.5, 1], [2.5, 0], [2.9, 0]]), np.zeros((0, 2))]
    found = windows_of(jumps, np.array([True, False]), 1.0, (0.4, 3.5))
    np.testing.assert_array_equal(found, [[1, 0], [0, 0], [2, 0]])
    made = without([XYZ], E)
    for counting, text in (
        ({"window": 9.0}, "ends after t_final"),
        ({"window": 1.0, "jumps": [1]}, "entries 0 to 0"),
    ):
        trotter.refuses(text, **{**made, "open": {"counting": counting}})
    both = {"method": "density_matrix", "counting": {"window": 1.0}}
    trotter.refuses("those of trajectories", **{**made, "open": both})
    assert trotter.build(**{**made, "open": {"counting": {"window": 1.0}}}).jumping
