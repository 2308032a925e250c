"""The deck of ``qsim qmc``: a system, a trial function, and the sections of a run.

========== =====================================================================
section    result
========== =====================================================================
optimize   parameters of the Jastrow factor
vmc        expectation values of the trial function
dmc        the lowest energy with its nodes, at several time steps and at zero
========== =====================================================================
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from qsim.core.deck.blocks import Deck, OutputBlock
from qsim.qmc.deck.determinants import States
from qsim.qmc.deck.series import EstimatorItem, SectionItem, Series, Vmc
from qsim.qmc.deck.wavefunction import Coulomb, System, Wavefunction
from qsim.qmc.estimators.histograms import EstimatorBlock
from qsim.qmc.estimators.overlaps import Overlaps

UNTILED = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]

#: Keys in which a resumed run may differ: more blocks lower the error bars, also of a run that is complete.
EXTENDABLE = ("series.*.vmc.blocks", "series.*.dmc.blocks")


class QmcOutput(OutputBlock):
    """Files that are written, and their place."""

    scalar_dat: bool = Field(
        default=False, description="also write <name>.s<NNN>.scalar.dat for each vmc and dmc, as QMCPACK does"
    )


def _is_crystal(data: dict[str, Any]) -> bool:
    """Return True if the orbitals, the supercell or the twist of a deck belong to a crystal, before anything is checked."""
    wavefunction = data.get("wavefunction")
    orbitals = wavefunction.get("orbitals") if isinstance(wavefunction, dict) else None
    source = orbitals.get("source") if isinstance(orbitals, dict) else orbitals
    system = data["system"] if isinstance(data.get("system"), dict) else {}
    twist = system.get("twist")
    moved = isinstance(twist, list) and any(bool(x) for x in twist)
    moved = moved or system.get("twists") is not None or system.get("twist_grid") is not None
    return source in ("eshdf", "planewave") or system.get("tilematrix", UNTILED) != UNTILED or moved


class QmcDeck(Deck):
    """Variational and diffusion quantum Monte Carlo of atoms, molecules and crystals."""

    FIRST_DECKS: ClassVar[Mapping[str, Mapping[str, Any]]] = {"": {"system": {"atoms": [["He", 0, 0, 0]]}}}
    meant: ClassVar[Mapping[str, str]] = {
        "*.dmc.population=[0-9]*": "the number of walkers is 'walkers'; population says how they are kept",
        "*.orbitals.chkfile": "a checkpoint of PySCF is {source: chkfile, file: NAME.chk}",
        "*.orbitals.molden": "a molden file is {source: molden, file: NAME.molden}",
        "*jastrow.J3": "there are J1 and J2 alone",
        "system.atoms=*": "atoms are [[He, 0, 0, 0]], symbol and place of each",
        "system.multiplicity": "spin is n_up - n_dn, the multiplicity less one",
        "estimators.rdf": "the pair correlation function is gofr",
        "estimators.g*": "the pair correlation function is gofr",
        "estimators=rdf": "the pair correlation function is gofr",
    }
    forms: ClassVar[Mapping[str, str]] = {
        "^[A-Za-z]{1,2}[0-9]*$": "the symbol of an element, such as He, or a label such as H1",
        "^([A-Za-z]{1,2}[0-9]*|all)$": "the symbol of an element, such as He, a label such as H1, or all",
    }

    method: Literal["qmc"]
    system: System = Field(
        default_factory=System,
        description="ions and electrons; may be left out where a file of orbitals brings them",
        json_schema_extra={"example": {"atoms": [["He", 0, 0, 0]]}},
    )
    wavefunction: Wavefunction = Field(
        description="trial function",
        json_schema_extra={
            "example": {
                "orbitals": {"source": "sto", "shells": [{"atom": "He", "n": 1, "l": 0, "zeta": 1.6875}]},
                "jastrow": {"J1": {"rcut": 8.0, "size": 8}, "J2": {"rcut": 8.0, "size": 8}},
            }
        },
    )
    series: Series = Field(
        default=[SectionItem(vmc=Vmc())],
        description="sections of the run, one after the other: optimize, vmc, dmc",
        json_schema_extra={
            "example": [
                {"optimize": {"walkers": 2048, "iterations": 8}},
                {"vmc": {"walkers": 2048, "blocks": 100, "steps": 50}},
                {"dmc": {"walkers": 2048, "timesteps": [0.02, 0.01, 0.005], "blocks": 200, "steps": 50}},
            ]
        },
    )
    states: States | None = Field(
        default=None,
        description="run all sections for several states of the determinants",
    )
    estimators: Annotated[list[EstimatorItem], Field(max_length=20)] = Field(
        default=[],
        description="what to measure beside the energy",
        json_schema_extra={"example": ["energy", {"gofr": {"bins": 200, "rmax": 8}}]},
    )
    output: QmcOutput = Field(default_factory=QmcOutput, description="results file, figures, scalar.dat")

    coulomb: Coulomb = Field(
        default_factory=Coulomb, description="of a crystal: how the Coulomb potential is divided"
    )

    @model_validator(mode="before")
    @classmethod
    def _cell_of_orbitals(cls, data: Any) -> Any:
        """Give the system of Bloch orbitals its periodic cell, so that the resolved deck has it."""
        if not isinstance(data, dict) or not _is_crystal(data):
            return data
        system = data.get("system", {})
        if not isinstance(system, dict) or "cell" in system:
            return data
        return {**data, "system": {**system, "cell": "periodic"}}

    def measured(self) -> list[EstimatorBlock]:
        """Return the estimators beside the energy."""
        found = [block for item in self.estimators if (block := item.measured()) is not None]
        if self.states is not None and not any(isinstance(block, Overlaps) for block in found):
            found.append(Overlaps())
        if self.system.cell == "periodic":
            return found
        return [block for block in found if block.open_boundaries]


def references(deck: QmcDeck) -> tuple[str, ...]:
    """Return the BibTeX keys of what a deck uses."""
    keys = ["qsim", "Esler2012"]
    kinds = {item.kind for item in deck.series}
    methods = {item.optimize.method for item in deck.series if item.optimize is not None}
    if "linear" in methods:
        keys.append("UmrigarToulouseFilippiSorellaHennig2007")
    if "sr" in methods:
        keys.append("Sorella2005")
    if "dmc" in kinds:
        keys += ["UmrigarNightingaleRunge1993", "Zen2016"]
    if deck.system.pseudopotentials:
        keys.append("MitasShirleyCeperley1991")
        if any(item.dmc is not None and item.dmc.nonlocal_ == "tmove" for item in deck.series):
            keys.append("CasulaMoroniSorellaFilippi2010")
    if deck.system.cell == "periodic":
        keys.append("NatoliCeperley1995")
    if deck.wavefunction.orbitals.source == "pyscf":
        keys.append("PySCF2020")
        if any(atom[0] not in deck.system.pseudopotentials for atom in deck.system.atoms):
            keys.append("MaTowlerDrummondNeeds2005")  # cusps
    return tuple(keys)
