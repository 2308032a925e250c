"""Result of a collision and its quantities: names, units and meanings of what it leaves in the results file.

Cross sections have the unit of their process: pi a0^2 (e_h), kb (photo), a0^2/(hartree sr) (born).  Scalars carry the number of
their energy and, where there are several, spin or gauge: ``sigma_ionisation_singlet_0``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import Scalar
from qsim.sturmian.scatter import phase_quantities
from qsim.sturmian.scatter.collected import CollisionResult
from qsim.sturmian.scatter.cross_sections import known, spectra
from qsim.sturmian.scatter.cross_sections.kinematics import BARN, HARTREE_EV
from qsim.sturmian.scatter.elastic import remedy
from qsim.sturmian.scatter.phase_quantities import LISTED
from qsim.sturmian.scatter.solved import level_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from qsim.sturmian.scatter.cross_sections.summed import Summed

__all__ = ["QUANTITIES", "CollisionResult", "quantities_in"]

FULL = (
    "convention full: integrated over the energy of one electron from 0 to E it gives the cross section; "
    "an integral up to E/2 takes twice this density"
)
UNIT = "unit of the process"
TOTAL = {"e_h": "sigma_total", "photo": "sigma_photo", "born": "sigma_total"}
BROKEN = {"e_h": "sigma_ionisation", "photo": "sigma_double_photo", "born": "sigma_double"}
ALL = {
    "e_h": "all channels",
    "photo": "photoabsorption",
    "born": "single and double ionisation and excitation",
}

Scalars = dict[str, Scalar]


# ---------------------------------------------------------------------------------------------- arrays


def _table(value: Callable[[Summed], object]) -> Callable[[CollisionResult], NDArray[Any]]:
    """Return a function that gives a value of every energy and column (spin or gauge) as an array."""
    return lambda result: np.array([[value(sums) for sums in row] for row in result.columns])


def _pair(attribute: str, part: int) -> Callable[[CollisionResult], NDArray[Any]]:
    """Return a function that gives value (0) or error (1) of an attribute; NaN where it is missing."""
    missing = (np.nan, np.nan)
    return _table(lambda sums: (getattr(sums, attribute) or missing)[part])


def _level_names(result: CollisionResult) -> NDArray[Any] | None:
    names = [level_name(n, l) for n, l in result.levels]
    return np.array(names, dtype=object) if names else None


def _levels(part: int) -> Callable[[CollisionResult], NDArray[Any] | None]:
    """Return a function that gives the excitation of every level, value (0) or error (1); None without levels."""
    # a level above the energy of a column has no channel there: its cross section is zero, and known to be
    closed = (0.0, 0.0)

    def table(result: CollisionResult) -> NDArray[Any] | None:
        names = result.levels
        if not names:
            return None
        return _table(lambda sums: [sums.levels.get(name, closed)[part] for name in names])(result)

    return table


def _by_L(part: int) -> Callable[[CollisionResult], NDArray[Any]]:
    """Return a function that gives what every L adds: all channels (0), or break-up (1)."""
    # an L that a column does not reach adds nothing to it
    none = (0.0, 0.0)

    def table(result: CollisionResult) -> NDArray[Any]:
        momenta = result.momenta
        return _table(lambda sums: [sums.by_L.get(L, none)[part] for L in momenta])(result)

    return table


def _matrix(result: CollisionResult) -> NDArray[Any]:
    """Return the elastic elements of the S-matrix."""
    momenta = result.momenta
    return _table(lambda sums: [sums.matrix[L][0] for L in momenta])(result)


def _has_sharing(result: CollisionResult) -> bool:
    wanted = "sdcs" in result.problem.wants
    return wanted and all(sums.sdcs is not None for row in result.columns for sums in row)


def _has_angles(result: CollisionResult) -> bool:
    return all(sums.fdcs is not None for row in result.columns for sums in row)


def _known(result: CollisionResult) -> NDArray[Any] | None:
    """Return known energy sharing of the Temkin-Poet model, None for any other problem."""
    problem = result.problem
    model = problem.process == "e_h" and problem.pairs() == [[(0, 0)]] * len(problem.sectors)
    if not (
        model and problem.settings.system.potential.type == "coulomb" and problem.settings.system.Z == 1.0
    ):
        return None
    return known.sharing([energy * HARTREE_EV for energy in problem.energies()], problem.labels)


def _knows(result: CollisionResult) -> bool:
    return _has_sharing(result) and _known(result) is not None


def _curve(attribute: str) -> Callable[[CollisionResult], NDArray[Any]]:
    return _table(lambda sums: getattr(sums, attribute))


def _is_triply(result: CollisionResult) -> bool:
    # a fast charge that is seen afterwards, too, makes it fivefold
    return _has_angles(result) and result.problem.process != "born"


def _triply(attribute: str) -> Callable[[CollisionResult], NDArray[Any]]:
    """Return a function that gives a cross section over both angles in b/(eV sr^2)."""

    def table(result: CollisionResult) -> NDArray[Any]:
        barn = BARN[result.kinematics[0].unit] / HARTREE_EV
        return np.asarray(_curve(attribute)(result) * barn)

    return table


def _histories(result: CollisionResult) -> Iterator[tuple[str, NDArray[np.float64]]]:
    for solved in result.solved:
        for i, history in zip(solved.points, solved.history, strict=True):
            yield f"L = {solved.L}, {solved.label}, {result.kinematics[i].name}", history


def _history(result: CollisionResult) -> NDArray[Any]:
    histories = [history for _, history in _histories(result)]
    longest = max(history.size for history in histories)
    return np.array([np.pad(part, (0, longest - part.size), constant_values=np.nan) for part in histories])


def _picture(attribute: str) -> Callable[[CollisionResult], NDArray[Any]]:
    return lambda result: getattr(result.wave, attribute)


def _initial(attribute: str) -> Callable[[CollisionResult], float]:
    return lambda result: float(getattr(result.initial, attribute))


def _scanned(entry: str, to: str) -> Callable[[CollisionResult], dict[str, NDArray[Any]]]:
    return lambda result: {
        f"scan/{key}/{to}": np.asarray(scan[entry], float) for key, scan in result.convergence.items()
    }


def _arrays(unit: str) -> tuple[Quantity[CollisionResult], ...]:
    """Return the declarations of all arrays, with cross sections in a unit."""
    point, both = ("point",), ("point", "label")
    angles = ("point", "label", "theta", "theta2")
    per_energy, per_angle = f"{unit}/hartree", f"{unit}/(hartree sr^2)"
    electron = lambda result: result.problem.process == "e_h"  # noqa: E731
    drawn = lambda result: result.wave is not None  # noqa: E731
    # Axes are (energy, spin or gauge, ...) throughout; each cross section is followed by its
    # error.
    return (
        Quantity("collision_energy", "hartree", "impact, excess or total energy of the points",
                 lambda r: np.array(r.problem.energies()), point, note="as in the deck"),
        Quantity("total_energy", "hartree", "energy E of the two electrons",
                 lambda r: np.array([kin.E for kin in r.kinematics]), point),
        Quantity("label", "", "spin or gauge of the columns",
                 lambda r: np.array(list(r.observed[0]), dtype=object), ("label",)),
        Quantity("sigma_total", unit, "all channels, by the optical theorem", _pair("total", 0), both),
        Quantity("sigma_total_error", unit, "its error", _pair("total", 1), both),
        Quantity("sigma_ionisation", unit, "break-up into two free electrons", _pair("ionisation", 0), both),
        Quantity("sigma_ionisation_error", unit, "its error", _pair("ionisation", 1), both),
        Quantity("level", "", "levels of the electron that stays", _level_names, ("level",)),
        Quantity("sigma_level", unit, "excitation of the levels", _levels(0), (*both, "level")),
        Quantity("sigma_level_error", unit, "its error", _levels(1), (*both, "level")),
        Quantity("sigma_rest", unit, "all higher levels together, extrapolated", _pair("rest", 0), both),
        Quantity("unitarity_defect", "", "what the channels lack of the total, relative to it",
                 _pair("unitarity", 0), both),
        Quantity("unitarity_error", "", "the error of that", _pair("unitarity", 1), both),
        Quantity("L", "", "total orbital momenta", lambda r: np.array(r.momenta), ("L",)),
        Quantity("sigma_L", unit, "all channels of each L", _by_L(0), (*both, "L")),
        Quantity("sigma_ionisation_L", unit, "break-up of each L", _by_L(1), (*both, "L")),
        Quantity("s_matrix", "", "elastic element of the S-matrix, 1s to 1s (e_h)", _matrix, (*both, "L"), when=electron),
        *phase_quantities.ARRAYS,
        Quantity("sdcs_share", "", "energy of one electron over E", lambda _: spectra.shares(), ("share",), when=_has_sharing),
        Quantity("sdcs_energy", "hartree", "energy of one electron",
                 lambda r: np.array([spectra.shares() * kin.E for kin in r.kinematics]), ("point", "share"), when=_has_sharing),
        Quantity("sdcs", per_energy, "density of energy sharing", _curve("sdcs"), (*both, "share"), when=_has_sharing, note=FULL),
        Quantity("sdcs_error", per_energy, "its error", _curve("sdcs_error"), (*both, "share"), when=_has_sharing, note=FULL),
        Quantity("known/share", "", "energy of one electron over E", lambda _: known.SHARES, ("known_share",), when=_knows),
        Quantity("known/sdcs", per_energy, "density of energy sharing that others find, Temkin-Poet model", _known,
                 (*both, "known_share"), when=_knows, note=known.SOURCE),
        Quantity("theta", "degree", "signed angle of an electron from z, in one plane",
                 lambda r: r.problem.angles, ("theta",), when=_has_angles),
        Quantity("fdcs", per_angle, "cross section over both angles, coplanar: TDCS of photo and e_h, FDCS of born",
                 _curve("fdcs"), angles, when=_has_angles,
                 note=FULL + "; the first angle belongs to the electron with the first energy of ejected"),
        Quantity("fdcs_error", per_angle, "its error", _curve("fdcs_error"), angles, when=_has_angles),
        Quantity("tdcs", "b/(eV sr^2)", "triply differential cross section over both angles, coplanar", _triply("fdcs"), angles,
                 when=_is_triply, note=FULL),
        Quantity("tdcs_error", "b/(eV sr^2)", "its error", _triply("fdcs_error"), angles, when=_is_triply),
        Quantity("ejected", "hartree", "energies of the electrons of fdcs",
                 lambda r: np.array([r.problem.ejected(kin) for kin in r.kinematics]), ("point", "electron"), when=_has_angles),
        Quantity("wave/r", "bohr", "arc length along the contour", _picture("r"), ("wave_r",), when=drawn),
        Quantity("wave/u", "", "modulus of the largest component of the first solution", _picture("u"),
                 ("wave_r", "wave_r2"), when=drawn),
        Quantity("solution", "", "symmetry, spin or gauge and energy of the driven equations",
                 lambda r: np.array([name for name, _ in _histories(r)], dtype=object), ("solution",)),
        Quantity("solver_history", "", "relative residual after each step, NaN after the last one", _history,
                 ("solution", "step")),
        Quantity("r", "bohr", "radial nodes", lambda r: r.setup.grid.r, ("r",), note="complex on the contour beyond R0"),
        Quantity("scan/*/value", "", "values of the scanned key, atomic units", _scanned("value", "value"), ("value",)),
        Quantity("scan/*/sigma_total", unit, "all channels at each value", _scanned("total", "sigma_total"), ("value", *both)),
        Quantity("scan/*/sigma_ionisation", unit, "break-up at each value, from its amplitudes",
                 _scanned("ionisation", "sigma_ionisation"), ("value", *both)),
    )  # fmt: skip


# --------------------------------------------------------------------------------------------- scalars


class _Column(NamedTuple):
    """One energy and one spin or gauge: number of the energy, end of the names, sums over L, and words for it."""

    energy: int
    end: str
    sums: Summed
    text: str


def _columns(result: CollisionResult) -> Iterator[_Column]:
    # Of very many energies only the arrays are kept.
    if len(result.observed) > LISTED:
        return
    for i, by_label in enumerate(result.observed):
        where = result.kinematics[i].name
        for label, sums in by_label.items():
            if label == "born":
                # a fast charge has neither spin nor gauge
                yield _Column(i, f"{i}", sums, where)
            else:
                yield _Column(i, f"{label}_{i}", sums, f"{where}, {label}")


def _totals(result: CollisionResult) -> Scalars:
    unit, process, out = result.kinematics[0].unit, result.problem.process, {}
    for i, end, sums, text in _columns(result):
        meaning, (value, error) = f"{ALL[process]} by the optical theorem, {text}", sums.total
        # A number that its own error denies is not printed.
        if process == "e_h" and error > abs(value):
            said = remedy(result.problem, result.kinematics[i].k)
            out[f"{TOTAL[process]}_{end}"] = Scalar(said, description=meaning)
        else:
            out[f"{TOTAL[process]}_{end}"] = _measured(sums.total, unit, meaning)
    return out


def _measured(value: tuple[float, float], unit: str, text: str) -> Scalar:
    """Return a value with its error as a scalar."""
    return Scalar(value[0], unit, _claimed(value[1]), text)


def _claimed(error: float) -> float | None:
    """Return an error, None where it is not known."""
    return error if np.isfinite(error) else None


def _breakups(process: str, what: str) -> Callable[[CollisionResult], Scalars]:
    def scalars(result: CollisionResult) -> Scalars:
        unit, out = result.kinematics[0].unit, {}
        for _, end, sums, text in _columns(result):
            if sums.ionisation is not None:
                out[f"{BROKEN[process]}_{end}"] = _measured(sums.ionisation, unit, f"{what}, {text}")
            if process == "born":
                for L, (_, part) in sums.by_L.items():
                    if np.isfinite(part):
                        name = f"{BROKEN[process]}_L{L}_{end}"
                        out[name] = Scalar(part, unit, description=f"(e,3e), contribution of L = {L}, {text}")
        return out if process != "e_h" else out | _both_spins(result)

    return scalars


def _both_spins(result: CollisionResult) -> Scalars:
    out: Scalars = {}
    for i, by_label in enumerate(result.observed):
        parts = [sums.ionisation for sums in by_label.values() if sums.ionisation is not None]
        # Spin weights are in the factor of each spin already: both are added.
        if len(parts) == len(by_label) > 1:
            name, unit = result.kinematics[i].name, result.kinematics[i].unit
            value, error = sum(value for value, _ in parts), sum(error for _, error in parts)
            text = f"ionisation, both spins with their weights, {name}"
            out[f"sigma_ionisation_{i}"] = Scalar(value, unit, _claimed(error), text)
    return out


def _single(base: str) -> Callable[[CollisionResult], Scalars]:
    def scalars(result: CollisionResult) -> Scalars:
        out: Scalars = {}
        for i, end, sums, text in _columns(result):
            if sums.ionisation is not None:
                # Whatever does not break up leaves one electron in a level: the total minus the
                # break-up.
                value, error = sums.total[0] - sums.ionisation[0], sums.total[1] + sums.ionisation[1]
                meaning = f"one electron leaves, any state of the ion, {text}"
                out[f"{base}_{end}"] = Scalar(value, result.kinematics[i].unit, _claimed(error), meaning)
        return out

    return scalars


def _excitations(result: CollisionResult) -> Scalars:
    out: Scalars = {}
    if "excitation" not in result.problem.wants:
        return out
    for i, end, sums, text in _columns(result):
        for (n, l), value in sums.levels.items():
            if n > result.problem.task.levels:
                continue
            elastic = result.problem.process == "e_h" and (n, l) == (1, 0)
            base = "elastic" if elastic else level_name(n, l)
            meaning = f"the other electron stays in {level_name(n, l)}, {text}"
            out[f"sigma_{base}_{end}"] = _measured(value, result.kinematics[i].unit, meaning)
    return out


def _elastic(part: str) -> Callable[[CollisionResult], Scalars]:
    def scalars(result: CollisionResult) -> Scalars:
        return {
            f"s_matrix_{part}_L{L}_{end}": Scalar(
                S.real if part == "re" else S.imag,
                error=_claimed(error),
                description=f"S-matrix element ({part}), 1s to 1s, L = {L}, {text}",
            )
            for _, end, sums, text in _columns(result)
            for L, (S, error) in sums.matrix.items()
        }

    return scalars


def _defects(result: CollisionResult) -> Scalars:
    out: Scalars = {}
    if "unitarity" not in result.problem.wants:
        return out
    for i, by_label in enumerate(result.observed):
        defects = [sums.unitarity for sums in by_label.values() if sums.unitarity is not None]
        if defects:
            value, error = max(defects, key=lambda entry: abs(entry[0]))
            text = f"what the channels lack of the total, relative to it, {result.kinematics[i].name}"
            out[f"unitarity_defect_{i}"] = Scalar(value, error=_claimed(error), description=text)
    return out


def _photon_energies(result: CollisionResult) -> Scalars:
    return {
        f"photon_energy_{i}": Scalar(kin.omega, "hartree", description=f"photon energy, {kin.name}")
        for i, kin in enumerate(result.kinematics)
    }


def _gauges(name: str, what: str) -> Callable[[CollisionResult], Scalars]:
    def scalars(result: CollisionResult) -> Scalars:
        out: Scalars = {}
        for i, row in enumerate(result.columns):
            known = [sums.total if name == "gauge_difference" else sums.ionisation for sums in row]
            values = [value[0] for value in known if value is not None]
            if len(values) > 1:
                relative = (max(values) - min(values)) / max(abs(float(np.mean(values))), 1e-300)
                text = f"largest relative difference of gauges, {what}, {result.kinematics[i].name}"
                out[f"{name}_{i}"] = Scalar(relative, description=text)
        return out

    return scalars


def _ratios(result: CollisionResult) -> Scalars:
    out: Scalars = {}
    for i, row in enumerate(result.columns):
        double = [sums.ionisation[0] for sums in row if sums.ionisation is not None]
        if double:
            ratio = double[0] / max(row[0].total[0] - double[0], 1e-300)
            text = f"double over single photoionisation, {result.kinematics[i].name}"
            out[f"ratio_double_{i}"] = Scalar(ratio, description=text)
    return out


def _residuals(result: CollisionResult) -> Scalars:
    worst: dict[int, float] = {}
    for solved in result.solved:
        for point, value in zip(solved.points, solved.residuals, strict=True):
            worst[point] = max(worst.get(point, 0.0), float(value))
    return {
        f"residual_{i}": Scalar(
            value,
            description=f"largest relative residual of a driven equation, {result.kinematics[i].name}",
        )
        for i, value in sorted(worst.items())
    }


def _speed(result: CollisionResult) -> float:
    done = sum(part.flops * float(part.iterations.sum()) for part in result.solved)
    return done / max(sum(part.seconds for part in result.solved), 1e-9)


def _tails(result: CollisionResult) -> list[float]:
    return [sums.tail for row in result.columns for sums in row if sums.tail is not None]


def _apart(result: CollisionResult) -> Scalar:
    initial, known = result.initial, result.problem.recorded
    assert initial is not None
    assert known is not None
    text = f"energy of the initial state minus the one of {known.path.name}"
    return Scalar(initial.energy - known.energy, "hartree", known.error, text)


def _is(process: str) -> Callable[[CollisionResult], bool]:
    return lambda result: result.problem.process == process


def _scalars() -> tuple[Quantity[CollisionResult], ...]:
    """Return the declarations of all scalars."""
    electron, photo, born = _is("e_h"), _is("photo"), _is("born")
    bound = lambda result: result.initial is not None  # noqa: E731
    single = "one electron leaves, any state of the ion"
    # Order of the summary: totals, break-up, levels, S-matrix, checks, then the numbers of
    # solver and grid. Patterns come after the names that they would match, too.
    return (
        Quantity("sigma_total_*", UNIT, "all channels by the optical theorem (e_h, born)", _totals, when=lambda r: not photo(r)),
        Quantity("sigma_ionisation_*", "pi a0^2", "ionisation of one spin, and of both with their weights",
                 _breakups("e_h", "ionisation"), when=electron,
                 headline=("sigma_ionisation_singlet_0", "sigma_ionisation_triplet_0")),
        Quantity("sigma_double_photo_*", "kb", "double photoionisation, in a gauge", _breakups("photo", "double photoionisation"),
                 when=photo,
                 headline=("sigma_double_photo_length_0",)),
        Quantity("sigma_photo_*", "kb", "photoabsorption by the optical theorem, in a gauge", _totals, when=photo,
                 headline=("sigma_photo_length_0",)),
        Quantity("ratio_double_*", "", "double over single photoionisation", _ratios, when=photo,
                 headline=("ratio_double_0",)),
        Quantity("gauge_difference_*", "", "largest relative difference of gauges, photoabsorption",
                 _gauges("gauge_difference", "photoabsorption"), when=photo,
                 headline=("gauge_difference_0",)),
        Quantity("sigma_double_*", "a0^2/(hartree sr)", "double ionisation, (e,3e), and what each L gives of it",
                 _breakups("born", "double ionisation, (e,3e)"), when=born,
                 headline=("sigma_double_0", "sigma_double_L1_0")),
        Quantity("sigma_single_photo_*", "kb", single, _single("sigma_single_photo"), when=photo),
        Quantity("sigma_single_*", "a0^2/(hartree sr)", single, _single("sigma_single"), when=born),
        Quantity("sigma_*", UNIT, "elastic scattering, or the other electron stays in a level such as 2p", _excitations,
                 headline=("sigma_elastic_singlet_0", "sigma_elastic_triplet_0")),
        Quantity("gauge_difference_double_*", "", "largest relative difference of gauges, double photoionisation",
                 _gauges("gauge_difference_double", "double photoionisation"), when=photo),
        Quantity("s_matrix_re_*", "", "S-matrix element 1s to 1s, real part", _elastic("re"), when=electron),
        Quantity("s_matrix_im_*", "", "S-matrix element 1s to 1s, imaginary part", _elastic("im"), when=electron),
        *phase_quantities.SCALARS,
        Quantity("unitarity_defect_*", "", "what the channels lack of the total, relative to it", _defects,
                 headline=("unitarity_defect_0",)),
        Quantity("photon_energy_*", "hartree", "photon energy", _photon_energies, when=photo, exact=True),
        Quantity("residual_*", "", "largest relative residual of a driven equation", _residuals,
                 headline=("unknowns", "solver_iterations", "residual_0")),
        Quantity("unknowns", "", "coefficients of the largest solution", lambda r: max(part.unknowns for part in r.solved)),
        Quantity("solver_iterations", "", "steps of the slowest driven equation",
                 lambda r: max(int(steps) for part in r.solved for steps in part.iterations)),
        Quantity("step_flop", "", "floating-point operations of one step and right-hand side",
                 lambda r: max(part.flops for part in r.solved), exact=True),
        Quantity("step_bytes", "byte", "bytes that one step moves at least",
                 lambda r: max(part.traffic for part in r.solved), exact=True),
        Quantity("solver_flop_per_second", "1/s", "floating-point operations of all steps per second of the solver", _speed),
        Quantity("grid_points", "", "functions of the radial grid, contour included", lambda r: r.setup.grid.size),
        Quantity("R", "bohr", "radius where the contour begins", lambda r: r.problem.numbers.R, exact=True),
        Quantity("contour_condition", "", "largest condition number of the one-electron eigenvectors",
                 lambda r: r.condition, exact=True),
        Quantity("solver", "", "solver of the driven equations", lambda r: r.problem.settings.solver.type),
        Quantity("solver_tolerance", "", "largest relative residual that was allowed",
                 lambda r: r.problem.settings.solver.tolerance, exact=True),
        Quantity("convention", "", "sdcs and fdcs: the integral over one energy from 0 to E is sigma", lambda _: "full"),
        Quantity("initial_energy", "hartree", "energy of the initial state on this grid, up to its l_max",
                 _initial("energy"), when=bound, error=_initial("residual")),
        Quantity("initial_energy_difference", "hartree", "energy of the initial state minus the one of initial.file", _apart,
                 when=lambda r: r.initial is not None and r.problem.recorded is not None),
        Quantity("initial_residual", "hartree", "|H x - E x| of the initial state", _initial("residual"), when=bound),
        Quantity("partial_wave_tail", "", "estimated relative weight of L beyond the largest one", lambda r: max(_tails(r)),
                 when=lambda r: electron(r) and bool(_tails(r)), exact=True),
    )  # fmt: skip


def quantities_in(unit: str = UNIT) -> tuple[Quantity[CollisionResult], ...]:
    """Return the quantities of a collision whose cross sections have a unit."""
    return (*_scalars(), *_arrays(unit))


QUANTITIES = quantities_in()
