"""What tables and corrected cusps change of the orbitals of a file, in hartree."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from qsim.core.errors import InvalidInput
from qsim.qmc.system.radial import KNOTS, LARGEST, Jet, Terms
from qsim.qmc.wavefunction.molecules.cusp import fit_correction
from qsim.qmc.wavefunction.molecules.kept import kinetic_loss
from qsim.qmc.wavefunction.molecules.orbitals import Shell, orbital_set
from qsim.qmc.wavefunction.notes import Notes
from tests.qmc.trials import trial_function


@pytest.mark.parametrize(("n", "zeta", "l"), [(5, 0.2, 0), (4, 0.3, 2), (6, 0.35, 1)])
def test_a_tail_that_is_cut_off_is_an_integral(n, zeta, l):
    """r^(n-1) exp(-zeta r) without what lies beyond the grid: norm and kinetic energy of the rest."""
    f = Terms.of(1.0, n - 1 - l, zeta)
    one = orbital_set(np.zeros((1, 3)), [Shell(0, l, f)], np.pad([[[1.0]]], ((0, 1), (0, 2 * l), (0, 0))))

    def integral(power, begin, end):
        return quad(lambda r: r**power * math.exp(-2.0 * zeta * r), begin, end, epsabs=0.0, epsrel=1e-11)[0]

    def kinetic(begin, end):
        # f' = ((n - 1) / r - zeta) f
        turned = (n - 1) ** 2 + l * (l + 1)
        return 0.5 * (
            turned * integral(2 * n - 2, begin, end)
            - 2 * (n - 1) * zeta * integral(2 * n - 1, begin, end)
            + zeta**2 * integral(2 * n, begin, end)
        )

    norm, whole = integral(2 * n, 0, math.inf), kinetic(0, math.inf)
    cut = kinetic(LARGEST, math.inf) - whole / norm * integral(2 * n, LARGEST, math.inf)
    found = kinetic_loss(one, (1, 0))
    assert found.lost == pytest.approx(abs(cut), rel=1e-4)
    assert found.kinetic == pytest.approx(whole, rel=1e-9)


def test_a_function_that_is_sharper_than_the_grid_is_not_kept():
    """A Gaussian within the first interval, of which a quintic makes what it can; one of 20 intervals is kept to 1e-6."""
    centre = np.zeros((1, 3))
    for width, least, most in ((0.3, 1e-2, 10.0), (20.0, 0.0, 1e-6)):
        b = 0.5 / (width * KNOTS[1]) ** 2
        f = Terms.of((2.0 * b / math.pi) ** 0.75 * math.sqrt(4 * math.pi), 0, 0.0, b)
        found = kinetic_loss(orbital_set(centre, [Shell(0, 0, f)], np.array([[[1.0]], [[0.0]]])), (1, 0))
        assert found.kinetic == pytest.approx(1.5 * b, rel=1e-8)
        assert least <= found.lost / found.kinetic <= most


@pytest.mark.parametrize(
    ("n", "zeta", "told"), [(1, 1.0, None), (3, 1 / 3, None), (4, 0.28, "warned"), (6, 0.12, "refused")]
)
def test_orbitals_that_do_not_fit_into_the_tables_are_told(n, zeta, told):
    notes = Notes()
    shells = [{"atom": "H", "n": n, "l": 0, "zeta": zeta}]
    system = {"atoms": [["H", 0, 0, 0]], "spin": 1}

    def made():
        return trial_function(system, {"source": "sto", "shells": shells}, "none", notes=notes)

    if told == "refused":
        with pytest.raises(InvalidInput, match="tabulated up to 32 bohr"):
            made()
        return
    made()
    assert any("tabulated up to 32 bohr" in text for text in notes.warnings) == (told == "warned")


# Exponents and values at r = 0 of the Gaussians of helium's orbital (PySCF 2.14.0, RHF), and its energy
HELIUM = {
    "sto-3g": (
        [6.36242139, 1.158923, 0.31364979],
        [0.4406303154, 0.4261584489, 0.1328149737],
        -2.807783957540,
    ),
    "cc-pvdz": (
        [38.36, 5.77, 1.24, 0.2976],
        [0.2615532522, 0.4109775172, 0.3936063805, 0.1473244414],
        -2.855160477243,
    ),
}


@pytest.mark.parametrize("basis", HELIUM)
def test_the_change_by_a_cusp_is_that_of_the_determinant(basis):
    """Energy of two electrons in one orbital by quadrature, before and after; the estimate is of first order in the field."""
    exponents, heights, energy = HELIUM[basis]
    chi = Terms.of(heights, 0, 0.0, exponents)
    correction = fit_correction(chi, 2.0)
    x, w = np.polynomial.legendre.leggauss(10)
    edges = np.unique(np.concatenate([[0.0], np.geomspace(1e-5, 40.0, 300), [correction.rc]]))
    half = 0.5 * np.diff(edges)[:, None]
    r, w = ((edges[:-1, None] + half) + half * x).ravel(), (4 * math.pi * half * w).ravel()

    def total(jet):
        density = w * (r * jet.value) ** 2
        one = (w * (0.5 * (r * jet.slope) ** 2 - 2.0 * r * jet.value**2)).sum()
        # repulsion of shells: twice the outer one's potential with the charge within
        within = np.cumsum(density) - 0.5 * density
        return 2 * one / density.sum() + 2 * (density / r * within).sum() / density.sum() ** 2

    before = total(chi(r))
    assert before == pytest.approx(energy, abs=1e-5)
    new = [
        np.where(r < correction.rc, a, b)
        for a, b in zip(correction.corrected(np.minimum(r, correction.rc)), chi(r), strict=True)
    ]
    assert 2 * correction.change(2.0) == pytest.approx(total(Jet(*new)) - before, rel=0.35)
