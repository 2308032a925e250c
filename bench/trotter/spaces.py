"""Set-up and H psi in the whole space, a parity and momenta, beside QuSpin's matrices: the same H, one thread."""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.harness import Bench, Skip, Timing, case
from bench.trotter.products import timed, vector
from bench.trotter.sectors import UNCHECKED, operators
from qsim.core.device.device import Device
from qsim.trotter.deck.sectors import SectorBlock
from qsim.trotter.lattices.momenta import Translations
from qsim.trotter.measurement.spaces import operator_in
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.parity import ParitySector, WholeSpace
from qsim.trotter.sectors.symmetric import SymmetricOperator, symmetric_sectors

SETUP_GOAL = 20.0  # QuSpin's time over ours
PRODUCT_GOAL = 2.0
ROUNDING = 1e-11  # of traces and products, relative


def ring(spins: int, *couplings: float) -> Model:
    """Return a ring of uniform couplings along x, y and z."""
    J = np.zeros((3, spins, spins))
    for j in range(spins):
        J[:, j, (j + 1) % spins] = J[:, (j + 1) % spins, j] = couplings
    return Model(spins, J, np.zeros((3, spins)))


def _character(model: Model, **block: Any) -> Callable[[], Any]:
    """Return what makes a sector of a momentum anew, without anything that is kept."""
    n = model.spins
    return lambda: symmetric_sectors(
        SectorBlock(up=n // 2, **block), model, [Sector(n, n // 2)], Translations.of_ring(n)
    )[0]


def _cases(quick: bool) -> list[tuple[str, Model, Callable[[], Any], dict[str, Any]]]:
    """Return label, H, what makes our space, and QuSpin's quantum numbers."""
    found: list[tuple[str, Model, Callable[[], Any], dict[str, Any]]] = []
    for n in (12,) if quick else (16, 18):
        model = ring(n, 1.0, 0.6, 0.5)
        found.append((f"N={n} XYZ ring, whole space", model, lambda n=n: WholeSpace(n), {}))
    for n in (12,) if quick else (16, 18, 20):
        even = list(range(n % 2, n + 1, 2))
        model = ring(n, 1.0, 0.6, 0.5)
        found.append((f"N={n} XYZ ring, parity", model, lambda n=n: ParitySector(n, 0), {"Nup": even}))
    for n in (12,) if quick else (18, 20, 22):
        model = ring(n, 1.0, 1.0, 0.5)
        given = {"Nup": n // 2, "kblock": 1}
        found.append((f"N={n} XXZ ring, Sz = 0, k = 1", model, _character(model, momentum=1), given))
    for n in (12,) if quick else (20, 22, 24):
        model = ring(n, 1.0, 1.0, 0.5)
        ours = _character(model, momentum=0, reflection=1, inversion=1)
        given = {"Nup": n // 2, "kblock": 0, "pblock": 1, "zblock": 1}
        found.append((f"N={n} XXZ ring, Sz = 0, k = 0, even, even", model, ours, given))
    return found


@case("trotter-spaces", "set-up and H psi in the whole space, a parity and momenta, beside QuSpin", ("cpu",))
def spaces(bench: Bench) -> None:
    """Processor time; every ratio is QuSpin's time over ours."""
    if importlib.util.find_spec("quspin") is None:
        raise Skip("QuSpin is not installed (pip install quspin)")
    for label, model, make, numbers in _cases(bench.quick):
        _one(bench, label, model, make, numbers)


def _made(device: Device, model: Model, make: Callable[[], Any]) -> Any:
    """Return H in a space made anew, with all tables or the matrix that products take."""
    operator = operator_in(make(), device, model)
    if isinstance(operator, SymmetricOperator):
        _ = operator.matrix
    else:
        _ = operator.others  # type: ignore[attr-defined]
        _ = getattr(operator, "last", None)
    return operator


def _one(bench: Bench, label: str, model: Model, make: Callable[[], Any], numbers: dict[str, Any]) -> None:
    device, n = bench.device, model.spins
    setup = timed(device, lambda: _made(device, model, make), least=3)
    operator = _made(device, model, make)
    size = operator.sector.dimension
    bench.row(f"{label}: qsim, set-up", setup, spins=n, states=size)
    kind = np.float64 if operator.is_real else np.complex128

    def theirs() -> Any:
        from quspin.basis import spin_basis_1d
        from quspin.operators import hamiltonian

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            basis = spin_basis_1d(n, pauli=0, **numbers)
            return hamiltonian(operators(model), [], basis=basis, dtype=kind, **UNCHECKED)

    # what it loads once is no set-up
    theirs()
    start = time.process_time()
    other = theirs()
    spent = time.process_time() - start
    ratio = spent / setup.best
    bench.row(
        f"{label}: QuSpin, basis and matrix",
        Timing(spent, spent, 1, "processor", spent),
        spins=n,
        ratio=ratio,
    )
    bench.goal(f"set-up of {label}, QuSpin over qsim", ratio, SETUP_GOAL, "times", at_least=True)
    _same(operator, other)
    for name, dtype in (("complex", np.complex128), *((("real", np.float64),) if operator.is_real else ())):
        psi = vector(device, size, dtype)
        out, spare = np.zeros_like(psi), np.zeros_like(psi)
        work = np.zeros_like(psi) if operator.needs_work else None
        ours = timed(
            device, lambda p=psi, o=out, w=work: operator.apply(p, o, 1.0, 0.0, -1.0, work=w), least=5
        )
        bench.row(f"{label}, {name}: qsim, with the older vector", ours, spins=n, states=size)
        timing = timed(device, lambda p=psi, o=spare: other.dot(p, out=o), least=5)
        ratio = timing.best / ours.best
        bench.row(f"{label}, {name}: QuSpin", timing, spins=n, states=size, ratio=ratio)
        bench.goal(
            f"product of {label}, {name}, QuSpin over qsim", ratio, PRODUCT_GOAL, "times", at_least=True
        )


def _same(operator: Any, other: Any) -> None:
    """Check that both are the same H: as many states, the same sum of the squares of all elements."""
    matrix = other.tocsr()
    if matrix.shape[0] != operator.sector.dimension:
        raise AssertionError(f"{matrix.shape[0]} states, qsim has {operator.sector.dimension}")
    if isinstance(operator, SymmetricOperator):
        ours = operator.matrix
        both = [float((np.abs(m.data) ** 2).sum()) for m in (ours, matrix)]
    else:
        # of random vectors whose bits need no order: the mean of H^2 is a sum over all pairs
        model = operator.model
        both = [model.mean_square * operator.sector.dimension, float((np.abs(matrix.data) ** 2).sum())]
    if not abs(both[0] - both[1]) < ROUNDING * abs(both[1]):
        raise AssertionError(f"the squares of all elements add up to {both[0]:.15g} and {both[1]:.15g}")
