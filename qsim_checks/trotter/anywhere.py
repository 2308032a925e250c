"""Hamiltonians that conserve no total Sz, drawn from all that a deck can say, and H of any deck by Kronecker products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qsim_checks.trotter.larger import dense_larger
from qsim_checks.trotter.oracle import PAULI, Evolution, Part, couplings, fields, spin

__all__ = ["anywhere", "dense", "evolved", "parity_basis", "spaces", "symmetric_bases", "uniform"]

Generator = np.random.Generator
Block = dict[str, Any]
Complex = NDArray[np.complex128]

SMALL = 1e-10
"""Of the size of a commutator: less is rounding."""


def _one(rng: Generator, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _strength(rng: Generator) -> float:
    """Return a coupling: a simple number more often than not, so that levels are degenerate."""
    simple = _one(rng, 1.0, -1.0, 0.5, 2.0, -0.4)
    return simple if rng.random() < 0.5 else round(float(rng.normal()), 5) or 1.0


def _vector(rng: Generator, count: int) -> list[float]:
    return [_one(rng, 0.0, _strength(rng)) for _ in range(count)]


def anywhere(rng: Generator, spins: int) -> Block:
    """Return a system of the field: transverse and tilted Ising, XYZ, Kitaev, Dzyaloshinskii-Moriya in the plane, any tensors."""
    lattice: Block = {"type": _one(rng, "chain", "ring") if spins > 2 else "chain"}
    kind = _one(rng, "ising", "ising", "xyz", "kitaev", "dm", "tensors", "pairs")
    axis = _one(rng, "x", "y", "z")
    terms: list[Block]
    if kind == "ising":
        across = _one(rng, *(other for other in "xyz" if other != axis))
        terms = [{"type": "ising", "axis": axis, "lattice": lattice, "J": _strength(rng)}]
        terms.append({"type": "field", "axis": across, "values": _field(rng, spins)})
        if rng.random() < 0.3:
            # tilted
            terms.append({"type": "field", "axis": _one(rng, "x", "y", "z"), "values": _field(rng, spins)})
    elif kind == "xyz":
        terms = [{"type": "xyz", "lattice": lattice, **{f"J{a}": _strength(rng) for a in "xyz"}}]
        if rng.random() < 0.5:
            terms.append({"type": "field", "axis": axis, "values": _field(rng, spins)})
    elif kind == "kitaev":
        bonds = [(j, (j + 1) % spins) for j in range(spins - (lattice["type"] == "chain"))]
        J = _strength(rng)
        terms = [
            {
                "type": "pairs",
                "list": [[*bond, *np.roll([J, 0.0, 0.0], k % 3).tolist()] for k, bond in enumerate(bonds)],
            }
        ]
    elif kind == "dm":
        terms = [{"type": "heisenberg", "lattice": lattice, "J": _strength(rng)}]
        terms.append({"type": "dm", "lattice": lattice, "D": [*_vector(rng, 2), _one(rng, 0.0, 0.3)]})
    elif kind == "tensors":
        chosen = _pairs(rng, spins)
        terms = [
            {
                "type": "tensor",
                "list": [[*pair, *np.round(rng.normal(size=9), 3).tolist()] for pair in chosen],
            }
        ]
        terms += [
            {"type": "field", "axis": a, "values": _field(rng, spins)} for a in "xyz" if rng.random() < 0.5
        ]
    else:
        terms = [{"type": "pairs", "list": [[*pair, *_vector(rng, 3)] for pair in _pairs(rng, spins)]}]
        terms += [
            {"type": "field", "axis": a, "values": _field(rng, spins)} for a in "xyz" if rng.random() < 0.4
        ]
    return {"spins": spins, "operators": _one(rng, "spin", "spin", "pauli"), "sum": "pairs", "terms": terms}


def uniform(rng: Generator, spins: int) -> Block:
    """Return a ring of equal couplings, of any components, in uniform fields."""
    lattice: Block = {"type": "ring", "images": "all" if spins == 2 else "one"}
    axis = _one(rng, "x", "y", "z")
    kind = _one(rng, "ising", "xyz", "dm", "tensor")
    if kind == "ising":
        terms: list[Block] = [{"type": "ising", "axis": axis, "lattice": lattice, "J": _strength(rng)}]
    elif kind == "xyz":
        terms = [{"type": "xyz", "lattice": lattice, **{f"J{a}": _strength(rng) for a in "xyz"}}]
    elif kind == "dm":
        terms = [{"type": "heisenberg", "lattice": lattice, "J": _strength(rng)}]
        terms.append({"type": "dm", "lattice": lattice, "D": [*_vector(rng, 2), _one(rng, 0.0, 0.3)]})
    else:
        terms = [{"type": "tensor", "lattice": lattice, "J": np.round(rng.normal(size=(3, 3)), 3).tolist()}]
    terms += [{"type": "field", "axis": a, "values": _strength(rng)} for a in "xyz" if rng.random() < 0.4]
    return {"spins": spins, "operators": _one(rng, "spin", "pauli"), "sum": "pairs", "terms": terms}


def _pairs(rng: Generator, spins: int) -> list[tuple[int, int]]:
    every = [(j, k) for j in range(spins) for k in range(j + 1, spins)]
    return [every[int(n)] for n in rng.permutation(len(every))[: int(rng.integers(1, len(every) + 1))]]


def _field(rng: Generator, spins: int) -> float | list[float]:
    return _strength(rng) if rng.random() < 0.7 else np.round(rng.normal(size=spins), 4).tolist()


# ------------------------------------------------------------------------------------------------- H


def dense(system: Mapping[str, Any], numbers: Sequence[int] | None = None) -> Complex:
    """Return H (2^N, 2^N) of the terms of a system, or of some of them; of spins above 1/2 all of it."""
    if "spin" in system:
        return dense_larger(system)
    spins = system["spins"]
    pair, single = (4.0, 2.0) if system.get("operators") == "pauli" else (1.0, 1.0)
    parts, oriented = [], np.zeros((1 << spins, 1 << spins), complex)
    for number, term in enumerate(system["terms"]):
        if numbers is not None and number not in numbers:
            continue
        J, h = np.zeros((3, spins, spins)), np.zeros((3, spins))
        if term["type"] == "field":
            h = single * fields(term, spins, None)
        elif term["type"] in ("dm", "tensor"):
            for j, k, matrix in _arrows(term, spins):
                for a, b in np.argwhere(matrix):
                    product = spin("xyz"[a], j, spins) @ spin("xyz"[b], k, spins)
                    oriented += pair * matrix[a, b] * product.toarray()
        elif term["type"] == "pairs":
            for row in term["list"]:
                j, k = int(row[0]), int(row[1])
                J[:, j, k] = J[:, k, j] = pair * np.array(row[2:])
        else:
            J = pair * couplings(term, system, None)
        parts.append(Part(J, h))
    return np.asarray(Evolution(spins, parts).at(0.0).toarray() + oriented)


def _arrows(term: Mapping[str, Any], spins: int) -> Iterator[tuple[int, int, NDArray[np.float64]]]:
    """Yield first and second site of every bond with a direction, and its matrix."""
    if "list" in term:
        for row in term["list"]:
            yield int(row[0]), int(row[1]), np.array(row[2:], float).reshape(3, 3)
        return
    if term["type"] == "tensor":
        for j, k in _bonds(term["lattice"], spins):
            yield j, k, np.array(term["J"])
        return
    D = term["D"] if isinstance(term["D"], list) else [0.0, 0.0, term["D"]]
    # D . (S_j x S_k)
    matrix = np.array([[0.0, D[2], -D[1]], [-D[2], 0.0, D[0]], [D[1], -D[0], 0.0]])
    for j, k in _bonds(term["lattice"], spins):
        yield j, k, matrix


def _bonds(lattice: Mapping[str, Any], spins: int) -> list[tuple[int, int]]:
    """Return every site and its neighbours in the positive directions of a row or a square torus."""
    if lattice["type"] in ("ring", "chain"):
        return [(j, (j + 1) % spins) for j in range(spins - (lattice["type"] == "chain"))]
    Lx = lattice["Lx"]
    Ly, place = spins // Lx, lambda x, y: x % Lx + Lx * (y % (spins // Lx))
    found = [
        (place(x, y), to) for y in range(Ly) for x in range(Lx) for to in (place(x + 1, y), place(x, y + 1))
    ]
    return [(j, k) for j, k in found if j != k]


# --------------------------------------------------------------------------------------------- parity


def _turned(axis: str, spins: int) -> Complex:
    """Return the product of ``2 S^a`` of all spins."""
    found: Complex = np.eye(1, dtype=complex)
    for _ in range(spins):
        found = np.asarray(np.kron(PAULI[axis], found), dtype=complex)
    return found


def _conserved(H: Complex, each: Mapping[str, Complex]) -> str | None:
    """Return the first axis whose operator commutes with H."""
    scale = np.abs(H).max() or 1.0
    return next((a for a, P in each.items() if np.abs(P @ H - H @ P).max() < SMALL * scale), None)


def _totals(spins: int) -> dict[str, Complex]:
    """Return the total spin along z, x and y."""
    return {a: np.asarray(sum(spin(a, j, spins) for j in range(spins)).toarray()) for a in "zxy"}


def parity_basis(H: Complex, parity: str) -> Complex | None:
    """Return the states (2^N, D) of a parity along the first of the axes z, x, y along which H conserves it; None if none is."""
    spins = len(H).bit_length() - 1
    turned = {a: _turned(a, spins) for a in "zxy"}
    axis = _conserved(H, turned)
    if axis is None:
        return None
    values, vectors = np.linalg.eigh(turned[axis])
    return np.asarray(vectors[:, values > 0.0] if parity == "even" else vectors[:, values < 0.0])


def spaces(H: Complex) -> list[Complex]:
    """Return the states of the smallest spaces that H allows: of every total spin along an axis, of both parities, or all."""
    spins = len(H).bit_length() - 1
    totals = _totals(spins)
    axis = _conserved(H, totals)
    if axis is not None:
        values, vectors = np.linalg.eigh(totals[axis])
        return [vectors[:, np.abs(values - (0.5 * spins - down)) < 0.1] for down in range(spins + 1)]
    both = [parity_basis(H, parity) for parity in ("even", "odd")] if spins > 1 else [None]
    return [np.eye(len(H), dtype=complex)] if both[0] is None else [one for one in both if one is not None]


def _moved(spins: int, sites: Sequence[int]) -> Complex:
    """Return the matrix (2^N, 2^N) that takes the spin of site j to ``sites[j]``."""
    strings = np.arange(1 << spins)
    images = sum((strings >> j & 1) << sites[j] for j in range(spins))
    found = np.zeros((1 << spins, 1 << spins), complex)
    found[images, strings] = 1.0
    return found


def symmetric_bases(H: Complex, sector: Mapping[str, Any], *, charged: bool = True) -> list[Complex] | None:
    """Return the states of each momentum with the signs that a deck names; None where H has not these symmetries.

    A deck that names neither Sz nor parity means Sz = 0 of an H that conserves Sz, if the task has a use for it (`charged`), else
    all states.
    """
    spins = len(H).bit_length() - 1
    one = np.eye(len(H), dtype=complex)
    shift = _moved(spins, [(j + 1) % spins for j in range(spins)])
    operators = _signed(H, sector)
    # a sector whose states H leaves together by accident, such as Sz = 0 of a uniform field beside the inversion, is
    # refused: the symmetry is one of H
    needed = [P for P, _ in operators or []] + ([shift] if "momentum" in sector else [])
    if operators is None or any(
        np.abs(P @ H - H @ P).max() > 1e-9 * (np.abs(H).max() or 1.0) for P in needed
    ):
        return None
    projector = one
    for operator, sign in operators:
        projector = projector @ (0.5 * (one + sign * operator))
    if charged and "parity" not in sector and _conserved(H, {"z": _totals(spins)["z"]}):
        if spins % 2:
            return None
        projector = projector * (2 * np.bitwise_count(np.arange(1 << spins)) == spins)
    asked = sector.get("momentum")
    momenta: Any = range(spins) if asked == "all" else asked if isinstance(asked, list) else [asked]
    scale, found = np.abs(H).max() or 1.0, []
    for k in momenta:
        total = one if k is None else np.zeros_like(one)
        power = one
        for n in range(0 if k is None else spins):
            # T = exp(-2 pi i k / N)
            total = total + np.exp(2j * np.pi * (k or 0) * n / spins) * power / spins
            power = shift @ power
        P = total @ projector
        if np.abs(P @ H - H @ P).max() > 1e-9 * scale or np.abs(P @ P - P).max() > 1e-9:
            return None
        values, vectors = np.linalg.eigh(0.5 * (P + P.conj().T))
        found.append(vectors[:, values > 0.5])
    if "parity" not in sector:
        found = [part for basis in found for part in _parted(H, basis, sector)]
    return [basis for basis in found if basis.size] or None


def _signed(H: Complex, sector: Mapping[str, Any]) -> list[tuple[Complex, int]] | None:
    """Return reflection, inversion and parity of a sector with their signs; None for a parity that H does not have."""
    spins = len(H).bit_length() - 1
    found: list[tuple[Complex, int]] = []
    if "reflection" in sector:
        found.append((_moved(spins, list(range(spins))[::-1]), sector["reflection"]))
    if "inversion" in sector:
        found.append((np.eye(len(H), dtype=complex)[::-1].copy(), sector["inversion"]))
    if "parity" in sector:
        axis = _conserved(H, {a: _turned(a, spins) for a in ("z" if "inversion" in sector else "zxy")})
        if axis is None:
            return None
        found.append((_turned(axis, spins), 1 if sector["parity"] == "even" else -1))
    return found


def _parted(H: Complex, basis: Complex, sector: Mapping[str, Any]) -> list[Complex]:
    """Return the two parities of a basis, the spaces in which a deck that names none works; the basis itself without any."""
    spins = len(H).bit_length() - 1
    axes = "z" if "inversion" in sector else "zxy"
    axis = _conserved(H, {a: _turned(a, spins) for a in axes})
    if (
        axis is None
        or spins < 2
        or ("inversion" in sector and spins % 2)
        or _conserved(H, {"z": _totals(spins)["z"]})
    ):
        return [basis]
    values, turn = np.linalg.eigh(basis.conj().T @ _turned(axis, spins) @ basis)
    return [basis @ turn[:, values > 0.0], basis @ turn[:, values < 0.0]]


# --------------------------------------------------------------------------------------- an evolution


def evolved(rng: Generator, folder: Path) -> Block:
    """Return an evolution of a start of one character of the symmetries of H, which is written to a file."""
    spins = int(rng.integers(2, 8))
    system = uniform(rng, spins) if rng.random() < 0.7 else anywhere(rng, spins)
    if rng.random() < 0.25:
        wave = {"type": "cosine", "omega": round(float(rng.uniform(0.5, 3.0)), 3), "amplitude": 0.5}
        system["terms"].append({"type": "field", "axis": _one(rng, *"xyz"), "values": 0.4, "profile": wave})
    sector, P, psi = _inside(rng, system)
    initial: Block = {"type": "file", "file": "start.npy"}
    if rng.random() < 0.35 and (found := _lowest(rng, system, sector, P)) is not None:
        initial, psi = found
    np.save(folder / "start.npy", psi)
    pairs = [[0, 1], [0, spins - 1]][: 1 + (spins > 2)]
    observe: list[Any] = [
        {"sz": "all"},
        {"sx": "all"},
        {"correlator": [_one(rng, "xx", "yy"), _one(rng, "xy", "yz", "zx"), "zz"], "pairs": pairs},
        {"entropy": {"sites": sorted(rng.permutation(spins)[: int(rng.integers(1, spins))].tolist())}},
        _one(rng, "return_probability", "energy_variance"),
        "state",
    ]
    # the inversion turns <Sz> over, which is no observable there
    observe = observe[1:] if "inversion" in sector else observe
    end = round(float(rng.uniform(0.3, 6.0)), 3)
    accuracy = float(f"{10.0 ** -rng.uniform(3.0, 10.0 if len(system['terms']) < 3 else 8.0):.3g}")
    return {
        "_dense": True,
        "method": "trotter",
        "run": {"seed": int(rng.integers(1 << 30))},
        "system": system,
        "sector": sector or "auto",
        "initial": initial,
        "evolve": {"t_final": end, "outputs": {"count": 3}, "accuracy": accuracy},
        "observe": observe,
    }


def _lowest(
    rng: Generator, system: Mapping[str, Any], sector: Block, P: Complex
) -> tuple[Block, Complex] | None:
    """Return the start in the ground state of some terms of a system with other strengths, and its amplitudes.

    None where it is degenerate.  Of an H that conserves Sz it is the ground state of one Sz.
    """
    spins, terms = system["spins"], []
    static = [term for term in system["terms"] if "profile" not in term]
    for number in sorted(rng.permutation(len(static))[: int(rng.integers(1, len(static) + 1))].tolist()):
        term = dict(static[number])
        factor = _one(rng, 1.0, -1.0, 0.5, round(float(rng.normal()), 3) or 1.0)
        for name in {"J", "Jx", "Jy", "Jz", "D", "values"} & set(term):
            term[name] = (factor * np.array(term[name])).tolist()
        if "list" in term:
            term["list"] = [[*row[:2], *(factor * np.array(row[2:])).tolist()] for row in term["list"]]
        terms.append(term)
    H = dense({**system, "terms": terms})
    block: Block = {"type": "ground_state", "terms": terms}
    if _conserved(H, {"z": _totals(spins)["z"]}) is not None:
        up = spins // 2
        if "up" in sector or rng.random() < 0.5:
            up = block["up"] = sector.get("up", int(rng.integers(spins + 1)))
        if "inversion" in sector and 2 * up != spins:
            return None
        P = P * (np.bitwise_count(np.arange(1 << spins)) == spins - up)
    elif "up" in sector:
        return None
    values, basis = np.linalg.eigh(0.5 * (P + P.conj().T))
    basis = basis[:, values > 0.5]
    # a character of permutations that this sector of Sz does not have
    if not basis.size or np.abs(P @ P - P).max() > 1e-9:
        return None
    energies, states = np.linalg.eigh(basis.conj().T @ H @ basis)
    alone = energies.size < 2 or energies[1] - energies[0] > 1e-3 * (1.0 + np.abs(energies).max())
    return (block, basis @ states[:, 0]) if alone else None


def _inside(rng: Generator, system: Mapping[str, Any]) -> tuple[Block, Complex, Complex]:
    """Return a sector by symmetries that all terms of a system have, its projector, and a random state in it."""
    spins = system["spins"]
    # what commutes with a generic sum commutes with every term
    H, one = np.zeros((1 << spins, 1 << spins), complex), np.eye(1 << spins, dtype=complex)
    for number in range(len(system["terms"])):
        H += rng.uniform(0.5, 1.5) * dense(system, [number])
    sector: Block = {}
    signs: dict[str, tuple[Complex, int]] = {}
    shift = _moved(spins, [(j + 1) % spins for j in range(spins)])
    P = one
    if rng.random() < 0.75 and _conserved(H, {"": shift}) is not None:
        k = sector["momentum"] = int(rng.integers(spins))
        powers = [np.linalg.matrix_power(shift, n) * np.exp(2j * np.pi * k * n / spins) for n in range(spins)]
        P = np.sum(powers, axis=0) / spins
    if 2 * sector.get("momentum", 0) % spins == 0:
        signs["reflection"] = _moved(spins, list(range(spins))[::-1]), 1
    turned = {a: _turned(a, spins) for a in "zxy"}
    charged = _conserved(H, {"z": _totals(spins)["z"]}) is not None
    if spins % 2 == 0 and (sector or not charged):
        signs["inversion"] = turned["x"], 1
    axis = _conserved(H, turned)
    if axis is not None:
        signs["parity"] = turned[axis], 1
    for name, (operator, sign) in signs.items():
        usable = name != "parity" or "inversion" not in sector or axis == "z"
        if rng.random() < 0.5 and usable and _conserved(H, {"": operator}) is not None:
            sign = int(_one(rng, 1, -1))
            sector[name] = sign
            if name == "parity":
                sector[name] = "even" if sign > 0 else "odd"
            P = P @ (0.5 * (one + sign * operator))
    if sector and charged and "parity" not in sector and rng.random() < 0.5:
        up = spins // 2 if "inversion" in sector else int(rng.integers(spins + 1))
        sector["up"] = up
        P = P * (np.bitwise_count(np.arange(1 << spins)) == spins - up)
    psi = P @ (rng.normal(size=1 << spins) + 1j * rng.normal(size=1 << spins))
    # no state has these properties, or rounding alone is left
    if np.linalg.norm(P) < 0.5 or np.linalg.norm(psi) < 1e-6:
        return _inside(rng, system)
    return sector, P, psi
