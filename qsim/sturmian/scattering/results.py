"""Names, units and conventions of what a collision leaves in its results file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.tables import Scalar, Table
from qsim.sturmian.scattering import spectra

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.sturmian.scattering.kinematics import Kinematics
    from qsim.sturmian.scattering.problem import Problem
    from qsim.sturmian.scattering.setup import Bound, Setup
    from qsim.sturmian.scattering.summed import Summed

LETTERS = "spdfghiklmnoqrtuvwxyz"
FULL = (
    "convention full: integrated over the energy of one electron from 0 to E it gives the cross section; "
    "an integral up to E/2 takes twice this density"
)


@dataclass
class Solved:
    """Numbers of the solver for one symmetry.

    Attributes
    ----------
    L, S : int
    label : str
        Spin or gauge.
    points : list of int
        Numbers of the energies.
    unknowns : int
    residuals : (m,) float64
        Of these energies.
    iterations : (m,) int64
    history : list of (k,) float64
    flops, traffic : float
        Of one step with one right-hand side: operations, and bytes moved at least.
    seconds : float
        Spent in the solver.
    condition : float
        Largest condition number of the eigenvectors of h on the contour.
    """

    L: int
    S: int
    label: str
    points: list[int]
    unknowns: int
    residuals: NDArray[np.float64]
    iterations: NDArray[np.int64]
    history: list[NDArray[np.float64]]
    flops: float
    traffic: float
    seconds: float
    condition: float


@dataclass
class Wave:
    """The largest component of one solution, for a picture.

    Attributes
    ----------
    r : (n,) float64
        Arc length along the contour, bohr.
    u : (n, n) float64
        |u|.
    R0 : float
    title : str
    """

    r: NDArray[np.float64]
    u: NDArray[np.float64]
    R0: float
    title: str


@dataclass
class CollisionResult:
    """What a run leaves.

    Attributes
    ----------
    problem : Problem
    setup : Setup
    kinematics : list of Kinematics
        One for each energy.
    observed : list of dict
        For each energy: sums over L by label (spin or gauge).
    solved : list of Solved
    wave : Wave or None
    initial : Bound or None
    """

    problem: Problem
    setup: Setup
    kinematics: list[Kinematics]
    observed: list[dict[str, Summed]]
    solved: list[Solved]
    wave: Wave | None
    initial: Bound | None
    warnings: list[str] = field(default_factory=list)
    convergence: dict[str, dict[str, list[object]]] = field(default_factory=dict)

    @property
    def condition(self) -> float:
        """Largest condition number of the eigenvectors of h that were used."""
        return max((solved.condition for solved in self.solved), default=1.0)

    def tables(self) -> tuple[Table, ...]:
        """Return the declarations of the arrays."""
        return tables(self.kinematics[0].unit)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the arrays of the results file by name."""
        return arrays(self)

    def scalars(self) -> dict[str, Scalar]:
        """Return the headline numbers."""
        return scalars(self)


def level_name(n: int, l: int) -> str:
    """Return a name such as ``2p``."""
    return f"{n}{LETTERS[l] if l < len(LETTERS) else f'[{l}]'}"


