r"""Jump operators from the entries of a deck, and the decay between their jumps.

Every jump operator here is a sum over sites, ``L = sum_j w_j . S_j`` with complex vectors w_j that hold the root of the rate, so
that

    sum_k L_k^+ L_k = c + sum_j B_j . S_j + sum_{j<k} sum_ab C^ab_jk S^a_j S^b_k,

a Hermitian model like H itself.  Of spins 1/2, ``(w* . S)(w . S) = |w|^2 / 4 + (i/2) (w* x w) . S``: loss and pump are fields
along z, dephasing is a constant; a collective operator adds couplings ``2 Re(w*_ja w_kb)`` of all its pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.columns import read_rows
from qsim.core.deck.expression import Expression
from qsim.core.errors import DeckError, FileError
from qsim.trotter.deck.open import dissipation as blocks
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.model.larger import SpinModel, spin_matrices
from qsim.trotter.model.profiles import factor, is_constant
from qsim.trotter.model.readers import read_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.deck.couplings import System
    from qsim.trotter.deck.profiles import Profile

# of the largest rate: a negative eigenvalue of a matrix of rates that is rounding
ROUNDING = 1e-12
Factor = Callable[[float], float]


@dataclass(frozen=True)
class Channel:
    """A jump operator ``L = f(t)^(1/2) sum_j w_j . S_j``.

    Attributes
    ----------
    entry : int
        Number of its entry in the deck.
    kind : str
        Name of the process: ``loss``, ``pump``, ``dephasing``, ``jump``, ``collective``, ``correlated``.
    site : int
        Site of the jump; -1 of one of several sites.
    w : (N, 3) complex128
        Components of every site along x, y, z, with the root of the rate.
    factor : function or None
        f(t) >= 0; None for 1.
    """

    entry: int
    kind: str
    site: int
    w: NDArray[np.complex128]
    factor: Factor | None = None

    def strength(self, t: float) -> float:
        """Return f(t)."""
        return 1.0 if self.factor is None else self.factor(t)

    @property
    def local(self) -> bool:
        """True if the operator acts on one site."""
        return self.site >= 0


@dataclass(frozen=True)
class Decay:
    """``sum_k L_k^+ L_k`` of the channels with one profile: ``f(t) (constant + model)``.

    Attributes
    ----------
    model : Model
        Fields and couplings; of larger spins with matrices of single sites.
    constant : float
    factor : function or None
    """

    model: Model
    constant: float
    factor: Factor | None = None

    @property
    def is_constant(self) -> bool:
        """True if the rate of all jumps together is the same in every state."""
        m = self.model
        return not (m.J.any() or m.h.any() or m.cross is not None or getattr(m, "sites", {}))


def channels_of(entries: Sequence[blocks.Dissipation], system: System) -> list[Channel]:
    """Return the jump operators of a deck; those whose rate is zero are left out.

    Raises
    ------
    FileError
        If a file has other numbers than the deck needs.
    DeckError
        If a rate is negative or not finite, or a matrix of rates has a negative eigenvalue.
    """
    found: list[Channel] = []
    for number, entry in enumerate(entries):
        found += _of_entry(entry, system.spins, number)
    return [channel for channel in found if channel.w.any()]


def _of_entry(entry: blocks.Dissipation, spins: int, number: int) -> list[Channel]:
    """Return the channels of one entry of the deck."""
    key, f = f"dissipation.{number}", _factor(entry.profile)
    if isinstance(entry, blocks.Collective):
        w = np.zeros((spins, 3), complex)
        w[entry.sites if entry.sites is not None else slice(None)] = math.sqrt(entry.rate) * np.array(
            blocks.vector_of(entry.operator)
        )
        return [Channel(number, entry.type, -1, w, f)]
    if isinstance(entry, blocks.Correlated):
        return _correlated(entry, spins, number, f)
    rates = _rates(entry, spins, key)
    # name of the process, operator, and its share of the rate
    named: list[tuple[str, str | list[float | str], float]]
    if isinstance(entry, blocks.Thermal):
        named = [("loss", "minus", entry.occupation + 1.0), ("pump", "plus", entry.occupation)]
    elif isinstance(entry, blocks.Jump):
        named = [("jump", entry.operator, 1.0)]
    else:
        operator = {"loss": "minus", "pump": "plus", "dephasing": "z"}[entry.type]
        # L = sqrt(2 f) S^z lets the coherence of a spin decay as exp(-f t)
        named = [(entry.type, operator, 2.0 if entry.type == "dephasing" else 1.0)]
    made = []
    for kind, direction, share in named:
        vector = np.array(blocks.vector_of(direction))
        for site in range(spins):
            w = np.zeros((spins, 3), complex)
            w[site] = math.sqrt(share * rates[site]) * vector
            made.append(Channel(number, kind, site, w, f))
    return made


def _factor(profile: Profile | None) -> Factor | None:
    if profile is None:
        return None
    f = factor(profile)
    if is_constant(profile):
        value = f(0.0)
        return None if value == 1.0 else lambda t: value
    return f


def _rates(entry: blocks.Local | blocks.Thermal | blocks.Jump, spins: int, key: str) -> NDArray[np.float64]:
    """Return the rate of every site (N,)."""
    sites = np.array(entry.sites if entry.sites is not None else range(spins))
    if entry.file is not None:
        values = np.array(read_rows(entry.file, "one rate per site", (1,), most=sites.size))[:, 0]
        if values.size != sites.size:
            raise FileError(f"{entry.file}: {values.size} rates for {sites.size} sites")
    elif isinstance(entry.rate, str):
        values = Expression(entry.rate, ("j",))(j=sites.astype(np.float64)) + np.zeros(sites.size)
    else:
        values = np.zeros(sites.size) + np.asarray(entry.rate, float)
    bad = np.flatnonzero(~((values >= 0.0) & (values < blocks.MOST_RATE)))
    if bad.size:
        where = "file" if entry.file is not None else "rate"
        raise DeckError(
            f"{key}.{where}: the rate of site {sites[bad[0]]} is {values[bad[0]]:g}; rates must be 0 or more"
        )
    rates = np.zeros(spins)
    rates[sites] = values
    return rates


def _correlated(entry: blocks.Correlated, spins: int, number: int, f: Factor | None) -> list[Channel]:
    """Return the channels of a matrix of rates, one for each of its eigenvectors."""
    if entry.file is not None:
        matrix = read_matrix(entry.file, spins, symmetric=True)
    else:
        matrix = np.array(entry.matrix)
        matrix = 0.5 * (matrix + matrix.T)
    values, vectors = np.linalg.eigh(matrix)
    if values[0] < -ROUNDING * max(values[-1], -values[0]):
        raise DeckError(
            f"dissipation.{number}: the matrix of rates has the eigenvalue {values[0]:g}; correlated decay needs one without "
            "negative eigenvalues"
        )
    vector = np.array(blocks.vector_of(entry.operator))
    least = ROUNDING * max(float(values[-1]), 0.0)
    return [
        Channel(number, entry.type, -1, math.sqrt(value) * vectors[:, k, None] * vector, f)
        for k, value in enumerate(values)
        if value > least
    ]


# --------------------------------------------------------------------------------------------- decay


def decays_of(channels: Sequence[Channel], twos: tuple[int, ...]) -> list[Decay]:
    """Return ``sum_k L_k^+ L_k``, one for each profile of the rates."""
    groups: dict[int, list[Channel]] = {}
    for channel in channels:
        groups.setdefault(0 if channel.factor is None else id(channel.factor), []).append(channel)
    return [_decay(group, twos) for group in groups.values()]


def _decay(channels: Sequence[Channel], twos: tuple[int, ...]) -> Decay:
    """Return half the sum of all ``L^+ L`` as fields and couplings."""
    n = len(twos)
    w = np.array([channel.w for channel in channels])
    # (w*_ja w_kb + w*_kb w_ja) of two sites: real, and symmetric under an exchange of both
    pairs = 2.0 * np.einsum("mja,mkb->abjk", w.conj(), w).real
    pairs[:, :, np.arange(n), np.arange(n)] = 0.0
    J = np.array([0.5 * (pairs[a, a] + pairs[a, a].T) for a in range(3)])
    cross = pairs.copy()
    cross[np.arange(3), np.arange(3)] = 0.0
    small = 1e-15 * max(float(np.abs(pairs).max(initial=0.0)), 1e-300)
    off: NDArray[np.float64] | None = None
    if float(np.abs(cross).max(initial=0.0)) > small:
        off = 0.5 * (cross + cross.transpose(1, 0, 3, 2))
    f = channels[0].factor
    if set(twos) == {1}:
        # (w* . S)(w . S) of a spin 1/2
        field = (0.5j * np.cross(w.conj(), w)).real.sum(axis=0)
        field[np.abs(field) < 1e-15 * float(np.abs(field).max(initial=0.0))] = 0.0
        return Decay(Model(n, J, field.T.copy(), off), 0.25 * float((np.abs(w) ** 2).sum()), f)
    sites = {}
    for j, two in enumerate(twos):
        local = np.einsum("ma,axy->mxy", w[:, j], spin_matrices(two))
        if local.any():
            sites[j] = np.einsum("myx,myz->xz", local.conj(), local)
    empty = SpinModel.empty(twos)
    return Decay(replace(empty, J=J, cross=off, sites=sites), 0.0, f)


def digits_of(model: Model, twos: tuple[int, ...]) -> SpinModel:
    """Return a model as one of spins of any size."""
    if isinstance(model, SpinModel):
        return model
    return SpinModel(model.spins, model.J, model.h, model.cross, twos)


def jump_model(w: NDArray[np.complex128], twos: tuple[int, ...]) -> SpinModel:
    """Return ``sum_j w_j . S_j`` as a model, which need not be Hermitian; w is (N, 3)."""
    sites = {j: np.einsum("a,axy->xy", w[j], spin_matrices(two)) for j, two in enumerate(twos) if w[j].any()}
    return replace(SpinModel.empty(twos), sites=sites)


def charge_of(channel: Channel) -> int | None:
    """Return by how much a jump raises the total Sz (1, 0, -1); None if it leads to several."""
    w, scale = channel.w, float(np.abs(channel.w).max())
    across = float(np.abs(w[:, :2]).max()) > ROUNDING * scale
    if not across:
        return 0
    if float(np.abs(w[:, 2]).max()) > ROUNDING * scale:
        return None
    # S^+ = S^x + i S^y
    for charge in (1, -1):
        if np.abs(w[:, 1] - charge * 1j * w[:, 0]).max() <= ROUNDING * scale:
            return charge
    return None
