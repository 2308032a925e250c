"""Lines and decays of nuclei: closed forms, numbers of other programs, dense matrices."""

import contextlib
import itertools
import math

import numpy as np
import pytest

import qsim
from qsim.core.deck.load import load_deck
from qsim.core.device.device import cpu
from qsim.core.errors import DeckError
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.deck.nmr.fid import Dipolar
from qsim.trotter.deck.nmr.isotopes import ISOTOPES
from qsim.trotter.fid.build import build
from qsim.trotter.fid.dipolar import constants, dipolar_jumps
from qsim.trotter.fid.lines import decay, merged
from qsim.trotter.fid.problem import multiplicity
from qsim.trotter.fid.run import Computation
from qsim.trotter.model.larger import spin_matrices


def deck(shifts, couplings, *, field=100.0, nuclei=None, fid=None, T2=0.5, **more):
    terms = [{"type": "shifts", "ppm": shifts}]
    if couplings:
        terms.append({"type": "scalar", "list": couplings, **more})
    nuclei = nuclei or ["1H"] * len(shifts)
    return {
        "method": "trotter",
        "task": "fid",
        "system": {"nuclei": nuclei, "spectrometer": field, "terms": terms},
        "relaxation": {"T2": T2},
        "fid": {"points": 64, "width": 4000.0, **(fid or {})},
        "run": {"device": "cpu"},
    }


def test_two_nuclei():
    """(-+ c -+ J) / 2 with c = sqrt(d^2 + J^2) and intensities 1 -+ J / c."""
    d, J = 12.0, 10.0
    results = qsim.run(deck([0.06, -0.06], [[0, 1, J]]))
    c = math.hypot(d, J)
    found = dict(zip(results["line_frequency"][::-1], 4.0 * results["line_intensity"][::-1], strict=True))
    known = {
        -(c + J) / 2: 1 - J / c,
        -(c - J) / 2: 1 + J / c,
        (c - J) / 2: 1 + J / c,
        (c + J) / 2: 1 - J / c,
    }
    assert list(found) == pytest.approx(sorted(known), abs=1e-11)
    assert list(found.values()) == pytest.approx([known[key] for key in sorted(known)], abs=1e-12)


def test_a_vinyl_group():
    """Lines of nmrsim, whose intensities are a quarter of these; three combination lines are weak."""
    lines = {
        453.0272285426: 0.9153153344,
        454.5995469079: 1.0382147755,
        459.2852779747: 0.9800727945,
        460.85759634: 1.0663001514,
        480.0541561124: 1.0052393523,
        481.6264744777: 0.8782514617,
        494.0084250456: 1.0993720332,
        495.5807434109: 1.0172331256,
        717.1339786144: 1.0835337627,
        723.3920280465: 1.0328673939,
        731.0882475476: 0.9627316395,
        737.3462969797: 0.9205551724,
    }
    results = qsim.run(
        deck(
            [7.27, 4.88, 4.57],
            [[0, 1, "13.97 Hz"], [0, 2, 6.25], [1, 2, -1.58]],
            fid={"least": 1e-9, "points": 4096},
        )
    )
    found = np.column_stack([results["line_frequency"], 12.0 * results["line_intensity"]])[::-1]
    strong = found[found[:, 1] > 0.1]
    np.testing.assert_allclose(strong[:, 0], sorted(lines), rtol=0, atol=1e-8)
    np.testing.assert_allclose(strong[:, 1], [lines[key] for key in sorted(lines)], rtol=0, atol=1e-8)
    assert len(found) == 15
    np.testing.assert_allclose(results["multiplet_nuclei"], 1.0, rtol=0, atol=1e-2)


