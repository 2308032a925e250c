"""Dente et al. (2013), spins: orders of the formulas, Figs. 2 and 3, the accuracy of Sec. 4.2, the state of Eq. (A.1)."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import expm
from scipy.special import jv

from bench.papers.drawing import device_of, panels
from bench.papers.item import Data, Line, item, number, scheme
from bench.papers.work import NOT_RUN, undisturbed
from bench.trotter import problem
from qsim.core.device.device import cpu
from qsim.trotter.evolution.layers import Evolver
from qsim.trotter.model.hamiltonian import Model

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from bench.papers.work import Row, Work

FITTED = 14  # spins above which the paper fits alpha^N
LARGE = 22  # spins above which a GPU of today is busy
MANY = 3  # sizes of a fit


def _said(key: str) -> str:
    found = number("trotter", key)
    return f"{found} ({found.source})"


scheme(
    "trotter/fig1",
    "memory accesses of a rotation of six spins",
    "a scheme; qsim's tiles are on the theory page",
)

# ------------------------------------------------------------------------------------- Eqs. (3) to (5)

ORDERS = {"ts1": 1, "ts2": 2, "ts4": 4}
STEPS = (8, 16, 32, 64, 128)
SPINS = 6


def dense(model: Model) -> NDArray[np.complex128]:
    """Return H as a matrix of Kronecker products; site 0 is the least significant bit."""
    S = [0.5 * np.array(m) for m in ([[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]])]
    N = model.J.shape[1]

    def at(axis: int, site: int) -> NDArray[np.complex128]:
        factors = [S[axis] if k == site else np.eye(2) for k in reversed(range(N))]
        return np.asarray(reduce(np.kron, factors), dtype=complex)

    H = np.zeros((2**N, 2**N), complex)
    for axis in range(3):
        spin = [at(axis, k) for k in range(N)]
        for j in range(N):
            H += model.h[axis, j] * spin[j]
            for k in range(j + 1, N):
                H += model.J[axis, j, k] * (spin[j] @ spin[k])
    return H


def _draw_orders(data: Data) -> Figure:
    fig, axes = panels(1, 1)
    for k, (method, order) in enumerate(ORDERS.items()):
        dt = 1.0 / np.array(data["steps"])
        axes[0][0].loglog(
            dt, data[method], "o-", color=f"C{k}", label=f"{method}: order {data['order'][method]:.3f}"
        )
        guide = np.array(data[method][-1]) * (dt / dt[-1]) ** order
        axes[0][0].loglog(dt, guide, ":", color="0.6")
    axes[0][0].set(xlabel=r"$\Delta t$ (1/J)", ylabel=r"$\|\psi-\psi_{\rm exact}\|$ at $t=1/J$")
    axes[0][0].set_title(f"{SPINS} spins, all couplings and fields random; dotted: exact powers")
    axes[0][0].legend()
    return fig


def _compare_orders(data: Data) -> list[Line]:
    return [
        Line(
            f"order of U_{order}",
            f"{order} (Sec. 2, Eq. (3) and below)",
            f"{data['order'][method]:.3f}",
            "",
            "match",
        )
        for method, order in ORDERS.items()
    ]


@item(
    "trotter/eq3", "error of the formulas of order 1, 2, 4 against the step", 3, _draw_orders, _compare_orders
)
def orders(work: Work) -> Data:
    """Compare with the exponential of a dense matrix."""
    model = problem.all_to_all(SPINS)
    psi = problem.noise(SPINS)
    exact = expm(-1j * dense(model)) @ psi
    data: Data = {"steps": list(STEPS), "order": {}}
    for method in ORDERS:
        errors = []
        for steps in STEPS:
            run = Evolver(cpu(1), model, psi)
            run.advance(method, 1.0 / steps, steps)
            errors.append(float(np.linalg.norm(run.psi - exact)))
        data[method] = errors
        data["order"][method] = float(np.log2(errors[-2] / errors[-1]))
    return data


# ------------------------------------------------------------------------------------------ Figs. 2, 3


def _times(rows: list[Row]) -> Data:
    """Return seconds of 50 steps by spins, of qsim and of plain arrays, and the fitted growth."""
    found: Data = {"qsim": {}, "plain": {}, "alpha": {}}
    for row in rows:
        if row.get("code") in ("qsim", "plain"):
            found[row["code"]][str(row["spins"])] = undisturbed(row)
    for code in ("qsim", "plain"):
        found["alpha"][code] = {str(above): _growth(found[code], above) for above in (FITTED, LARGE)}
    return found


def _growth(times: dict[str, float], above: int) -> float | None:
    """Return alpha of alpha^N fitted above so many spins; None if there are too few."""
    large = {int(n): seconds for n, seconds in times.items() if int(n) > above}
    if len(large) < MANY:
        return None
    return float(2.0 ** np.polyfit(list(large), np.log2(list(large.values())), 1)[0])


def _scaling(work: Work) -> Data:
    rows, where = work.gpu_case("trotter-scaling")
    return {"cpu": _times(work.case("trotter-scaling")), "cuda": _times(rows), "cuda_from": where}


def _curve(values: dict[str, float]) -> tuple[list[int], list[float]]:
    return [int(n) for n in values], list(values.values())


def _draw_times(data: Data) -> Figure:
    fig, axes = panels(1, 1, 3.4)
    gpu = device_of(data["cuda_from"])
    shown = [
        ("cpu", "plain", "plain NumPy, one core", "C3", "s--"),
        ("cpu", "qsim", "qsim, one core", "C0", "o-"),
        ("cuda", "plain", f"plain CuPy, {gpu}", "C1", "s--"),
        ("cuda", "qsim", f"qsim, {gpu}", "C2", "o-"),
    ]
    for place, code, label, color, style in shown:
        if data[place][code]:
            axes[0][0].semilogy(*_curve(data[place][code]), style, color=color, markersize=3, label=label)
    axes[0][0].axvline(FITTED, color="0.8", linewidth=0.8)
    axes[0][0].set(
        xlabel="spins $N$",
        ylabel="time of 50 steps (s)",
        title="Heisenberg ring, order 4; fits right of the line",
    )
    axes[0][0].legend()
    return fig


def _compare_times(data: Data) -> list[Line]:
    def growth(place: str, code: str) -> str:
        found = data[place]["alpha"][code]
        texts = [f"{value:.2f} above {above} spins" for above, value in found.items() if value is not None]
        if place == "cuda" and not data[place][code]:
            return NOT_RUN
        return ", ".join(texts) or "too few sizes"

    largest = max(map(int, data["cpu"]["qsim"]))
    note = "a state is 2^N numbers and nothing else grows here but the few operations of N rotations"
    return [
        Line("α of α^N, best code", _said("alpha_gpu"), growth("cpu", "qsim"), growth("cuda", "qsim"), note),
        Line(
            "α of α^N, plain code",
            _said("alpha_first"),
            growth("cpu", "plain"),
            growth("cuda", "plain"),
            "plain arrays read tables of energies; the paper's first code computed them in every step, N² per amplitude",
        ),
        Line(
            "spins",
            "27, in 6 GB (abstract, Fig. 2)",
            f"{largest} shown, 30 in 16 GiB of memory",
            "30 shown, 33 in 128 GiB" if data["cuda"]["qsim"] else NOT_RUN,
            "no tables of phases: 16 bytes per amplitude instead of 40",
        ),
    ]


@item("trotter/fig2", "time of 50 steps against the number of spins", 90, _draw_times, _compare_times)
def times(work: Work) -> Data:
    """Measure 50 steps of the Heisenberg ring."""
    return _scaling(work)


def _ratios(above: dict[str, float], below: dict[str, float]) -> dict[str, float]:
    return {n: above[n] / below[n] for n in above if n in below}


def _draw_ratios(data: Data) -> Figure:
    fig, axes = panels(1, 2)
    a, b = axes[0]
    gpu = _ratios(data["cpu"]["qsim"], data["cuda"]["qsim"])
    if gpu:
        a.semilogy(*_curve(gpu), "o-", markersize=3)
        a.axhline(1.0, color="0.7", linewidth=0.8)
    else:
        a.text(0.5, 0.5, NOT_RUN, ha="center", transform=a.transAxes)
    a.set(
        xlabel="spins $N$",
        ylabel="time, one core / GPU",
        title="(a) " + device_of(data["cuda_from"]),
    )
    for k, (place, label) in enumerate((("cpu", "NumPy / qsim, one core"), ("cuda", "CuPy / qsim, GPU"))):
        found = _ratios(data[place]["plain"], data[place]["qsim"])
        if found:
            b.semilogy(*_curve(found), "o-", markersize=3, color=f"C{2 * k}", label=label)
    b.set(
        xlabel="spins $N$",
        ylabel="time, plain arrays / qsim",
        title="(b) against a plain program",
    )
    if b.get_legend_handles_labels()[0]:
        b.legend()
    return fig


def _compare_ratios(data: Data) -> list[Line]:
    gpu = _ratios(data["cpu"]["qsim"], data["cuda"]["qsim"])
    top = max(gpu, key=int) if gpu else ""
    plain = {place: _ratios(data[place]["plain"], data[place]["qsim"]) for place in ("cpu", "cuda")}
    missing = {"cpu": "not measured", "cuda": NOT_RUN}
    texts = {
        place: f"{min(found.values()):.1f} to {max(found.values()):.1f} times" if found else missing[place]
        for place, found in plain.items()
    }
    return [
        Line(
            "GPU against CPU",
            _said("gpu_over_cpu"),
            "",
            f"{gpu[top]:.0f} times one core of this machine, {top} spins" if gpu else NOT_RUN,
            "other machines, and one core instead of six: a ratio of memory bandwidths",
        ),
        Line(
            "best against a plain program",
            _said("over_naive"),
            texts["cpu"],
            texts["cuda"],
            "the paper's first GPU code is not ours: plain array code stands for it",
        ),
    ]


@item(
    "trotter/fig3", "ratios: GPU against CPU, best code against plain code", 90, _draw_ratios, _compare_ratios
)
def ratios(work: Work) -> Data:
    """Take the measurements of Fig. 2."""
    return _scaling(work)


# -------------------------------------------------------------------------------------------- Sec. 4.2

ACCURACY = ("evolve.t_final=25.0", "evolve.outputs=11")


def _draw_accuracy(data: Data) -> Figure:
    fig, axes = panels(1, 2)
    a, b = axes[0]
    steps = np.array(data["steps"][1:])
    printed = number("trotter", "echo").value / number("trotter", "echo_steps").value
    a.loglog(steps, printed * steps, "--", color="C3", label="paper, per step")
    a.loglog(
        steps, np.maximum(np.abs(np.array(data["echo"][1:]) - 1.0), 1e-17), "o-", color="C0", label="qsim"
    )
    left = np.abs(np.array(data["normalised"][1:]) - 1.0)
    a.loglog(steps, np.maximum(left, 1e-17), "s-", color="C2", label="qsim, divided by the norm")
    a.set(xlabel="steps", ylabel="$|1-M|$", title="(a) echo; below 1e-17 drawn there")
    a.legend(loc="upper left", fontsize="x-small")
    a.set_ylim(top=1e-8)
    a.set_xticks([50, 100, 200, 500], ["50", "100", "200", "500"])
    a.minorticks_off()
    b.plot(data["steps"], data["magnetisation"], "o-", markersize=3)
    b.set(
        xlabel="steps",
        ylabel=r"$\langle S^z\rangle-\langle S^z\rangle_0$",
        title="(b) spurious magnetisation",
    )
    return fig


def _compare_accuracy(data: Data) -> list[Line]:
    steps = data["steps"][-1]
    printed = number("trotter", "echo").value / number("trotter", "echo_steps").value
    per_step = abs(data["echo"][-1] - 1.0) / steps
    left = abs(data["normalised"][-1] - 1.0)
    norm = "the rounded 1/sqrt(2) of the paper's rotations changes the norm by 1.4e-16 each; ours are exact"
    size = max(abs(value) for value in data["magnetisation"])
    return [
        Line(
            "|1 - M| per step, Heisenberg ring",
            f"{printed:.4g} ({number('trotter', 'echo').source})",
            f"{per_step:.2g}; at most {max(left, 1e-16):.0e} in all after division by the norm",
            "",
            norm,
        ),
        Line(
            "spurious magnetisation",
            "below " + _said("magnetisation"),
            f"{size:.2g} after {steps:.0f} steps of 0.05, 16 spins",
            "",
            "an error of the splitting, about Δt⁵ per step; the paper's step is not given",
        ),
    ]


@item(
    "trotter/sec4.2",
    "accuracy: echo with Σ = 0 and total magnetisation",
    20,
    _draw_accuracy,
    _compare_accuracy,
)
def accuracy(work: Work) -> Data:
    """Run the Heisenberg ring of 16 spins for 500 steps, forth and back at every output."""
    overrides = ("system.spins=8", *ACCURACY) if work.quick else ACCURACY
    with work.results("trotter", "paper_accuracy", overrides) as results:
        dt = float(results.scalars["dt"].value)
        total = np.asarray(results["total_sz"])
        return {
            "steps": (np.asarray(results["time"]) / dt).tolist(),
            "echo": np.asarray(results["echo"]).tolist(),
            "normalised": np.asarray(results["echo_normalised"]).tolist(),
            "magnetisation": (total - total[0]).tolist(),
        }


# ----------------------------------------------------------------------------------------- Appendix A


def semi_infinite(t: NDArray[np.float64]) -> Any:
    """Return the autocorrelation of the edge spin of a semi-infinite XX chain, ``[J0(t) + J2(t)]^2``."""
    return (jv(0, t) + jv(2, t)) ** 2


def _draw_autocorrelation(data: Data) -> Figure:
    fig, axes = panels(1, 1)
    t = np.linspace(0.0, data["time"][-1], 400)
    axes[0][0].plot(t, semi_infinite(t), color="0.6", label="semi-infinite chain, exact")
    axes[0][0].plot(
        data["time"],
        data["autocorrelation"],
        "o",
        markersize=3,
        label=f"one random state, {data['spins']} spins",
    )
    axes[0][0].set(
        xlabel="$t$ (1/J)", ylabel=r"$2\langle S^z_0(t)\rangle$", title="edge spin of an XX chain, Eq. (A.1)"
    )
    axes[0][0].legend()
    return fig


def _compare_autocorrelation(data: Data) -> list[Line]:
    off = np.abs(np.array(data["autocorrelation"]) - semi_infinite(np.array(data["time"]))).max()
    expected = 2.0 ** (-data["spins"] / 2)
    return [
        Line(
            "correlation function from one random state",
            "said to be possible (App. A, Eq. (A.1)); no figure",
            f"exact within {off:.2g}",
            "",
            f"match: the statistical error is of the order 2^(-N/2) = {expected:.2g}",
        )
    ]


@item(
    "trotter/appA",
    "a random state instead of an ensemble",
    4,
    _draw_autocorrelation,
    _compare_autocorrelation,
)
def autocorrelation(work: Work) -> Data:
    """Run the XX chain of 16 spins."""
    with work.results("trotter", "autocorrelation_a1") as results:
        return {
            "time": np.asarray(results["time"]).tolist(),
            "autocorrelation": np.asarray(results["autocorrelation"]).tolist(),
            "spins": int(results.scalars["spins"].value),
        }
