r"""Random molecules in random Gaussian orbitals, written as several programs write them, with their exact one-electron means.

A basis function is a polynomial times a contraction of Gaussians, normalised by its own overlap.  Overlaps and kinetic energies
are Gauss-Hermite sums, which are exact for polynomials; for the attraction of a nucleus :math:`1/r=2\pi^{-1/2}\int_0^\infty
e^{-t^2r^2}dt` leaves one smooth integral over :math:`u=t/\sqrt{p+t^2}` (the integral of Boys' functions).  Nothing is taken from
the readers of files: polynomials, orders, norms and signs of each format are written down here.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qsim_checks.qmc.oracles import Means

__all__ = ["GaussianShell", "Imported", "draw_imported"]

Generator = np.random.Generator
Real = NDArray[np.float64]
Polynomial = dict[tuple[int, int, int], float]

ELEMENTS = ("", "H", "He", "Li", "Be", "B", "C", "N", "O", "F")
LETTERS = "spdfg"
NODES, WEIGHTS = np.polynomial.hermite.hermgauss(
    12
)  # exact to the degree 23; two g functions and two derivatives have 10
LINE, LINE_WEIGHTS = (0.5 * v for v in np.polynomial.legendre.leggauss(120))
LINE = LINE + 0.5


def _poly(**terms: float) -> Polynomial:
    """Return a polynomial from its monomials by name: ``_poly(xxz=4.0)``."""
    return {(name.count("x"), name.count("y"), name.count("z")): value for name, value in terms.items()}


# real solid harmonics up to factors, which the norm of a function sets; signs as usual: x^m + ... positive
S = {0: {(0, 0, 0): 1.0}}
P = {0: _poly(z=1.0), 1: _poly(x=1.0), -1: _poly(y=1.0)}
D = {
    0: _poly(zz=2.0, xx=-1.0, yy=-1.0),
    1: _poly(xz=1.0),
    -1: _poly(yz=1.0),
    2: _poly(xx=1.0, yy=-1.0),
    -2: _poly(xy=1.0),
}
F = {
    0: _poly(zzz=2.0, xxz=-3.0, yyz=-3.0),
    1: _poly(xzz=4.0, xxx=-1.0, xyy=-1.0),
    -1: _poly(yzz=4.0, xxy=-1.0, yyy=-1.0),
    2: _poly(xxz=1.0, yyz=-1.0),
    -2: _poly(xyz=1.0),
    3: _poly(xxx=1.0, xyy=-3.0),
    -3: _poly(xxy=3.0, yyy=-1.0),
}
G = {
    0: _poly(zzzz=8.0, xxzz=-24.0, yyzz=-24.0, xxxx=3.0, xxyy=6.0, yyyy=3.0),
    1: _poly(xzzz=4.0, xxxz=-3.0, xyyz=-3.0),
    -1: _poly(yzzz=4.0, xxyz=-3.0, yyyz=-3.0),
    2: _poly(xxzz=6.0, yyzz=-6.0, xxxx=-1.0, yyyy=1.0),
    -2: _poly(xyzz=6.0, xxxy=-1.0, xyyy=-1.0),
    3: _poly(xxxz=1.0, xyyz=-3.0),
    -3: _poly(xxyz=3.0, yyyz=-1.0),
    4: _poly(xxxx=1.0, xxyy=-6.0, yyyy=1.0),
    -4: _poly(xxxy=1.0, xyyy=-1.0),
}
HARMONICS = (S, P, D, F, G)
MOLDEN = {  # orders of Cartesian functions: molden's, with words of any order of letters
    2: "xx yy zz xy xz yz",
    3: "xxx yyy zzz xyy xxy xxz xzz yzz yyz xyz",
    4: "xxxx yyyy zzzz xxxy xxxz yyyx yyyz zzzx zzzy xxyy xxzz yyzz xxyz yyxz zzxy",
}
GAMESS = MOLDEN | {3: "xxx yyy zzz xxy xxz yyx yyz zzx zzy xyz"}
LIBCINT = {
    l: " ".join("x" * i + "y" * j + "z" * (l - i - j) for i in range(l, -1, -1) for j in range(l - i, -1, -1))
    for l in (2, 3, 4)
}


@dataclass(frozen=True)
class GaussianShell:
    """Contracted Gaussians of one angular momentum at a centre; coefficients of normalised radial functions."""

    centre: int
    l: int
    exponents: Real
    coefficients: Real


@dataclass(frozen=True)
class _Function:
    """A normalised basis function: polynomial times a sum of ``exp(-a r^2)`` with these coefficients, at a place."""

    place: Real
    polynomial: Polynomial
    exponents: Real
    coefficients: Real


def _radial_norm(l: int, a: Real) -> Real:
    r"""Return the factor with which :math:`\int r^{2l+2}e^{-2ar^2}dr=\Gamma(l+3/2)/(2(2a)^{l+3/2})` becomes 1."""
    return np.asarray(np.sqrt(2.0 * (2.0 * a) ** (l + 1.5) / math.gamma(l + 1.5)))


def _derivative(polynomial: Polynomial, axis: int, a: float) -> Polynomial:
    """Return the polynomial of the derivative of ``polynomial * exp(-a r^2)``."""
    found: Polynomial = {}
    for powers, value in polynomial.items():
        for step, factor in ((-1, float(powers[axis])), (1, -2.0 * a)):
            if factor != 0.0:
                i, j, k = (power + step * (number == axis) for number, power in enumerate(powers))
                changed = (i, j, k)
                found[changed] = found.get(changed, 0.0) + factor * value
    return found


def _values(polynomial: Polynomial, at: list[Real], other: Polynomial, from_other: list[Real]) -> Real:
    """Return the integral of a product of polynomials by Hermite nodes, (..., nodes) for each axis; shape (...)."""
    total = np.zeros(at[0].shape[:-1])
    for p, value in polynomial.items():
        for q, factor in other.items():
            parts = [(at[k] ** p[k] * from_other[k] ** q[k]) @ WEIGHTS for k in range(3)]
            total += value * factor * parts[0] * parts[1] * parts[2]
    return total


def _overlap(f: Polynomial, a: float, A: Real, g: Polynomial, b: float, B: Real) -> float:
    """Return the integral of two polynomials times their Gaussians, exponents a and b at A and B."""
    p = a + b
    middle = (a * A + b * B) / p
    x = [middle[k] + NODES / math.sqrt(p) for k in range(3)]
    product = _values(f, [x[k] - A[k] for k in range(3)], g, [x[k] - B[k] for k in range(3)])
    return float(product) * p**-1.5 * math.exp(-a * b / p * float((A - B) @ (A - B)))


def _attraction(f: Polynomial, a: float, A: Real, g: Polynomial, b: float, B: Real, C: Real) -> float:
    """Return the integral of the same with 1/r from C."""
    p = a + b
    middle = (a * A + b * B) / p
    # exp(-p r^2) exp(-t^2 (r-C)^2) is a Gaussian of exponent p / (1-u^2) at middle + u^2 (C - middle)
    width = np.sqrt((1.0 - LINE**2) / p)[:, None]
    x = [(middle[k] + LINE**2 * (C[k] - middle[k]))[:, None] + NODES * width for k in range(3)]
    product = _values(f, [x[k] - A[k] for k in range(3)], g, [x[k] - B[k] for k in range(3)])
    along = np.exp(-p * LINE**2 * float((middle - C) @ (middle - C)))
    outside = 2.0 / math.sqrt(math.pi) / p * math.exp(-a * b / p * float((A - B) @ (A - B)))
    return outside * float((LINE_WEIGHTS * along * product).sum())


def _kinetic(f: Polynomial, a: float, A: Real, g: Polynomial, b: float, B: Real) -> float:
    """Return half the integral of the product of two gradients."""
    return 0.5 * sum(
        _overlap(_derivative(f, axis, a), a, A, _derivative(g, axis, b), b, B) for axis in range(3)
    )


def _matrix(functions: list[_Function], element: Callable[..., float]) -> Real:
    """Return the matrix of an operator over all pairs of basis functions."""
    size = len(functions)
    found = np.zeros((size, size))
    for i, f in enumerate(functions):
        for j, g in enumerate(functions[: i + 1]):
            total = 0.0
            for a, c in zip(f.exponents, f.coefficients, strict=True):
                for b, d in zip(g.exponents, g.coefficients, strict=True):
                    total += c * d * element(f.polynomial, a, f.place, g.polynomial, b, g.place)
            found[i, j] = found[j, i] = total
    return found


@dataclass(frozen=True)
class Imported:
    """A molecule with orthonormal orbitals, and how a file of it is written.

    Attributes
    ----------
    charges
        Of the centres; 0 for one that has functions alone.
    places
        Of the centres, bohr, (centres, 3).
    shells
        Of all centres, in their order.
    cartesian
        True for Cartesian functions from d on, else spherical ones.
    coefficients
        Orthonormal orbitals in functions of the norm 1, (functions, orbitals); each spin occupies the first.
    up, down
        Electrons.
    """

    charges: tuple[int, ...]
    places: Real
    shells: tuple[GaussianShell, ...]
    cartesian: bool
    coefficients: Real
    up: int
    down: int

    @property
    def system(self) -> dict[str, Any]:
        """What a deck may say of the system besides."""
        electrons = self.up + self.down
        ions = [
            [ELEMENTS[Z], *place] for Z, place in zip(self.charges, self.places.tolist(), strict=True) if Z
        ]
        charge = sum(self.charges) - electrons
        return {"charge": charge, "spin": self.up - self.down, "electrons": electrons, "atoms": ions}

    def order(self, l: int, cartesian: dict[int, str], spherical: list[int]) -> list[Polynomial]:
        """Return the polynomials of a shell in an order of words or of m."""
        if self.cartesian and l > 1:
            return [_poly(**{word: 1.0}) for word in cartesian[l].split()]
        return [HARMONICS[l][m] for m in spherical]

    @cached_property
    def functions(self) -> list[_Function]:
        """Basis functions of the norm 1 in the order of molden."""
        found = []
        for shell in self.shells:
            radial = shell.coefficients * _radial_norm(shell.l, shell.exponents)
            for polynomial in self.order(shell.l, MOLDEN, _alternating(shell.l)):
                raw = _Function(self.places[shell.centre], polynomial, shell.exponents, radial)
                norm = _matrix([raw], _overlap)[0, 0]
                found.append(_Function(raw.place, polynomial, raw.exponents, radial / math.sqrt(norm)))
        return found

    @cached_property
    def _one_electron(self) -> tuple[Real, Real]:
        """Matrices of the kinetic energy and of the attraction by the nuclei, (functions, functions), hartree."""
        T = _matrix(self.functions, _kinetic)
        V = np.zeros_like(T)
        for charge, place in zip(self.charges, self.places, strict=True):
            if charge:
                V -= charge * _matrix(self.functions, functools.partial(_attraction, C=place))
        return T, V

    @cached_property
    def means(self) -> Means:
        """Kinetic energy and attraction of the occupied orbitals; the energy of one electron alone."""
        T, V = self._one_electron
        C, occupation = self.coefficients, np.arange(self.coefficients.shape[1])
        n = (occupation < self.up).astype(float) + (occupation < self.down)
        kinetic, attraction = (float(np.einsum("fo,fg,go,o->", C, M, C, n)) for M in (T, V))
        trial = {"kinetic": kinetic, "local_pp": attraction}
        if self.up + self.down == 1:
            trial["energy"] = kinetic + attraction + self.repulsion
        # electrons move by 1/(2 sqrt(a)) in the widest function, with steps that suit its diffusion
        widest = min(float(shell.exponents.min()) for shell in self.shells)
        return Means(trial, math.nan, 4.0 * widest)

    @cached_property
    def _orthonormal(self) -> Real:
        """The matrix S^-1/2 of the overlaps S of the functions."""
        values, vectors = np.linalg.eigh(_matrix(self.functions, _overlap))
        return np.asarray((vectors / np.sqrt(values)) @ vectors.T)

    def with_orbitals(self, mixed: Real) -> Imported:
        """Return the molecule with orbitals (functions, orbitals), made orthonormal by the overlap of the functions."""
        return replace(self, coefficients=self._orthonormal @ np.linalg.qr(mixed)[0])

    def with_eigenfunctions(self, count: int) -> Imported:
        """Return the molecule with the lowest orbitals of one electron: their nodes part no walker from where it belongs."""
        (T, V), X = self._one_electron, self._orthonormal
        return replace(self, coefficients=X @ np.linalg.eigh(X @ (T + V) @ X)[1][:, :count])

    @property
    def repulsion(self) -> float:
        """Energy of the nuclei, hartree."""
        pairs = [(i, j) for i in range(len(self.charges)) for j in range(i)]
        return sum(
            self.charges[i] * self.charges[j] / float(np.linalg.norm(self.places[i] - self.places[j]))
            for i, j in pairs
        )

    def occupations(self) -> Real:
        """Return 2 for closed orbitals, 1 for open ones, 0 for others, (orbitals,)."""
        number = np.arange(self.coefficients.shape[1])
        return np.asarray((number < self.up).astype(float) + (number < self.down))

    # ----------------------------------------------------------------------------------------- files

    def write_molden(self, path: Path, program: str) -> None:
        """Write a molden file as a program does: the format itself, ORCA, PSI4 before 1.0 and before 1.4, CFOUR, Turbomole."""
        lines = ["[Molden Format]", "[Title]", f" written by {program or 'nobody'}", "[Atoms] AU"]
        for k, (charge, place) in enumerate(zip(self.charges, self.places, strict=True), 1):
            numbers = " ".join(f"{x:.15f}" for x in place)
            lines.append(f"{ELEMENTS[charge] or 'Bq'} {k} {charge} {numbers}")
        if not self.cartesian:
            lines += ["[5D]", "[9G]"]
        lines.append("[GTO]")
        for centre in range(len(self.charges)):
            lines.append(f"{centre + 1} 0")
            for shell in (s for s in self.shells if s.centre == centre):
                lines.append(f" {LETTERS[shell.l]} {len(shell.exponents)} 1.00")
                factor = np.ones_like(shell.exponents)
                if program in ("ORCA", "PSI4 before 1.0"):  # coefficients of monomials times Gaussians
                    factor = _radial_norm(shell.l, shell.exponents)
                lines += [
                    f"{a:.15e} {c:.15e}"
                    for a, c in zip(shell.exponents, factor * shell.coefficients, strict=True)
                ]
            lines.append("")
        lines.append("[MO]")
        scale = self._scale(program)
        for spin in ("Alpha", "Beta") if self._unrestricted(program) else ("Alpha",):
            for k, occupation in enumerate(self.occupations()):
                if self._unrestricted(program):
                    occupation = float(k < (self.up if spin == "Alpha" else self.down))
                lines += [f" Ene= {k - 5.0:.6f}", f" Spin= {spin}", f" Occup= {occupation:.6f}"]
                lines += [f"{j} {x:.15e}" for j, x in enumerate(self.coefficients[:, k] / scale, 1)]
        path.write_text("\n".join(lines) + "\n")

    def _unrestricted(self, program: str) -> bool:
        return self.up != self.down and program != "CFOUR"

    def _scale(self, program: str) -> Real:
        """Return the norm, with its sign, of what a program calls a basis function, (functions,)."""
        found: list[float] = []
        for shell in self.shells:
            l = shell.l
            if not (self.cartesian and l > 1):
                signs = [-1.0 if program == "ORCA" and abs(m) >= 3 else 1.0 for m in _alternating(l)]
                found += signs
                continue
            for word in MOLDEN[l].split():
                # the norm of x^i y^j z^k grows with (2i-1)!! (2j-1)!! (2k-1)!!: xx has 3 where xy has 1
                own = math.prod(_odd(word.count(letter)) for letter in "xyz")
                largest = _odd(l)
                norm = {"CFOUR": own, "PSI4 before 1.4": own / largest, "Turbomole": largest}.get(
                    program, 1.0
                )
                found.append(math.sqrt(norm))
        return np.array(found)

    def _reordered(
        self, cartesian: dict[int, str], spherical: Callable[[int], list[int]]
    ) -> NDArray[np.int64]:
        """Return molden's number of each function of another order."""
        found, start = [], 0
        for shell in self.shells:
            theirs = self.order(shell.l, cartesian, spherical(shell.l))
            ours = self.order(shell.l, MOLDEN, _alternating(shell.l))
            found += [start + ours.index(polynomial) for polynomial in theirs]
            start += len(ours)
        return np.array(found)

    def write_chkfile(self, path: Path) -> None:
        """Write a checkpoint file of PySCF: libcint's integer tables; Cartesian functions from d on are bare monomials."""
        import h5py

        env, atm, bas = [0.0] * 20, [], []
        for charge, place in zip(self.charges, self.places, strict=True):
            atm.append([charge, len(env), 1, len(env) + 3, 0, 0])
            env += [*place.tolist(), 0.0]
        scale: list[float] = []
        for shell in self.shells:
            norm = _radial_norm(shell.l, shell.exponents) * shell.coefficients
            env += shell.exponents.tolist()
            first = len(env)
            env += (norm / self._norm(shell)).tolist()
            bas.append([shell.centre, shell.l, len(norm), 1, 0, first - len(norm), first, 0])
            words = LIBCINT[shell.l].split() if self.cartesian and shell.l > 1 else [""] * (2 * shell.l + 1)
            # the angular integral of (x^i y^j z^k)^2 is 4 pi times double factorials over (2l + 1)!!
            own = [math.prod(_odd(w.count(letter)) for letter in "xyz") for w in words]
            angular = [
                4.0 * math.pi * x / _odd(shell.l + 1) if w else 1.0 for x, w in zip(own, words, strict=True)
            ]
            scale += np.sqrt(angular).tolist()
        mol = {
            "_atm": atm,
            "_bas": bas,
            "_env": env,
            "_atom": [
                [ELEMENTS[c] or "GHOST", p.tolist()] for c, p in zip(self.charges, self.places, strict=True)
            ],
            "cart": self.cartesian,
        }
        C = self.coefficients[self._reordered(LIBCINT, _ascending)] / np.array(scale)[:, None]
        with h5py.File(path, "w") as file:
            file["mol"] = json.dumps(mol)
            file["scf/mo_coeff"] = C
            file["scf/mo_occ"] = self.occupations()

    def _norm(self, shell: GaussianShell) -> float:
        """Return the radial norm of a contraction of normalised Gaussians."""
        a = shell.exponents
        both = _radial_norm(shell.l, a) * shell.coefficients
        power = shell.l + 1.5
        overlaps = math.gamma(power) / (2.0 * (a[:, None] + a) ** power)
        return math.sqrt(float(both @ overlaps @ both))

    def write_qmcpack(self, path: Path) -> None:
        """Write the HDF5 file of QMCPACK's converters; elements must differ, as a basis belongs to a species."""
        import h5py

        number = range(len(self.charges))
        out: dict[str, Any] = {
            "PBC/PBC": np.array([False]),
            "atoms/number_of_atoms": np.array([len(self.charges)], np.int32),
            "atoms/positions": self.places,
            "atoms/species_ids": np.array(number, np.int32),
            "parameters/NbAlpha": np.array([self.up], np.int32),
            "parameters/NbBeta": np.array([self.down], np.int32),
            "parameters/IsComplex": np.array([False]),
            "basisset/NbElements": np.array([len(self.charges)], np.int32),
            "Super_Twist/eigenset_0": self.coefficients[self._reordered(GAMESS, _ascending)].T,
        }
        for k in number:
            group = f"basisset/atomicBasisSet{k}"
            shells = [shell for shell in self.shells if shell.centre == k]
            out |= {
                f"atoms/species_{k}/atomic_number": np.array([self.charges[k]], np.int32),
                f"atoms/species_{k}/charge": np.array([float(self.charges[k])]),
                f"{group}/angular": np.array([b"cartesian" if self.cartesian else b"spherical"]),
                f"{group}/normalized": np.array([b"no"]),
                f"{group}/elementType": np.array([ELEMENTS[self.charges[k]].encode()]),
                f"{group}/NbBasisGroups": np.array([len(shells)], np.int32),
            }
            for n, shell in enumerate(shells):
                part = f"{group}/basisGroup{n}"
                out[f"{part}/l"] = np.array([shell.l], np.int32)
                out[f"{part}/NbRadFunc"] = np.array([len(shell.exponents)], np.int32)
                out[f"{part}/type"] = np.array([b"Gaussian"])
                for i, (a, c) in enumerate(zip(shell.exponents, shell.coefficients, strict=True)):
                    out[f"{part}/radfunctions/DataRad{i}/exponent"] = np.array([a])
                    out[f"{part}/radfunctions/DataRad{i}/contraction"] = np.array([c])
        with h5py.File(path, "w") as file:
            for name, value in out.items():
                file[name] = value

    def write_trexio(self, path: Path) -> None:
        """Write TREXIO's HDF5 file, functions of norm 1 by its factors of primitives, shells and functions."""
        import h5py

        def spherical(l: int) -> list[int]:
            return (
                [1, -1, 0]
                if self.cartesian and l == 1
                else [0, *(m for k in range(1, l + 1) for m in (k, -k))]
            )

        shell_of: list[int] = []
        scale: list[float] = []
        for k, shell in enumerate(self.shells):
            racah = math.sqrt((2 * shell.l + 1) / (4.0 * math.pi))
            own = [racah] * (2 * shell.l + 1)
            if self.cartesian and shell.l > 1:
                words = LIBCINT[shell.l].split()
                squares = [math.prod(_odd(word.count(letter)) for letter in "xyz") for word in words]
                own = [math.sqrt(_odd(shell.l + 1) / (4.0 * math.pi * x)) for x in squares]
            scale += own
            shell_of += [k] * len(own)
        counts = [len(shell.exponents) for shell in self.shells]
        arrays: dict[str, Any] = {
            "nucleus_charge": np.array(self.charges, float),
            "nucleus_coord": self.places,
            "basis_nucleus_index": np.array([shell.centre for shell in self.shells]),
            "basis_shell_ang_mom": np.array([shell.l for shell in self.shells]),
            "basis_shell_factor": np.array([1.0 / self._norm(shell) for shell in self.shells]),
            "basis_shell_index": np.repeat(np.arange(len(counts)), counts),
            "basis_exponent": np.concatenate([shell.exponents for shell in self.shells]),
            "basis_coefficient": np.concatenate([shell.coefficients for shell in self.shells]),
            "basis_prim_factor": np.concatenate(
                [np.atleast_1d(_radial_norm(shell.l, shell.exponents)) for shell in self.shells]
            ),
            "ao_shell": np.array(shell_of),
            "ao_normalization": np.array(scale),
            "mo_coefficient": self.coefficients[self._reordered(LIBCINT, spherical)].T,
            "mo_occupation": self.occupations(),
        }
        numbers = {
            "basis_type": "Gaussian",
            "ao_cartesian": int(self.cartesian),
            "electron_up_num": self.up,
            "electron_dn_num": self.down,
        }
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[f"{name.split('_')[0]}/{name}"] = array
            for name, value in numbers.items():
                file.require_group(name.split("_")[0]).attrs[name] = value


