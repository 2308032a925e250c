"""Coverage of trotter: observables of random decks against exact evolution.

The claim is `error_estimate`, the error of the state vector.  An observable O of a state that is off by e is off by at most
``2 w e + w e^2``, w half the width of its spectrum, so that every observable has its own factor:

==============================  =========================
``<S_j>``                       e
total spin                      N e
``<S_j S_k>``                   e / 2
energy                          2 w e
energy variance                 8 w^2 e
overlaps, echoes                2 e of each state in it
polarisation ``2 <S>``          2 e
entropy of k sites              Fannes and Audenaert
==============================  =========================
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from qsim_checks.coverage import Claim, Kind, Trial
from qsim_checks.trotter.anywhere import dense, evolved
from qsim_checks.trotter.draws import draw_deck
from qsim_checks.trotter.fid import fid
from qsim_checks.trotter.larger import cycle, evolution, judge_cycle, judge_evolution
from qsim_checks.trotter.open import OPEN
from qsim_checks.trotter.oracle import (
    Evolution,
    Part,
    Truth,
    couplings,
    entropy_bound,
    evolve,
    fields,
    profile,
)
from qsim_checks.trotter.spectra import spectrum
from qsim_checks.trotter.tasks import TASKS, beside, pulses

if TYPE_CHECKING:
    from qsim.core.results.results import Results

__all__ = ["KINDS", "judge", "trial"]

WARNING = r"dt = .* is long|error of the state is|half the step"
"""Warnings that withdraw claims."""
STREAMS = (0x5F1E0000, 0x5C0F0000)
SPECTRA, BESIDE, PULSES, DYNAMICS = 0.25, 0.2, 0.1, 0.45
"""Shares of decks that ask for levels, of other tasks beside an evolution, of driven evolutions in sectors, and of others."""


def trial(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck and return it with its judge."""
    kind = rng.choice(["spectrum", "beside", "pulses", "dynamics"], p=[SPECTRA, BESIDE, PULSES, DYNAMICS])
    if kind == "spectrum":
        return spectrum(rng)
    if kind == "beside":
        return beside(rng)
    return KINDS["pulses" if kind == "pulses" else "evolve"](rng, folder)


def _evolution(rng: np.random.Generator, folder: Path) -> Trial:
    drawn = draw_deck(rng, folder)
    return Trial(_public(drawn), lambda results: judge(drawn, folder, results))


def _pulsed(rng: np.random.Generator, folder: Path) -> Trial:
    drawn = pulses(rng)
    return Trial(_public(drawn), lambda results: judge(drawn, folder, results))


def _larger(rng: np.random.Generator, folder: Path) -> Trial:
    deck, psi = evolution(rng, folder)
    other = np.load(folder / "other.npy")
    return Trial(deck, lambda results: judge_evolution(deck, psi, other, results))


def _cycle(rng: np.random.Generator, folder: Path) -> Trial:
    deck, psi = cycle(rng, folder)
    return Trial(deck, lambda results: judge_cycle(deck, psi, results))


def _free(rng: np.random.Generator, folder: Path) -> Trial:
    drawn = evolved(rng, folder)
    return Trial(_public(drawn), lambda results: judge(drawn, folder, results))


KINDS: Mapping[str, Kind] = {
    "evolve": _evolution,
    "pulses": _pulsed,
    "spectrum": lambda rng, folder: spectrum(rng, "spectrum"),
    "levels": lambda rng, folder: spectrum(rng, "levels"),
    "levels_anywhere": lambda rng, folder: spectrum(rng, "levels", free=True),
    "spectrum_anywhere": lambda rng, folder: spectrum(rng, "spectrum", free=True),
    "evolve_anywhere": _free,
    "evolve_larger": _larger,
    "floquet_larger": _cycle,
    "levels_larger": lambda rng, folder: spectrum(rng, "levels", large=True),
    "spectrum_larger": lambda rng, folder: spectrum(rng, "spectrum", large=True),
    **{
        f"{task}_larger": functools.partial(beside, task=task, large=True) for task in ("thermal", "dynamics")
    },
    "fid": fid,
    **OPEN,
    **{task: functools.partial(beside, task=task, free=False) for task in TASKS},
    **{f"{task}_anywhere": functools.partial(beside, task=task, free=True) for task in TASKS},
}
"""Kinds of decks that can be drawn alone."""