def test_a_decay():
    """AA'BB' at 60 MHz: s(0.05 s) with T2 = 0.5 s, by scipy.linalg.expm of the dense matrix."""
    J = {(0, 1): 0.35, (2, 3): 7.47, (0, 2): 8.06, (1, 3): 8.06, (0, 3): 1.53, (1, 2): 1.53}
    fid = {"carrier": 7.275, "width": 200.0, "points": 16}
    results = qsim.run(
        deck([7.40, 7.40, 7.15, 7.15], [[*pair, value] for pair, value in J.items()], field=60.0, fid=fid)
    )
    assert results["fid_time"][10] == 50.0
    assert abs(results["fid"][10] + 0.07159220042124768) < 1e-13
    assert abs(results["fid"][0] - 1.0) < 1e-13


def test_a_decay_with_fields_at_every_nucleus():
    """The same molecule with dephasing of 2 / s at every nucleus: coherences of several spins decay faster."""
    J = {(0, 1): 0.35, (2, 3): 7.47, (0, 2): 8.06, (1, 3): 8.06, (0, 3): 1.53, (1, 2): 1.53}
    fid = {"carrier": 7.275, "width": 200.0, "points": 16}
    couplings = [[*pair, value] for pair, value in J.items()]
    results = qsim.run(deck([7.40, 7.40, 7.15, 7.15], couplings, field=60.0, fid=fid, T2=[0.5] * 4))
    assert abs(results["fid"][10] - (-0.0713499961876873 + 0.0006061440228675j)) < 1e-11


def test_a_nucleus_that_flips_fast_decouples_itself():
    """A I coupled to S that flips at 1 / T1: J^2 T1 pi^2 widens the line, for (2 pi J T1)^2 << 1 (Abragam)."""
    J, T1 = 5.0, 2e-3
    given = deck([1.0, 50.0], [[0, 1, J]], nuclei=["1H", "13C"], fid={"width": 400.0})
    given["relaxation"] = {"T1": [1e6, T1], "T2": [2.0, T1]}
    results = qsim.run(given)
    strong = np.argmax(results["line_intensity"])
    # k = 1 / (2 T1): the quadrature of (pi J)^2 = r (1 / T1 - r)
    r = 0.5 * (1 / T1 - math.sqrt(1 / T1**2 - 4 * (math.pi * J) ** 2))
    assert results["line_width"][strong] == pytest.approx((0.5 + r) / math.pi, rel=1e-6)
    assert results["line_frequency"][strong] == pytest.approx(100.0, abs=1e-9)


def test_decoupled_nuclei_split_no_lines():
    couplings = [[0, 1, 140.0], [0, 2, 140.0], [1, 2, -12.0]]
    given = deck([20.0, 1.0, 1.2], couplings, nuclei=["13C", "1H", "1H"], fid={"decouple": ["1H"]})
    results = qsim.run(given)
    np.testing.assert_allclose(results["line_ppm"], [20.0], atol=1e-11)
    given["fid"] |= {"detect": "1H", "decouple": ["13C", 2]}
    results = qsim.run(given)
    np.testing.assert_allclose(results["line_ppm"], [1.0], atol=1e-11)
    assert results.scalars["detected"].value == 1


def test_a_phase_turns_absorption_into_dispersion():
    fid = {"points": 512, "width": 400.0}
    plain, turned = (qsim.run(deck([1.0, 2.0], [[0, 1, 7.0]], fid={**fid, "phase": p})) for p in (0, 90))
    np.testing.assert_allclose(turned["absorption"], -plain["dispersion"], atol=1e-12)
    np.testing.assert_allclose(turned["dispersion"], plain["absorption"], atol=1e-12)


@pytest.mark.parametrize("count", range(1, 7))
def test_multiplicities_count_all_states(count):
    assert sum(multiplicity(count, two) * (two + 1) for two in range(count, -1, -2)) == 2**count


