"""Effective core potentials that are carried: against other files, and by what their authors state of every element."""

import math

import numpy as np
import pytest

from qsim.core.errors import InvalidInput
from qsim.qmc.deck.elements import atomic_number
from qsim.qmc.system import library
from qsim.qmc.system.pseudopotentials import from_ecp
from qsim.qmc.wavefunction.formats.chkfile import read_chkfile
from qsim.qmc.wavefunction.molecules import gaussian
from tests.qmc.test_import import OH

ELEMENTS = [
    "H",
    "He",
    "Li",
    "Be",
    "B",
    "C",
    "N",
    "O",
    "F",
    "Ne",
    "Na",
    "Mg",
    "Al",
    "Si",
    "P",
    "S",
    "Cl",
    "Ar",
]


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("name", ["ccecp", "bfd"])
def test_the_singularity_of_the_nucleus_is_cancelled(name, element):
    """Of the local channel: terms 1/r sum to Z_eff, and terms r to Z_eff times their exponents (Bennett et al. 2017, Eq. 2).

    Both families demand that V is finite at r = 0 with no slope there: -Z/r + sum c (1 - a r^2)/r + r c3 has neither 1/r nor r.
    """
    core, parts = library.carried(name, element)
    local = dict((l, terms) for l, terms in parts)[-1]
    charge = atomic_number(element) - core
    assert sum(c for _, c in local[1]) == pytest.approx(charge, abs=1e-9)
    # H of BFD, as of all elements: printed with 9 digits
    assert sum(a * c for a, c in local[1]) == pytest.approx(sum(c for _, c in local[3]), rel=3e-6)
    made = from_ecp(element, atomic_number(element), (core, parts), name)
    assert made.charge == charge
    # what is not local stays within two bohr of these small cores
    assert made.cutoff < 4.5
    r = np.array([1e-4, 2e-4])
    v = (made.local(r).value - charge) / r
    assert math.isfinite(v[0])
    assert v[0] == pytest.approx(v[1], rel=1e-5)


def test_oxygen_is_that_of_a_file_of_another_program():
    """The chkfile of PySCF holds the potential that its library had."""
    core, parts = read_chkfile(OH).ecp.ecp["O"]
    own_core, own = library.carried("ccECP", "O")
    assert own_core == core

    def terms(found):
        return {l: [sorted(map(tuple, pairs)) for pairs in (*by_n, [], [], [], [])[:4]] for l, by_n in found}

    assert terms(own) == terms(parts)


def test_names(monkeypatch):
    def absent():
        raise gaussian.PyscfMissing("no PySCF")

    monkeypatch.setattr(gaussian, "_pyscf", absent)
    assert gaussian.library_ecp("bfd-pp", "C1", None, "k")[0] == 2
    with pytest.raises(InvalidInput, match="no pseudopotential is called 'ccepc'; did you mean 'ccecp'"):
        gaussian.library_ecp("ccepc", "O", None, "k")
    with pytest.raises(
        gaussian.PyscfMissing, match="'ccecp' of Fe needs PySCF.* there are ccecp and bfd of H to Ar"
    ):
        gaussian.library_ecp("ccecp", "Fe", None, "k")
    with pytest.raises(gaussian.PyscfMissing, match="'lanl2dz' of O needs PySCF"):
        gaussian.library_ecp("lanl2dz", "O", None, "k")