def _public(value: Any) -> Any:
    """Return a deck without what is for the oracle alone."""
    if isinstance(value, dict):
        return {key: _public(item) for key, item in value.items() if not key.startswith("_")}
    return [_public(item) for item in value] if isinstance(value, list) else value


# ------------------------------------------------------------------------------------ the true evolution


def _numbers(
    term: Mapping[str, Any], spins: int, seed: int, number: int, realisation: int
) -> NDArray[np.float64] | None:
    """Return the random numbers of a term, which are input: those of the code under test."""
    from qsim.trotter.deck import couplings as blocks
    from qsim.trotter.model import disorder

    block = term.get("random")
    if block is None:
        return None
    kind = {"box": blocks.RandomBox, "normal": blocks.RandomNormal, "binary": blocks.RandomBinary}[
        block["kind"]
    ]
    field = term["type"] == "field"
    return disorder.draw(
        kind(**block),
        spins if field else spins * (spins - 1) // 2,
        seed=seed,
        number=number,
        realisation=realisation,
        coupling=not field,
        axis="xyz".index(term.get("axis", "z")) if field else 0,
    )


def _parts(deck: Mapping[str, Any], terms: Sequence[Any], first: int, realisation: int) -> list[Part]:
    system = deck["system"]
    spins = system["spins"]
    if "_dense" in deck:
        return [_whole(system, number) for number in range(len(system["terms"]))]
    pauli = system["operators"] == "pauli"
    full = system["sum"] == "full"
    found = []
    for number, term in enumerate(terms, first):
        drawn = _numbers(term, spins, deck["run"]["seed"], number, realisation)
        J, h = np.zeros((3, spins, spins)), np.zeros((3, spins))
        if term["type"] == "field":
            h = (2.0 if pauli else 1.0) * fields(term, spins, drawn)
        else:
            J = (4.0 if pauli else 1.0) * (2.0 if full else 1.0) * couplings(term, system, drawn)
        factor, kinks = profile(term.get("profile"))
        found.append(Part(J, h, factor, kinks))
    return found


def _whole(system: Mapping[str, Any], number: int) -> Part:
    """Return a term of any kind as a matrix of all spins, with a bound of its size for the oracle's rounding."""
    H = dense(system, [number])
    size = np.zeros((3, system["spins"]))
    size[0, 0] = 2.0 * float(np.linalg.norm(H, 2))
    factor, kinks = profile(system["terms"][number].get("profile"))
    return Part(np.zeros((3, 1, 1)), size, factor, kinks, csr_matrix(H))


def _start(deck: Mapping[str, Any], folder: Path, member: int) -> NDArray[np.complex128]:
    """Return the initial state (2^N,); random ones are input, and made by the code under test."""
    from qsim.core.device.device import cpu
    from qsim.trotter.initial.random import A1State, HaarState, RandomPhaseState

    block, spins = dict(deck["initial"]), deck["system"]["spins"]
    kind = block["type"]
    if kind in ("a1", "random_phase", "haar"):
        made = {"a1": A1State, "random_phase": RandomPhaseState, "haar": HaarState}[kind](**block)
        return np.asarray(made.vector(spins, cpu(1), np.complex128, seed=deck["run"]["seed"], member=member))
    if kind in ("file", "ground_state"):
        psi = np.load(folder / block.get("file", "start.npy"))
    elif kind == "mps":
        psi = _contracted(np.load(folder / block["file"]), spins)
    else:
        psi = np.ones(1, complex)
        for up, down in _product(block, spins):  # site 0 is the lowest bit
            psi = np.kron([up, down], psi)
    return np.asarray(psi / np.linalg.norm(psi))


def _contracted(tensors: Any, spins: int) -> NDArray[np.complex128]:
    psi = np.ones((1, 1), complex)
    for k in range(spins):
        psi = np.einsum("xl,lsr->sxr", psi, tensors[f"A{k}"]).reshape(-1, tensors[f"A{k}"].shape[2])
    return np.asarray(psi[:, 0])