def test_equivalent_nuclei_make_no_difference():
    """A coupling within a methyl group shows nowhere; a tiny one to a fourth nucleus breaks the group, and changes little."""
    pairs = [[j, k, 7.0] for j, k in itertools.product(range(3), (3, 4))]
    plain = qsim.run(deck([1.2] * 3 + [3.6] * 2, pairs))
    inner = qsim.run(deck([1.2] * 3 + [3.6] * 2, [*pairs, [0, 1, -12.0], [0, 2, -12.0], [1, 2, -12.0]]))
    assert plain.scalars["groups"].value == inner.scalars["groups"].value == 2
    np.testing.assert_allclose(plain["fid"], inner["fid"], rtol=0, atol=1e-10)
    pairs[0] = [0, 3, 7.0 + 1e-9]
    broken = qsim.run(deck([1.2] * 3 + [3.6] * 2, pairs))
    assert broken.scalars["groups"].value == 4
    # the phase of a line at the end, 2 pi 1e-9 Hz times 16 ms
    np.testing.assert_allclose(plain["fid"], broken["fid"], rtol=0, atol=1e-9)


def test_unlike_nuclei_couple_weakly_and_are_seen_apart():
    nuclei = ["13C", "1H", "1H"]
    couplings = [[0, 1, 140.0], [0, 2, 140.0]]
    carbon = qsim.run(deck([20.0, 1.0, 1.0], couplings, nuclei=nuclei))
    assert carbon.scalars["isotope"].value == "13C"
    middle = 20.0 * 25.145020
    np.testing.assert_allclose(carbon["line_frequency"], middle + np.array([140.0, 0.0, -140.0]), atol=1e-9)
    np.testing.assert_allclose(carbon["line_intensity"], [0.25, 0.5, 0.25], atol=1e-12)
    proton = qsim.run(deck([20.0, 1.0, 1.0], couplings, nuclei=nuclei, fid={"detect": "1H"}))
    np.testing.assert_allclose(proton["line_ppm"], [1.0 + 0.7, 1.0 - 0.7], atol=1e-11)
    assert proton.scalars["detected"].value == 2


def test_a_deuterium_splits_into_three():
    results = qsim.run(deck([77.0, 7.3], [[0, 1, 30.0]], nuclei=["13C", "2H"]))
    np.testing.assert_allclose(results["line_intensity"], [1 / 3] * 3, atol=1e-12)
    np.testing.assert_allclose(np.diff(results["line_frequency"]), [-30.0, -30.0], atol=1e-9)


def test_the_area_of_the_spectrum_is_one_and_a_line_has_its_width():
    fid = {"points": 16384, "width": 400.0, "zero_fill": 4, "apodise": {"exponential": 0.3}}
    results = qsim.run(deck([1.0], [], T2=1.0, fid=fid))
    step = results["spectrum_frequency"][0] - results["spectrum_frequency"][1]
    assert results["absorption"].sum() * step == pytest.approx(1.0, abs=1e-12)
    wide = 1.0 / math.pi + 0.3
    above = results["spectrum_frequency"][results["absorption"] > 0.5 * results["absorption"].max()]
    # half of the height is met within a step on both sides
    assert above[0] - above[-1] == pytest.approx(wide, abs=2.0 * step)
    assert results["absorption"].max() == pytest.approx(2.0 / (math.pi * wide), rel=0.01)
    top = results["spectrum_frequency"][np.argmax(results["absorption"])]
    assert top == pytest.approx(100.0, abs=step)


def test_a_tesla_is_a_frequency():
    megahertz = qsim.run(deck([1.0, 2.0], [[0, 1, 7.0]], field="400 MHz"))
    tesla = qsim.run(deck([1.0, 2.0], [[0, 1, 7.0]], field=f"{400.0 / 42.577478461!r} T"))
    np.testing.assert_allclose(megahertz["line_frequency"], tesla["line_frequency"], rtol=1e-12)


