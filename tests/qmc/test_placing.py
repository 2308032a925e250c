"""Where walkers start: each region that nodes or distances shut off has its share of them."""

import numpy as np
import pytest

from qsim.core.device import rng
from qsim.core.device.device import cpu
from qsim.qmc.deck.series import Vmc
from qsim.qmc.sampling.moves import Moves, WarmUp
from qsim.qmc.sampling.walkers import Walkers
from tests.qmc.trials import trial_function

COUNT = 4000


def placed(system, orbitals, seed=5):
    """Return placed walkers."""
    walkers = Walkers(cpu(2), trial_function(system, orbitals, "none"), COUNT, rng.key_from_seed(seed))
    walkers.place()
    return walkers


def test_an_electron_of_two_distant_atoms_is_at_both():
    """The overlap of the atoms, 14 bohr apart, is nothing: half of the walkers belong to each; four standard deviations."""
    system = {"atoms": [["H", 0, 0, -7], ["H", 0, 0, 7]], "units": "bohr", "charge": 1, "spin": 1}
    shells = [{"atom": "H", "n": 1, "l": 0, "zeta": 1.0}]
    z = placed(system, {"source": "sto", "shells": shells, "molecular_orbitals": [[1.0, 1.0]]}).state.R[
        :, 0, 2
    ]
    assert abs(np.mean(z > 0) - 0.5) < 4.0 * 0.5 / np.sqrt(COUNT)


@pytest.mark.parametrize("tight", [4.0, 2.5])
def test_walkers_cross_a_node_in_the_warm_up(tight, monkeypatch):
    """An orbital of two exponents, whose node is a sphere; the share within it is an integral.

    Short steps with drift alone leave a third of it out after as many sweeps; far moves are not all of the way either.
    """
    shells = [{"atom": "He", "n": 1, "l": 0, "zeta": tight}, {"atom": "He", "n": 1, "l": 0, "zeta": 0.6}]
    system = {"atoms": [["He", 0, 0, 0]], "units": "bohr", "charge": 1, "spin": 1}
    r = np.linspace(1e-4, 40.0, 400_000)
    # coefficients are those of normalised functions
    radial = 2.5 * tight**1.5 * np.exp(-tight * r) - 0.6**1.5 * np.exp(-0.6 * r)
    node = r[np.flatnonzero(np.diff(np.sign(radial)))[0]]
    density = radial**2 * r**2
    inside = density[r < node].sum() / density.sum()
    orbitals = {"source": "sto", "shells": shells, "molecular_orbitals": [[2.5, -1.0]]}

    def missing():
        walkers = placed(system, orbitals)
        WarmUp(walkers, Moves(walkers, Vmc(timestep=0.05)), 400, 1).advance(lambda progress: None)
        return inside - np.mean(np.linalg.norm(walkers.state.R[:, 0], axis=1) < node)

    assert missing() < 0.2
    monkeypatch.setattr(Walkers, "far_sweep", lambda *args: None)
    assert missing() > 0.3


def test_the_orders_of_the_atoms_take_turns():
    """The spins of two hydrogen atoms are up and down in one half of the walkers and down and up in the other."""
    system = {"atoms": [["H", 0, 0, -6], ["H", 0, 0, 6]], "units": "bohr"}
    shells = [{"atom": "H", "n": 1, "l": 0, "zeta": 1.0}]
    R = placed(system, {"source": "sto", "shells": shells, "molecular_orbitals": [[1.0, 1.0]]}).state.R
    assert abs(np.mean(R[:, 0, 2] > 0) - 0.5) < 0.05