def tables(unit: str) -> tuple[Table, ...]:
    """Return the declarations, with the unit of the process."""
    return (
        Table(
            "collision_energy",
            ("point",),
            "hartree",
            "impact, excess or total energy of the points",
            note="as in the deck",
        ),
        Table("total_energy", ("point",), "hartree", "energy E of the two electrons"),
        Table("label", ("label",), "", "spin or gauge of the columns"),
        Table("sigma_total", ("point", "label"), unit, "all channels, by the optical theorem"),
        Table("sigma_total_error", ("point", "label"), unit, "its error"),
        Table("sigma_ionisation", ("point", "label"), unit, "break-up into two free electrons"),
        Table("sigma_ionisation_error", ("point", "label"), unit, "its error"),
        Table("level", ("level",), "", "levels of the electron that stays"),
        Table("sigma_level", ("point", "label", "level"), unit, "excitation of the levels"),
        Table("sigma_level_error", ("point", "label", "level"), unit, "its error"),
        Table("sigma_rest", ("point", "label"), unit, "all higher levels together, extrapolated"),
        Table(
            "unitarity_defect", ("point", "label"), "", "what the channels lack of the total, relative to it"
        ),
        Table("unitarity_error", ("point", "label"), "", "the error of that"),
        Table("L", ("L",), "", "total orbital momenta"),
        Table("sigma_L", ("point", "label", "L"), unit, "all channels of each L"),
        Table("sigma_ionisation_L", ("point", "label", "L"), unit, "break-up of each L"),
        Table("s_matrix", ("point", "label", "L"), "", "elastic element of the S-matrix, 1s to 1s (e_h)"),
        Table("sdcs_share", ("share",), "", "energy of one electron over E"),
        Table("sdcs_energy", ("point", "share"), "hartree", "energy of one electron"),
        Table("sdcs", ("point", "label", "share"), f"{unit}/hartree", "density of energy sharing", note=FULL),
        Table("sdcs_error", ("point", "label", "share"), f"{unit}/hartree", "its error", note=FULL),
        Table("theta", ("theta",), "degree", "signed angle of an electron from z, in one plane"),
        Table(
            "fdcs",
            ("point", "label", "theta", "theta2"),
            f"{unit}/(hartree sr^2)",
            "fully differential cross section over both angles, coplanar",
            note=FULL + "; the first angle is that of the electron with the first energy of ejected",
        ),
        Table("fdcs_error", ("point", "label", "theta", "theta2"), f"{unit}/(hartree sr^2)", "its error"),
        Table("ejected", ("point", "electron"), "hartree", "energies of the electrons of fdcs"),
        Table("wave/r", ("wave_r",), "bohr", "arc length along the contour"),
        Table("wave/u", ("wave_r", "wave_r2"), "", "modulus of the largest component of the first solution"),
        Table("solution", ("solution",), "", "symmetry, spin or gauge and energy of the driven equations"),
        Table(
            "solver_history",
            ("solution", "step"),
            "",
            "relative residual after each step, NaN after the last one",
        ),
        Table("r", ("r",), "bohr", "radial nodes", note="complex on the contour beyond R0"),
        Table("scan/*/value", ("value",), "", "values of the scanned key, atomic units"),
        Table("scan/*/sigma_total", ("value", "point", "label"), unit, "all channels at each value"),
        Table("scan/*/sigma_ionisation", ("value", "point", "label"), unit, "break-up at each value"),
        Table("resonance_energy", ("resonance",), "hartree", "positions of resonances"),
        Table("resonance_width", ("resonance",), "hartree", "widths, -2 Im E"),
        Table("resonance_error", ("resonance",), "hartree", "largest error of position and half width"),
    )


def _table(result: CollisionResult, value: str) -> NDArray[np.float64]:
    labels = list(result.observed[0])
    out = np.full((len(result.observed), len(labels), 2), np.nan)
    for i, by_label in enumerate(result.observed):
        for j, label in enumerate(labels):
            found = getattr(by_label[label], value)
            if found is not None:
                out[i, j] = found
    return out