def test_a_sum_of_phases():
    rng = np.random.default_rng(7)
    lines = np.column_stack([rng.uniform(-400, 400, 60), rng.normal(size=(2, 60)).T, rng.random(60)])
    t = np.arange(700) / 900.0
    nu, real, imag, rate = lines.T
    known = ((real + 1j * imag) * np.exp(np.outer(t, 2j * np.pi * nu - rate))).sum(1)
    # phases of 2 pi times 311 cycles, rounded, and 60 sums
    np.testing.assert_allclose(decay(lines, 1 / 900.0, 700), known, rtol=0, atol=1e-11)


def test_lines_within_rounding_are_one():
    lines = np.array([[2.0, 1.0], [1.0, 3.0], [1.0 + 1e-12, 1.0]])
    np.testing.assert_allclose(merged(lines, 1e-11), [[1.0 + 0.25e-12, 4.0], [2.0, 1.0]], rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"system": {"nuclei": ["1H", "1X"]}}, r"system.nuclei.1: unknown nucleus '1X'"),
        ({"system": {"spectrometer": None}}, r"ppm need the field"),
        (
            {"system": {"spectrometer": "400 kg"}},
            r"spectrometer.*expected the frequency of protons or a field",
        ),
        ({"fid": {"detect": "13C"}}, r"fid.detect: no site is a 13C; found 1H"),
        ({"fid": {"width": "12 inches"}}, r"fid.width"),
        ({"fid": {"width": "0 ppm"}}, r"fid.width: must be above 0, found 0 ppm"),
        ({"relaxation": {"T2": 1.0, "linewidth": 2.0}}, r"relaxation.linewidth: give either T2 or linewidth"),
        ({"relaxation": {"T2": [1.0]}}, r"relaxation.T2: 1 times, but system.spins = 2"),
        ({"relaxation": {"T2": 3.0, "T1": 1.0}}, r"T2 of site 0 is 3 s, longer than twice its T1 = 1 s"),
        ({"fid": {"decouple": ["1H"]}}, r"1H is observed; name single nuclei"),
        ({"fid": {"decouple": [2]}}, r"fid.decouple.0"),
        ({"sector": {"sz": 0}}, r"sector: task: fid takes all sectors of Sz"),
        (
            {"system": {"terms": [{"type": "shifts", "ppm": [1.0]}]}},
            r"system.terms.0.ppm: 1 values, but system.spins = 2",
        ),
        ({"system": {"terms": [{"type": "scalar", "list": [[0, 0, 1.0]]}]}}, r"site 0 is coupled to itself"),
        (
            {
                "system": {
                    "terms": [
                        {"type": "shifts", "ppm": [1, 2]},
                        {"type": "field", "axis": "x", "values": 1.0},
                    ]
                }
            },
            r"lines need a conserved total Iz: the field along x",
        ),
    ],
)
def test_mistakes_are_told(change, text):
    given = deck([1.0, 2.0], [[0, 1, 7.0]])
    for key, block in change.items():
        given[key] = {**given.get(key, {}), **block} if isinstance(block, dict) and key != "sector" else block
    with pytest.raises(DeckError, match=text):
        qsim.run(given)


def test_parts_without_a_coupling_are_found_apart():
    """Twenty protons in ten pairs: each pair has the lines of two nuclei."""
    shifts = [0.5 * k + d for k in range(10) for d in (0.06, -0.06)]
    results = qsim.run(deck(shifts, [[2 * k, 2 * k + 1, 10.0] for k in range(10)], fid={"least": 1e-9}))
    assert results.scalars["dimension"].value == 2
    c = math.hypot(12.0, 10.0)
    own = np.array([-(c + 10) / 2, -(c - 10) / 2, (c - 10) / 2, (c + 10) / 2])
    known = np.sort(np.concatenate([50.0 * k + own for k in range(10)]))
    np.testing.assert_allclose(results["line_frequency"][::-1], known, rtol=0, atol=1e-10)
    np.testing.assert_allclose(results["integral"][-1], 20.0, rtol=1e-12)


