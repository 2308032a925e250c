"""Trial functions from mappings such as a deck holds."""

from qsim.qmc.deck.wavefunction import System, Wavefunction
from qsim.qmc.wavefunction.trial import build_wavefunction


def trial_function(system, orbitals, jastrow=None, determinants=None, **keys):
    """Build a trial function as a deck with these blocks does; without `jastrow` the deck says nothing of it."""
    given = {} if jastrow is None else {"jastrow": jastrow}
    if determinants is not None:
        given["determinants"] = determinants
    return build_wavefunction(
        System.model_validate(system), Wavefunction.model_validate({"orbitals": orbitals, **given}), **keys
    )
