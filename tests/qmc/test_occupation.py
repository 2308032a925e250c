"""Configurations of self-consistent fields of atoms, and basis functions that no occupied orbital uses."""

from importlib.util import find_spec

import numpy as np
import pytest

from qsim.core.errors import DeckError, InvalidInput
from qsim.qmc.wavefunction.molecules.gaussian import PyscfMissing
from qsim.qmc.wavefunction.molecules.occupation import unusual, words

needs_pyscf = pytest.mark.skipif(find_spec("pyscf") is None, reason="PySCF is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pyscf")
IRON = [8, 12, 6, 0]


@pytest.mark.parametrize(
    ("up", "down", "core", "told"),
    [([2, 3, 5], [2, 3, 1], 10, False), ([2, 3, 5], [1, 3, 2], 10, True), ([4, 6, 5], [4, 6, 1], 0, False)],
)
def test_iron_of_another_configuration_is_told(up, down, core, told):
    found = np.array([up, down], float)
    assert bool(unusual(found, IRON, core)) == told
    if told:
        assert unusual(found, IRON, core) == "the ground state of this atom has s4 p6 d6"


def test_words():
    assert words(np.array([[2.0, 0.999, 0.001], [1.99, 0.0, 0.0]])) == "s 2+2, p 1+0"
    assert words(np.array([[2.0, 0.6], [2.0, 0.0]])) == "s 2+2, p 0.60+0"


def atom(symbol, spin, **keys):
    return {
        "system": {"atoms": [[symbol, 0, 0, 0]], "spin": spin},
        "wavefunction": {"orbitals": {"source": "pyscf", "method": "uhf", "basis": "6-31g", **keys}},
        "series": [{"vmc": {"walkers": 8, "blocks": 1, "steps": 1}}],
    }


@needs_pyscf
def test_an_occupation_is_kept(qmc):
    """Boron, 2s 2p2 of spin 1/2 instead of 2s2 2p: a higher energy, and the report says what it is."""
    ground = qmc.build(**atom("B", 1))
    excited = qmc.build(**atom("B", 1, occupation={"s": [2, 1], "p": [1, 1]}))
    energies = [p.wavefunction.orbitals.about["energy"] for p in (ground, excited)]
    assert energies[1] > energies[0] + 0.05
    assert "configuration s 2+2, p 1+0" in ground.notices[0]
    assert "configuration s 2+1, p 1+1" in excited.notices[0]
    assert ground.warnings == excited.warnings == []


@needs_pyscf
def test_another_configuration_than_usual_is_told(qmc, monkeypatch):
    """The usual one is changed here, since light atoms have no other."""
    from pyscf.data import elements

    changed = [*elements.CONFIGURATION[:5], [3, 2, 0, 0], *elements.CONFIGURATION[6:]]
    monkeypatch.setattr(elements, "CONFIGURATION", changed)
    (text,) = qmc.build(**atom("B", 1)).warnings
    assert "configuration s 2+2, p 1+0" in text
    assert "the ground state of this atom has s3 p2" in text
    assert "give occupation" in text


@needs_pyscf
@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"occupation": {"s": [2, 2]}}, "2 electrons with spin up and 2 with spin down, the system 3 and 2"),
        ({"occupation": {"s": [2, 2], "d": [1, 0]}}, "no d functions"),
    ],
)
def test_occupations_that_do_not_fit(qmc, keys, text):
    with pytest.raises(DeckError, match=text):
        qmc.build(**atom("B", 1, **keys))


@needs_pyscf
def test_an_instability_is_followed(qmc):
    """H2 stretched to 4 bohr: UHF from the restricted guess is a saddle point, 0.1 hartree above the broken symmetry."""
    deck = atom("H", 0)
    deck["system"]["atoms"] = [["H", 0, 0, 0], ["H", 0, 0, 4.0]]
    plain = qmc.build(**deck).wavefunction.orbitals.about
    deck["wavefunction"]["orbitals"] |= {"stability": True, "guess": "1e"}
    stable = qmc.build(**deck).wavefunction.orbitals.about
    assert stable["energy"] < plain["energy"] - 0.05
    assert stable["doubts"] == []


@needs_pyscf
def test_functions_of_high_momentum_that_nothing_uses_are_left_out(qmc):
    """h functions of neon's quintuple-zeta basis are in no occupied orbital."""
    deck = atom("Ne", 0, method="rhf", basis="cc-pv5z")
    orbitals = qmc.build(**deck).wavefunction.orbitals
    assert max(shell.l for shell in orbitals.shells) == 4
    assert orbitals.about["energy"] == pytest.approx(
        -128.5467, abs=1e-3
    )  # near the Hartree-Fock limit, -128.5471


def test_missing_pyscf_is_a_missing_package():
    """Exit code 4, as of any optional package that is missing, not that of a bug."""
    assert PyscfMissing.exit_code == 4
    assert not issubclass(PyscfMissing, InvalidInput)