def test_too_many_nuclei_are_refused():
    with pytest.raises(DeckError, match="too many to diagonalise"):
        qsim.run(deck(list(np.linspace(1, 8, 16)), [[j, j + 1, 7.0] for j in range(15)]))


def test_lines_outside_of_the_spectrum_fold(caplog):
    qsim.run(deck([1.0, 5.0], [[0, 1, 7.0]], fid={"width": 100.0, "carrier": 1.0}))
    assert "2 of 4 lines fold" in caplog.text


@pytest.mark.parametrize(
    ("name", "Cq", "eta", "levels"),
    [
        ("2H", 1.0, 0.3, [-0.5, 0.175, 0.325]),
        ("23Na", 2.0, 0.4, [-0.5131601439] * 2 + [0.5131601439] * 2),
        ("27Al", 3.0, 0.2, [-0.6104496156] * 2 + [-0.1412205417] * 2 + [0.7516701573] * 2),
    ],
)
def test_levels_of_a_quadrupole(name, Cq, eta, levels):
    """Known to ten digits; of I = 3/2 the line is Cq / 2 sqrt(1 + eta^2 / 3)."""
    terms = [{"type": "quadrupole", "Cq": Cq, "eta": eta}]
    given = {
        "method": "trotter",
        "task": "levels",
        "system": {"spins": 1, "nuclei": name, "terms": terms},
        "sector": "full",
        "levels": {"window": "all"},
        "run": {"device": "cpu"},
    }
    np.testing.assert_allclose(qsim.run(given)["levels"][0], levels, rtol=0, atol=1e-9)


def test_a_quadrupole_splits_a_line():
    """2H in a crystal with its axis along the field: two lines, 3 Cq / 2 apart."""
    given = deck([3.0], [], nuclei=["2H"], fid={"width": 1e6})
    given["system"]["terms"].append({"type": "quadrupole", "Cq": "200 kHz"})
    results = qsim.run(given)
    np.testing.assert_allclose(-np.diff(results["line_frequency"]), 3e5, rtol=1e-12)
    np.testing.assert_allclose(results["line_intensity"], 0.5, atol=1e-12)


def test_shifts_and_couplings_from_files(tmp_path):
    (tmp_path / "shifts.csv").write_text("1.0\n2.0\n")
    (tmp_path / "J.csv").write_text("0, 1, 7.0\n")
    given = deck([1.0, 2.0], [[0, 1, 7.0]])
    known = qsim.run(given)
    given["system"]["terms"] = [
        {"type": "shifts", "file": str(tmp_path / "shifts.csv")},
        {"type": "scalar", "file": str(tmp_path / "J.csv")},
    ]
    np.testing.assert_array_equal(qsim.run(given)["line_frequency"], known["line_frequency"])


def test_levels_of_nuclei_are_those_of_the_same_couplings():
    """The terms of nuclei are terms of all tasks."""
    given = deck([1.0, 2.0], [[0, 1, 7.0]]) | {"task": "levels", "sector": {"sz": 0}}
    del given["fid"], given["relaxation"]
    c = math.hypot(100.0, 7.0)
    np.testing.assert_allclose(qsim.run(given)["levels"][0], [-7 / 4 - c / 2, -7 / 4 + c / 2], atol=1e-10)


def test_a_stopped_run_continues_to_the_same_bits():
    given = deck(
        [1.2] * 3 + [3.6] * 2 + [5.2],
        [[j, k, 7.0] for j in range(3) for k in (3, 4)] + [[3, 5, 4.8], [4, 5, 4.8]],
    )
    loaded = load_deck(given, TrotterDeck)
    problem = build(loaded, cpu(1))

    class Stop(Exception):
        pass

    def run(made, stop):
        def report(progress):
            if made.done == stop:
                raise Stop

        with contextlib.suppress(Stop):
            made.advance(report)
        return made

    whole = run(Computation(problem, None), -1)
    half = run(Computation(problem, None), 7)
    assert half.done == 7
    again = run(Computation(problem, half.state()), -1)
    np.testing.assert_array_equal(again.state()["lines"], whole.state()["lines"])