def _odd(k: int) -> int:
    """Return (2k - 1)!!."""
    return math.prod(range(1, 2 * k, 2))


def _alternating(l: int) -> list[int]:
    """Return m = 0, 1, -1, 2, -2, ...; of p functions x, y, z."""
    return [1, -1, 0] if l == 1 else [0, *(m for k in range(1, l + 1) for m in (k, -k))]


def _ascending(l: int) -> list[int]:
    """Return m = -l ... l; of p functions x, y, z."""
    return [1, -1, 0] if l == 1 else list(range(-l, l + 1))


PROGRAMS = {  # of molden files: whether functions may be spherical, and Cartesian
    "": (True, True),
    "ORCA": (True, False),
    "PSI4 before 1.0": (True, False),
    "PSI4 before 1.4": (False, True),
    "CFOUR": (False, True),
    "Turbomole": (False, True),
}


def draw_imported(rng: Generator) -> tuple[Imported, str, str]:
    """Draw a molecule, the source of its orbitals in a deck, and the program whose conventions its file has."""
    source = str(rng.choice(["molden", "molden", "molden", "chkfile", "qmcpack", "trexio"]))
    program = str(rng.choice(list(PROGRAMS))) if source == "molden" else ""
    spherical, cartesian = PROGRAMS[program]
    monomials = bool(rng.random() < 0.5) if spherical and cartesian else cartesian
    centres = int(rng.integers(2, 4))  # of an atom alone, several conventions are right
    charges = [int(Z) for Z in rng.choice(np.arange(1, 10), centres, replace=False)]
    if source != "qmcpack" and rng.random() < 0.25:
        charges[-1] = 0
    places = np.cumsum(rng.uniform(0.4, 1.0, (centres, 3)) * rng.choice([-1.0, 1.0], (centres, 3)), axis=0)
    shells, functions = [], 0
    for centre in range(centres):
        for l in sorted({0, *rng.integers(0, 5, int(rng.integers(1, 3))).tolist()}):
            count = int(rng.integers(1, 4))
            exponents = np.sort(np.exp(rng.uniform(np.log(0.4), np.log(2.5), count)))[::-1]
            shell = GaussianShell(
                centre, int(l), exponents, rng.uniform(0.2, 1.0, count) * rng.choice([1.0, 1.0, -1.0], count)
            )
            shells.append(shell)
            functions += (l + 1) * (l + 2) // 2 if monomials else 2 * l + 1
    up, down = [(1, 0), (1, 0), (1, 1), (2, 1), (2, 0), (3, 2)][int(rng.integers(6))]
    up, down = (1, 1) if (source == "qmcpack" or program == "CFOUR") and up > 1 else (up, down)
    shells = [_normalised(shell) for shell in shells]
    bare = Imported(tuple(charges), places.round(6), tuple(shells), monomials, np.eye(functions), up, down)
    kept = max(up, min(functions, int(rng.integers(3, 9))))
    return bare.with_eigenfunctions(kept), source, program


def _normalised(shell: GaussianShell) -> GaussianShell:
    """Return a shell whose contraction has the norm 1."""
    one = Imported((), np.zeros((0, 3)), (), False, np.eye(0), 0, 0)
    return GaussianShell(shell.centre, shell.l, shell.exponents, shell.coefficients / one._norm(shell))