def _product(block: Mapping[str, Any], spins: int) -> list[tuple[complex, complex]]:
    """Return the amplitudes (up, down) of each spin of a product state, site 0 first."""
    kind = block["type"]
    if kind == "product":
        return [
            (complex(math.cos(a / 2)), complex(np.exp(1j * b) * math.sin(a / 2)))
            for a, b in zip(block["theta"], block["phi"], strict=True)
        ]
    if kind == "polarised":
        sign = -1.0 if block["axis"].startswith("-") else 1.0
        half = math.sqrt(0.5)
        one = {
            "x": (half, sign * half),
            "y": (half, sign * 1j * half),
            "z": (1.0, 0.0) if sign > 0 else (0.0, 1.0),
        }
        return [one[block["axis"][-1]]] * spins
    if kind == "basis":
        bits = block.get("bits") or "".join("0" if j in block["up"] else "1" for j in range(spins))
    else:
        bits = "".join(str(j % 2) if kind == "neel" else str(int(j >= spins // 2)) for j in range(spins))
    return [(1.0, 0.0) if bit == "0" else (0.0, 1.0) for bit in bits]


# ---------------------------------------------------------------------------------------- the verdicts


def judge(deck: Mapping[str, Any], folder: Path, results: Results) -> list[Claim]:
    """Hold all arrays of a results file against the truth."""
    times = np.asarray(results["time"])
    end = deck["evolve"]["t_final"]
    every = sorted({*times.tolist(), 0.0, end})
    error = float(results.scalars["error_estimate"].value or 0.0)
    accuracy = deck["evolve"].get("accuracy", 0.0)
    ensemble = deck.get("ensemble", {})
    states = ensemble.get("states", 1)
    sums: dict[str, Any] = {}
    sizes: dict[str, float] = {}
    last = None
    members = ensemble.get("disorder", 1) * states
    for member in range(members):
        one = _Member(deck, folder, member, member // states, every)
        for name, (values, size) in one.expected(times.tolist(), results).items():
            sums[name] = sums.get(name, 0.0) + np.asarray(values) / members
            sizes[name] = max(sizes.get(name, 0.0), size)
        last = one
    assert last is not None
    claims = []
    for name, size in sizes.items():
        if name == "_entropy":  # has a bound of its own
            continue
        found = np.asarray(results[name])
        difference = float(np.abs(found - sums[name]).max(initial=0.0))
        oracle = size * (2e-11 if last.driven else 1e-13 * (1 + last.width * end))
        single = deck["run"].get("precision") == "single"
        oracle += 3e-6 * size if single else 1e-13 * max(size, 1.0)
        warning = f"{WARNING}|imbalance" if name == "imbalance" else WARNING
        claims.append(Claim(name, difference, size * error, size * accuracy, oracle, warning))
        # scalars are those of the whole evolution, which output times need not span
        if len(found) == len(times) and times[0] == 0.0 and times[-1] == end:
            claims += _final_claims(name, results, sums[name], size * accuracy, oracle)
    if "entropy" in results:
        claims.append(_entropy_claim(results, sums, error, accuracy, deck))
    state = np.asarray(results["state"])
    if deck["initial"]["type"] == "ground_state":
        # the phase of an eigenstate has no meaning
        state = state * np.exp(1j * np.angle(np.vdot(state, last.states[end])))
    distance = float(np.linalg.norm(state / np.linalg.norm(state) - last.states[end]))
    claims.append(Claim("state", distance, error, accuracy, 1e-12 + (2e-11 if last.driven else 0.0), WARNING))
    return claims


def _final_claims(name: str, results: Results, truth: Any, accuracy: float, oracle: float) -> list[Claim]:
    """Hold the scalars of the first and last value of an array against the truth, by the errors that they state."""
    claims = []
    for scalar, row in ((f"{name}_initial", 0), (f"{name}_final", -1)):
        found = results.scalars.get(scalar)
        if found is not None and found.error is not None:
            difference = abs(float(found) - float(np.asarray(truth)[row]))
            claims.append(Claim(scalar, difference, found.error, accuracy, oracle, WARNING))
    return claims


def _entropy_claim(
    results: Results, sums: Mapping[str, Any], error: float, accuracy: float, deck: Mapping[str, Any]
) -> Claim:
    sites = next(len(item["entropy"]["sites"]) for item in deck["observe"] if "entropy" in item)
    difference = float(np.abs(np.asarray(results["entropy"]) - sums["_entropy"]).max())
    small = min(sites, deck["system"]["spins"] - sites)
    floor = 1e-5 if deck["run"].get("precision") == "single" else 1e-10
    stated = [entropy_bound(e, small) for e in (error, accuracy)]
    return Claim("entropy", difference, stated[0], stated[1], floor, WARNING)


class _Member:
    """One trajectory of a deck, evolved exactly."""

    def __init__(
        self, deck: Mapping[str, Any], folder: Path, member: int, realisation: int, times: Sequence[float]
    ) -> None:
        self.deck, self.folder = deck, folder
        self.spins = deck["system"]["spins"]
        terms = deck["system"]["terms"]
        self.evolution = Evolution(self.spins, _parts(deck, terms, 0, realisation))
        self.start = _start(deck, folder, member)
        self.states = dict(zip(times, evolve(self.evolution, self.start, times), strict=True))
        self.echo = next((item["echo"] for item in deck["observe"] if "echo" in item), None)
        self.driven = self.evolution.driven
        self.width = self.evolution.radius(0.0)
        self.others: dict[float, NDArray[np.complex128]] = {}
        self.perturbed: Evolution | None = None
        if self.echo is not None:
            sigma = _parts(deck, self.echo["sigma"], len(terms), realisation)
            self.perturbed = Evolution(self.spins, [*self.evolution.parts, *sigma])
            self.driven = self.driven or self.perturbed.driven
            self.others = dict(zip(times, evolve(self.perturbed, self.start, times), strict=True))

    def expected(self, times: Sequence[float], results: Results) -> dict[str, tuple[Any, float]]:
        """Return the true values of every array of the results and the factor of its error."""
        truths = [Truth(self.states[t], self.spins) for t in times]
        found: dict[str, tuple[Any, float]] = {}
        H = [self.evolution.at(t) for t in times] if self.driven else [self.evolution.at(0.0)] * len(times)
        energies = np.array([truth.energy(h) for truth, h in zip(truths, H, strict=True)])
        width = max(self.evolution.radius(t) for t in times)
        found["energy"] = energies[:, 0], 2.0 * width
        if "energy_variance" in results:
            found["energy_variance"] = energies[:, 1], 8.0 * width**2
        for a in "xyz":
            self._spins(found, results, truths, a)
        if "return_probability" in results:
            found["return_probability"] = [t.fidelity(self.start) for t in truths], 2.0
        if "fidelity" in results:
            other = np.load(self.folder / "other.npy")
            found["fidelity"] = [t.fidelity(other) for t in truths], 2.0
        if "entropy" in results:
            sites = next(item["entropy"]["sites"] for item in self.deck["observe"] if "entropy" in item)
            found["_entropy"] = [t.entropy(sites) for t in truths], 0.0
        if "imbalance" in results:
            pattern = Truth(self.start, self.spins).spin("z")
            square = (
                float(pattern @ pattern) if np.abs(pattern).max() > 1e-12 else math.nan
            )  # no pattern, no imbalance
            found["imbalance"] = (
                [pattern @ t.spin("z") / square for t in truths],
                float(np.abs(pattern).sum()) / square,
            )
        if "polarisation" in results:
            found["polarisation"] = [2.0 * t.spin("z") for t in truths], 2.0
        if self.echo is not None:
            self._echoes(found, results, times)
        return found

    def _spins(
        self, found: dict[str, tuple[Any, float]], results: Results, truths: list[Truth], a: str
    ) -> None:
        values = np.array([t.spin(a) for t in truths])
        if f"total_s{a}" in results:
            found[f"total_s{a}"] = values.sum(axis=1), float(self.spins)
        if f"s{a}" in results:
            sites = results[f"site_s{a}"] if f"site_s{a}" in results else range(self.spins)
            found[f"s{a}"] = values[:, list(sites)], 1.0
        for b in "xyz":
            name = f"correlator_{a}{b}"
            if name in results:
                pairs = results["pairs"] if "pairs" in results else results[f"pairs_{a}{b}"]
                found[name] = [[t.correlator(a, int(j), int(k), b) for j, k in pairs] for t in truths], 0.5

    def _echoes(self, found: dict[str, tuple[Any, float]], results: Results, times: Sequence[float]) -> None:
        at = [float(t) for t in results["echo_time"]] if "echo_time" in results else list(times)
        assert self.echo is not None
        assert self.perturbed is not None
        overlaps = [abs(np.vdot(self.others[t], self.states[t])) ** 2 for t in at]
        found["echo"] = overlaps, 4.0
        if "echo_normalised" in results:
            found["echo_normalised"] = overlaps, 4.0
        if "echo_local" in results:
            local = [[2.0 * s for s in Truth(self._returned(t), self.spins).spin("z")] for t in at]
            found["echo_local"] = np.array(local)[:, self.echo["local"]], 4.0

    def _returned(self, t: float) -> NDArray[np.complex128]:
        """Return the state that was carried back from a time with the perturbed Hamiltonian."""
        assert self.perturbed is not None
        if t == 0.0:
            return self.start
        return evolve(self.perturbed.back(t), self.states[t], [t])[0]