def test_dipolar_rates_of_pairs():
    """T1, nuclear Overhauser effect and T2 of two protons, of 13C and of 15N beside one (Solomon, Phys. Rev. 99, 559)."""
    spins = (
        [np.kron(np.eye(2), m) for m in spin_matrices(1)],
        [np.kron(m, np.eye(2)) for m in spin_matrices(1)],
    )
    for pair, tau in itertools.product((("1H", "1H"), ("13C", "1H"), ("15N", "1H")), (2e-11, 8e-10, 2e-8)):
        block = Dipolar(positions=[[0.1, 0.2, 0.3], [0.9, -0.6, 0.5]], tau_c=tau)
        jumps = dipolar_jumps((1, 1), pair, block, 400.0)
        b = constants(pair, np.array(block.positions))[0, 1]
        wj, wk = (2e6 * math.pi * 400.0 * ISOTOPES[one].share * ISOTOPES[one].sign for one in pair)

        def J(w, tau=tau):
            return tau / (1.0 + (w * tau) ** 2)

        def decay(A, B, jumps=jumps):
            """Tr B D[A], over Tr B B."""
            out = sum(L @ A @ L.conj().T for L in jumps)
            n = sum(L.conj().T @ L for L in jumps)
            return (np.trace(B.conj().T @ (out - 0.5 * (n @ A + A @ n))) / np.trace(B.conj().T @ B)).real

        (xj, yj, zj), (xk, yk, zk) = spins
        auto = 0.1 * b**2 * (J(wj - wk) + 3 * J(wj) + 6 * J(wj + wk))
        cross = 0.1 * b**2 * (6 * J(wj + wk) - J(wj - wk))
        assert decay(zj, zj) == pytest.approx(-auto, rel=1e-10)
        assert decay(zj, zk) == pytest.approx(-cross, rel=1e-10)
        if wj == wk:
            total = xj + 1j * yj + xk + 1j * yk
            rate = 0.15 * b**2 * (3 * J(0) + 5 * J(wj) + 2 * J(2 * wj))
        else:
            total = xj + 1j * yj
            rate = 0.05 * b**2 * (4 * J(0) + J(wj - wk) + 3 * J(wj) + 6 * J(wk) + 6 * J(wj + wk))
        assert decay(total, total) == pytest.approx(-rate, rel=1e-10)


def test_dipolar_width():
    given = deck([0.0, 0.0], [], field=500.0)
    tau, r = 5e-9, 1.78
    places = [[0.0, 0.0, 0.0], [0.0, r, 0.0]]
    given["relaxation"] = {"dipolar": {"positions": places, "tau_c": "5 ns"}}
    results = qsim.run(given)
    w, b = 2e6 * math.pi * 500.0 * tau, constants(["1H", "1H"], np.array(places))[0, 1]
    assert b / (2 * math.pi) == pytest.approx(120120.0 / r**3, rel=1e-4)
    rate = 0.15 * b**2 * tau * (3 + 5 / (1 + w**2) + 2 / (1 + 4 * w**2))
    np.testing.assert_allclose(results["line_width"], rate / math.pi, rtol=1e-9)
    assert results["line_intensity"].sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"positions": [[0, 0, 0]] * 2, "tau_c": 1e-9}, "site 1 is 0 angstrom from site 0"),
        ({"positions": [[0, 0, 0], [0, 0, 2], [2, 0, 0]], "tau_c": 1e-9}, "3 places, but system.spins = 2"),
        ({"positions": [[0, 0, 0], [0, 0, 2]], "tau_c": -1}, "tau_c"),
    ],
)
def test_dipolar_mistakes(block, text):
    given = deck([0.0, 1.0], [])
    given["relaxation"] = {"dipolar": block}
    with pytest.raises(DeckError, match=text):
        qsim.run(given)