def arrays(result: CollisionResult) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of the results file by name."""
    problem, observed = result.problem, result.observed
    labels = list(observed[0])
    seen = [[by_label[label] for label in labels] for by_label in observed]
    out: dict[str, NDArray[np.generic]] = {
        "collision_energy": np.array(problem.energies()),
        "total_energy": np.array([kin.E for kin in result.kinematics]),
        "label": np.array(labels, dtype=object),
        "r": result.setup.grid.r,
    }
    for name, attribute in (("sigma_total", "total"), ("sigma_ionisation", "ionisation")):
        both = _table(result, attribute)
        out[name], out[f"{name}_error"] = both[..., 0], both[..., 1]
    both = _table(result, "unitarity")
    out["unitarity_defect"], out["unitarity_error"] = both[..., 0], both[..., 1]
    out["sigma_rest"] = _table(result, "rest")[..., 0]
    names = sorted({name for row in seen for part in row for name in part.levels})
    if names:
        out["level"] = np.array([level_name(*name) for name in names], dtype=object)
        values = np.array(
            [[[part.levels.get(name, (0.0, 0.0)) for name in names] for part in row] for row in seen]
        )
        out["sigma_level"], out["sigma_level_error"] = values[..., 0], values[..., 1]
    Ls = sorted({L for row in seen for part in row for L in part.by_L})
    out["L"] = np.array(Ls)
    by_L = np.array([[[part.by_L.get(L, (0.0, 0.0)) for L in Ls] for part in row] for row in seen])
    out["sigma_L"], out["sigma_ionisation_L"] = by_L[..., 0], by_L[..., 1]
    if problem.process == "e_h":
        out["s_matrix"] = np.array([[[part.matrix[L][0] for L in Ls] for part in row] for row in seen])
    out |= _curves(result, seen)
    if result.wave is not None:
        out |= {"wave/r": result.wave.r, "wave/u": result.wave.u}
    named = [
        (f"L = {solved.L}, {solved.label}, {result.kinematics[i].name}", history)
        for solved in result.solved
        for i, history in zip(solved.points, solved.history, strict=True)
    ]
    if named:
        longest = max(history.size for _, history in named)
        out["solution"] = np.array([name for name, _ in named], dtype=object)
        out["solver_history"] = np.array(
            [np.pad(history, (0, longest - history.size), constant_values=np.nan) for _, history in named]
        )
    for key, scan in result.convergence.items():
        out[f"scan/{key}/value"] = np.asarray(scan["value"], float)
        out[f"scan/{key}/sigma_total"] = np.asarray(scan["total"])
        out[f"scan/{key}/sigma_ionisation"] = np.asarray(scan["ionisation"])
    return out


def _curves(result: CollisionResult, seen: list[list[Summed]]) -> dict[str, NDArray[np.generic]]:
    problem = result.problem
    out: dict[str, NDArray[np.generic]] = {}
    if "sdcs" in problem.wants and all(part.sdcs is not None for row in seen for part in row):
        x = spectra.shares()
        out["sdcs_share"] = x
        out["sdcs_energy"] = np.array([x * kin.E for kin in result.kinematics])
        out["sdcs"] = np.array([[part.sdcs for part in row] for row in seen])
        out["sdcs_error"] = np.array([[part.sdcs_error for part in row] for row in seen])
    if all(part.fdcs is not None for row in seen for part in row):
        out["theta"] = problem.angles
        out["fdcs"] = np.array([[part.fdcs for part in row] for row in seen])
        out["fdcs_error"] = np.array([[part.fdcs_error for part in row] for row in seen])
        out["ejected"] = np.array([problem.ejected(kin) for kin in result.kinematics])
    return out


# -------------------------------------------------------------------------------------------- scalars


def scalars(result: CollisionResult) -> dict[str, Scalar]:
    """Return the headline numbers."""
    out: dict[str, Scalar] = {}
    for i, (kin, by_label) in enumerate(zip(result.kinematics, result.observed, strict=True)):
        for label, seen in by_label.items():
            out |= _point(result, i, label, seen)
        out |= _over_labels(result, i)
        residuals = [
            float(value)
            for solved in result.solved
            for point, value in zip(solved.points, solved.residuals, strict=True)
            if point == i
        ]
        if residuals:
            out[f"residual_{i}"] = Scalar(
                max(residuals), description=f"largest relative residual of a driven equation, {kin.name}"
            )
    return out | _run(result)


def _text(result: CollisionResult, i: int, label: str) -> str:
    where = f"{result.kinematics[i].name}"
    return where if label == "born" else f"{where}, {label}"


def _name(result: CollisionResult, base: str, label: str, i: int) -> str:
    return f"{base}_{i}" if label == "born" else f"{base}_{label}_{i}"


def _point(result: CollisionResult, i: int, label: str, seen: Summed) -> dict[str, Scalar]:
    process, unit, text = result.problem.process, result.kinematics[i].unit, _text(result, i, label)
    names = {
        "e_h": ("sigma_total", "sigma_ionisation"),
        "photo": ("sigma_photo", "sigma_double_photo"),
        "born": ("sigma_total", "sigma_double"),
    }[process]
    what = {
        "e_h": ("all channels", "ionisation"),
        "photo": ("photoabsorption", "double photoionisation"),
        "born": ("single and double ionisation and excitation", "double ionisation, (e,3e)"),
    }[process]
    out = {
        _name(result, names[0], label, i): Scalar(
            seen.total[0], unit, seen.total[1], f"{what[0]} by the optical theorem, {text}"
        )
    }
    if seen.ionisation is not None:
        out[_name(result, names[1], label, i)] = Scalar(
            seen.ionisation[0], unit, seen.ionisation[1], f"{what[1]}, {text}"
        )
        if process != "e_h":
            single = seen.total[0] - seen.ionisation[0]
            error = seen.total[1] + seen.ionisation[1]
            base = "sigma_single_photo" if process == "photo" else "sigma_single"
            out[_name(result, base, label, i)] = Scalar(
                single, unit, error, f"one electron leaves, any state of the ion, {text}"
            )
    for (n, l), (value, error) in seen.levels.items():
        if n > result.problem.task.levels or "excitation" not in result.problem.wants:
            continue
        base = "sigma_elastic" if process == "e_h" and (n, l) == (1, 0) else f"sigma_{level_name(n, l)}"
        out[_name(result, base, label, i)] = Scalar(
            value, unit, error, f"the other electron stays in {level_name(n, l)}, {text}"
        )
    if process == "e_h":
        out |= _elastic(result, i, label, seen)
    if process == "born":
        for L, (_, ionisation) in seen.by_L.items():
            if np.isfinite(ionisation):
                out[f"sigma_double_L{L}_{i}"] = Scalar(
                    ionisation, unit, description=f"(e,3e), contribution of L = {L}, {text}"
                )
    return out


def _elastic(result: CollisionResult, i: int, label: str, seen: Summed) -> dict[str, Scalar]:
    """Return the elastic S-matrix, and phase shifts where nothing but elastic scattering is possible."""
    text, out = _text(result, i, label), {}
    only = len(seen.levels) == 1 and result.kinematics[i].E < 0.0
    for L, (S, error) in seen.matrix.items():
        where = f"1s to 1s, L = {L}, {text}"
        for part, value in (("re", S.real), ("im", S.imag)):
            out[f"s_matrix_{part}_L{L}_{label}_{i}"] = Scalar(
                value, error=error, description=f"S-matrix element ({part}), {where}"
            )
        if only:
            delta = 0.5 * float(np.angle(S)) % np.pi
            out[f"phase_shift_L{L}_{label}_{i}"] = Scalar(
                delta, "rad", 0.5 * error, f"phase shift modulo pi, {where}"
            )
    return out


def _over_labels(result: CollisionResult, i: int) -> dict[str, Scalar]:
    """Return what compares or adds up spins or gauges of one energy."""
    by_label, kin, process = result.observed[i], result.kinematics[i], result.problem.process
    out: dict[str, Scalar] = {}
    defects = [(label, seen.unitarity) for label, seen in by_label.items() if seen.unitarity is not None]
    if defects and "unitarity" in result.problem.wants:
        _, worst = max(defects, key=lambda entry: abs(entry[1][0]))
        assert worst is not None
        out[f"unitarity_defect_{i}"] = Scalar(
            worst[0],
            error=worst[1],
            description=f"what the channels lack of the total, relative to it, {kin.name}",
        )
    if process == "e_h" and len(by_label) > 1:
        parts = [seen.ionisation for seen in by_label.values()]
        if all(part is not None for part in parts):
            both = [part for part in parts if part is not None]
            out[f"sigma_ionisation_{i}"] = Scalar(
                sum(value for value, _ in both),
                kin.unit,
                sum(error for _, error in both),
                f"ionisation, both spins with their weights, {kin.name}",
            )
    if process == "photo":
        out |= _gauges(list(by_label.values()), kin, i)
    return out


def _gauges(seen: list[Summed], kin: Kinematics, i: int) -> dict[str, Scalar]:
    """Return how the gauges of one energy agree, and the ratio of double to single photoionisation."""
    out = {f"photon_energy_{i}": Scalar(kin.omega, "hartree", description=f"photon energy, {kin.name}")}
    double = [part.ionisation[0] for part in seen if part.ionisation is not None]
    total = [part.total[0] for part in seen]
    for name, values in (("gauge_difference", total), ("gauge_difference_double", double)):
        if len(values) > 1:
            what = "photoabsorption" if name == "gauge_difference" else "double photoionisation"
            out[f"{name}_{i}"] = Scalar(
                (max(values) - min(values)) / max(abs(float(np.mean(values))), 1e-300),
                description=f"largest relative difference of gauges, {what}, {kin.name}",
            )
    if double:
        out[f"ratio_double_{i}"] = Scalar(
            double[0] / max(total[0] - double[0], 1e-300),
            description=f"double over single photoionisation, {kin.name}",
        )
    return out


def _run(result: CollisionResult) -> dict[str, Scalar]:
    problem, solved = result.problem, result.solved
    steps = [int(value) for part in solved for value in part.iterations]
    out = {
        "unknowns": Scalar(
            max(part.unknowns for part in solved), description="coefficients of the largest solution"
        ),
        "solver_iterations": Scalar(max(steps), description="steps of the slowest driven equation"),
        "step_flop": Scalar(
            max(part.flops for part in solved),
            description="floating-point operations of one step and right-hand side",
        ),
        "step_bytes": Scalar(
            max(part.traffic for part in solved), "byte", description="bytes that one step moves at least"
        ),
        "solver_flop_per_second": Scalar(
            sum(part.flops * float(part.iterations.sum()) for part in solved)
            / max(sum(part.seconds for part in solved), 1e-9),
            "1/s",
            description="floating-point operations of all steps per second of the solver",
        ),
        "grid_points": Scalar(
            result.setup.grid.size, description="functions of the radial grid, contour included"
        ),
        "R": Scalar(problem.numbers.R, "bohr", description="radius where the contour begins"),
        "contour_condition": Scalar(
            result.condition, description="largest condition number of the one-electron eigenvectors"
        ),
        "solver": Scalar(problem.asked.solver.type, description="solver of the driven equations"),
        "convention": Scalar(
            "full", description="sdcs and fdcs: the integral over one energy from 0 to E is sigma"
        ),
    }
    if result.initial is not None:
        out["initial_energy"] = Scalar(
            result.initial.energy,
            "hartree",
            description="energy of the initial state on this grid, up to its l_max",
        )
        out["initial_residual"] = Scalar(
            result.initial.residual, "hartree", description="|H x - E x| of the initial state"
        )
    tails = [seen.tail for by_label in result.observed for seen in by_label.values() if seen.tail is not None]
    if tails and problem.process == "e_h":
        out["partial_wave_tail"] = Scalar(
            max(tails), description="estimated relative weight of L beyond the largest one"
        )
    return out
