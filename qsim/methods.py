"""The table of methods: the only place where their names are listed.

A method is the folder ``qsim/<name>/`` with the stage modules ``deck``, ``build``, ``run`` and ``output``
(their contract: :mod:`qsim.core.run.stages`).  A name whose folder is not there yet is known but not offered:
it stays out of ``qsim --help``, and asking for it says so.  Nothing here imports a method.
"""

from __future__ import annotations

import difflib
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # mypy compares the modules of each method with the contract: deck, problem and result
    import qsim.qmc.build
    import qsim.qmc.deck
    import qsim.qmc.output
    import qsim.qmc.run
    import qsim.qoc.build
    import qsim.qoc.deck
    import qsim.qoc.output
    import qsim.qoc.problem
    import qsim.qoc.result
    import qsim.qoc.run
    import qsim.sturmian.build
    import qsim.sturmian.deck
    import qsim.sturmian.output
    import qsim.sturmian.run
    import qsim.tridiag.build
    import qsim.tridiag.deck
    import qsim.tridiag.output
    import qsim.tridiag.run
    import qsim.trotter.build
    import qsim.trotter.deck
    import qsim.trotter.output
    import qsim.trotter.run
    from qsim.core.run.stages import Stages

    QMC = Stages[qsim.qmc.deck.model.QmcDeck, qsim.qmc.problem.Problem, qsim.qmc.run.Result](
        qsim.qmc.deck, qsim.qmc.build, qsim.qmc.run, qsim.qmc.output
    )
    QOC = Stages[qsim.qoc.deck.model.QocDeck, qsim.qoc.problem.Problem, qsim.qoc.result.Result](
        qsim.qoc.deck, qsim.qoc.build, qsim.qoc.run, qsim.qoc.output
    )
    STURMIAN = Stages[
        qsim.sturmian.deck.model.SturmianDeck,
        qsim.sturmian.problem.Problem | qsim.sturmian.driven.problem.Problem,
        qsim.sturmian.run.Result,
    ](qsim.sturmian.deck, qsim.sturmian.build, qsim.sturmian.run, qsim.sturmian.output)
    TRIDIAG = Stages[
        qsim.tridiag.deck.model.TridiagDeck,
        qsim.tridiag.problem.Problem,
        qsim.tridiag.run.Result,
    ](qsim.tridiag.deck, qsim.tridiag.build, qsim.tridiag.run, qsim.tridiag.output)
    TROTTER = Stages[
        qsim.trotter.deck.model.TrotterDeck,
        qsim.trotter.build.AnyProblem,
        qsim.trotter.run.AnyResult,
    ](qsim.trotter.deck, qsim.trotter.build, qsim.trotter.run, qsim.trotter.output)

TABLE: dict[str, str] = {
    "qoc": "Optimal control of a quantum system by shaped fields: states, gates, dissipation.",
    "trotter": "Spins 1/2: exact dynamics in the whole space or in a sector of Sz, and low levels.",
    "tridiag": "Tridiagonal systems cut into independent blocks; atoms in laser pulses in one dimension and three.",
    "sturmian": "Bound states and collisions of two electrons and a nucleus in generalised Sturmian functions.",
    "qmc": "Variational and diffusion quantum Monte Carlo of atoms, molecules and crystals.",
}

#: What each method does not do, which its help says; docs/theory says more.
LIMITS: dict[str, str] = {
    "qoc": "baths without memory; molecules have one or two coordinates; "
    "a control enters linearly or by a power.",
    "trotter": "spins 1/2, pairs of spins and fields, no dissipation; at most 40 spins and what memory holds, "
    "33 in the whole space on one H200; chebyshev needs a constant H; momenta are named for levels alone.",
    "tridiag": "one electron; potentials that do not depend on l; hard walls behind absorbers; "
    "a cyclic system is not read block by block.",
    "sturmian": "two electrons and one fixed nucleus; collisions with electrons begin in 1s; "
    "angles between two free electrons (fdcs) need pure Coulomb fields; polarisabilities are those below ionisation.",
    "qmc": "expansions in open boundaries alone, orbitals as they are given; no three-body terms or backflow; forces in vmc; "
    "orbitals up to g; densities are mixed estimates.",
}


def is_available(name: str) -> bool:
    """Return True if the method is part of this installation, without importing any of its stages."""
    if name not in TABLE:
        return False
    try:
        return find_spec(f"qsim.{name}.deck") is not None
    except ModuleNotFoundError:  # the folder itself is not there
        return False


def available() -> list[str]:
    """Names of the methods of this installation, in the order of the table."""
    return [name for name in TABLE if is_available(name)]


def refusal(name: str) -> str:
    """Sentence that says why a method cannot be used: not built yet, or no such name (with a suggestion)."""
    offered = ", ".join(available()) or "none"
    if name in TABLE:
        return f"the method '{name}' is not part of this version of qsim; available: {offered}"
    close = difflib.get_close_matches(name, TABLE, n=1)
    suggestion = f"did you mean '{close[0]}'? " if close else ""
    return f"unknown method '{name}'; {suggestion}available: {offered}"
