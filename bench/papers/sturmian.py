"""Colavecchia (2014), two electrons: Fig. 1, Tables 1 to 4, the examples of Sec. 3.3 and the collisions they stand for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.papers.drawing import device_of, panels
from bench.papers.item import Data, Line, item, number, paper, scheme
from bench.papers.work import NOT_RUN, undisturbed
from qsim.sturmian.two_electron.angular import multipoles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bench.papers.work import Row, Work

PAIRS = {  # of Sec. 2.1, and the fifth pair that Sec. 3.3 adds for L = 0
    0: [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)],
    1: [(0, 1), (1, 2), (2, 3), (3, 4)],
    2: [(0, 2), (1, 1), (1, 3), (2, 2)],
}


def _said(key: str) -> str:
    found = number("sturmian", key)
    return found.source if found.unit else f"{found} ({found.source})"


def _seconds(value: float) -> str:
    """Return a time with a fitting unit."""
    for factor, unit in ((3600.0, "h"), (600.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= factor:
            return f"{value / (60.0 if unit == 'min' else factor):.3g} {unit}"
    return f"{value:.2g} s"


# ---------------------------------------------------------------------------------------------- Fig. 1


def _draw_blocks(data: Data) -> Figure:
    fig, axes = panels(1, 3)
    for axes_, (L, counts) in zip(axes[0], data["counts"].items(), strict=True):
        values = np.array(counts)
        axes_.imshow(values, cmap="Blues", vmin=0, vmax=7)
        for (row, column), value in np.ndenumerate(values):
            axes_.text(column, row, value, ha="center", va="center", color="white" if value > 4 else "black")
        names = [f"({a},{b})" for a, b in PAIRS[int(L)]]
        axes_.set_xticks(range(len(names)), names, rotation=90, fontsize="x-small")
        axes_.set_yticks(range(len(names)), names, fontsize="x-small")
        axes_.grid(False)
        axes_.set_title(f"L = {L}: {values.sum()} integrals")
    fig.supxlabel("pairs $(l_a,l_b)$; numbers: multipoles $l$ of a block", fontsize="small")
    return fig


def _compare_blocks(data: Data) -> list[Line]:
    lines = []
    for L, counts in data["counts"].items():
        found = int(np.sum(counts))
        said = number("sturmian", f"pairs_L{L}")
        why = "match" if found == said.value else "misprint: parity forbids every second multipole of a block"
        lines.append(
            Line(f"blocks of repulsion integrals, L = {L}", _said(f"pairs_L{L}"), str(found), "", why)
        )
    return lines


@item("sturmian/fig1", "blocks of the Hamiltonian and their multipoles", 1, _draw_blocks, _compare_blocks)
def blocks(work: Work) -> Data:
    """Count the multipoles with a coefficient that is not zero, block by block."""
    counts = {
        str(L): [[len(multipoles(L, bra, ket)) for ket in pairs] for bra in pairs]
        for L, pairs in PAIRS.items()
    }
    return {"counts": counts}


scheme(
    "sturmian/fig2",
    "overlap matrices in blocks of threads",
    "a scheme; Tables 1 and 2 measure what it stands for",
)
scheme(
    "sturmian/fig3",
    "repulsion integrals in blocks of threads",
    "a scheme; Tables 3 and 4 measure what it stands for",
)


# ------------------------------------------------------------------------------------------- the tables


def _table(key: str) -> dict[int, tuple[float, float]]:
    return {int(N): (float(a), float(b)) for N, (a, b) in paper("sturmian")["numbers"][key].items()}


def _by_size(rows: list[Row], pattern: str) -> dict[str, float]:
    """Return the shortest time by number of functions, of rows whose label matches."""
    found: dict[str, float] = {}
    for row in rows:
        if re.search(pattern, row["label"]) and "seconds" in row:
            N = str(row["functions"])
            found[N] = min(found.get(N, np.inf), undisturbed(row))
    return found


def _measured(work: Work, case: str, patterns: dict[str, str]) -> Data:
    rows, where = work.gpu_case(case)
    own = work.case(case)
    return {
        "cpu": {name: _by_size(own, pattern) for name, pattern in patterns.items()},
        "cuda": {name: _by_size(rows, pattern) for name, pattern in patterns.items()},
        "cuda_from": where,
    }


STYLES = {"nested": ("C1", "^-", "qsim, the paper's quadrature"), "ours": ("C0", "o-", "qsim")}


def _draw_table(data: Data, key: str, heading: str, rate: bool) -> Figure:
    fig, axes = panels(1, 2)
    printed = _table(key)
    for axes_, place, column in ((axes[0][0], "cpu", 0), (axes[0][1], "cuda", 1)):
        sizes = list(printed)

        def shown(N: int, seconds: float) -> float:
            return N**4 / seconds if rate else seconds

        axes_.loglog(
            sizes,
            [shown(N, printed[N][column]) for N in sizes],
            "s--",
            color="C3",
            label=f"paper, {('i7-960', 'C2070')[column]}",
        )
        for kind, values in data[place].items():
            color, style, label = STYLES[kind]
            if values:
                N = [int(n) for n in values]
                axes_.loglog(N, [shown(n, values[str(n)]) for n in N], style, color=color, label=label)
        title = "one core of this machine" if place == "cpu" else device_of(data["cuda_from"])
        axes_.set(
            xlabel="functions $N$",
            ylabel="integrals per second" if rate else "time (s)",
            title=title,
        )
        axes_.set_xticks(sizes, [str(N) for N in sizes], minor=False)
        axes_.minorticks_off()
        axes_.legend(fontsize="x-small")
    fig.suptitle(heading, fontsize="small")
    return fig


def _compare_table(data: Data, key: str, why: str, what: str) -> list[Line]:
    lines = []
    for N, (on_cpu, on_gpu) in _table(key).items():
        here, there = (_both(data[place], str(N)) for place in ("cpu", "cuda"))
        lines.append(
            Line(
                f"{what}, N = {N}",
                f"{_seconds(on_cpu)} on a CPU, {_seconds(on_gpu)} on a GPU ({key.replace('_', ' ').capitalize()})",
                here or "not on a CPU: gigabytes",
                there or NOT_RUN,
                why,
            )
        )
    return lines


def _both(times: dict[str, dict[str, float]], N: str) -> str:
    parts = [_seconds(times["ours"][N])] if N in times["ours"] else []
    if N in times.get("nested", {}):
        parts.append(f"{_seconds(times['nested'][N])} by its quadrature")
    return ", ".join(parts)


PRODUCTS = {"ours": r"O and V"}
KRONECKER = {"ours": r"complex128"}
OVERLAPS = "44 and 277 s are ms, it seems: 4 and 17 million multiply-adds; a matrix product here"
REPULSION = "the same integrals as matrix products with the Poisson kernel; the paper's quadrature beside"


@item(
    "sturmian/table1",
    "overlaps of N functions, 256 points",
    5,
    lambda data: _draw_table(data, "table_1", "overlaps and integrals of the generating potential", False),
    lambda data: _compare_table(data, "table_1", OVERLAPS, "overlaps"),
)
def table1(work: Work) -> Data:
    """Measure overlaps and integrals of the potential."""
    return _measured(work, "sturmian-overlap", PRODUCTS)


@item(
    "sturmian/table2",
    "Kronecker products of N⁴ numbers",
    5,
    lambda data: _draw_table(data, "table_2", "Kronecker products; N of the caption corrected", False),
    lambda data: _compare_table(
        data, "table_2", "bound by memory; N of the caption corrected", "Kronecker product"
    ),
)
def table2(work: Work) -> Data:
    """Measure Kronecker products; on a CPU up to N = 64."""
    return _measured(work, "sturmian-kronecker", KRONECKER)


def _repulsion(work: Work, Nq: int) -> Data:
    patterns = {
        "nested": rf"Nq={Nq} complex128: nested quadrature",
        "ours": rf"Nq={Nq} complex128: all N\^4 integrals",
    }
    return _measured(work, "sturmian-repulsion", patterns)


@item(
    "sturmian/table3",
    "repulsion integrals, 128 points",
    60,
    lambda data: _draw_table(data, "table_3", "repulsion integrals of one multipole, 128 points", True),
    lambda data: _compare_table(data, "table_3", REPULSION, "N⁴ integrals"),
)
def table3(work: Work) -> Data:
    """Measure all integrals of one multipole by both routes; on a CPU up to N = 64."""
    return _repulsion(work, 128)


@item(
    "sturmian/table4",
    "repulsion integrals, 256 points",
    60,
    lambda data: _draw_table(data, "table_4", "repulsion integrals of one multipole, 256 points", True),
    lambda data: _compare_table(data, "table_4", REPULSION, "N⁴ integrals"),
)
def table4(work: Work) -> Data:
    """As Table 3, with twice the points."""
    return _repulsion(work, 256)


# -------------------------------------------------------------------------------------------- Sec. 3.3


def _draw_e3e(data: Data) -> Figure:
    fig, axes = panels(1, 2, 3.2)
    a, b = axes[0]
    theta = np.array(data["theta"])
    image = a.pcolormesh(theta, theta, np.array(data["fdcs"]) * 1e3, cmap="magma", rasterized=True)
    fig.colorbar(image, ax=a, label=r"FDCS ($10^{-3}\,a_0^2\,E_h^{-2}\,$sr$^{-3}$)")
    a.set(
        xlabel=r"$\theta_2$ (degree)",
        ylabel=r"$\theta_1$ (degree)",
        title="(e,3e) of helium, 10 eV + 10 eV",
        aspect="equal",
    )
    energy = np.array(data["sdcs_energy"]) * 27.211386
    b.plot(energy, data["sdcs"], color="C0")
    low, high = (np.array(data["sdcs"]) + sign * np.array(data["sdcs_error"]) for sign in (-1, 1))
    b.fill_between(energy, low, high, alpha=0.3, linewidth=0, label="claimed error")
    b.set(
        xlabel="energy of one electron (eV)",
        ylabel=r"SDCS ($a_0^2\,E_h^{-2}\,$sr$^{-1}$)",
        title="sharing of 20 eV",
        ylim=(0, None),
    )
    b.legend()
    return fig


def _compare_e3e(data: Data) -> list[Line]:
    elapsed = data["seconds"]
    return [
        Line(
            "time of the (e,3e) example, L = 0, 1, 2",
            f"{_said('e3e_cpu')}, {_said('e3e_gpu')}",
            f"{elapsed:.0f} s of one core, errors included",
            "",
            "no matrix: the repulsion is diagonal on the grid; three to five pairs for each L, all up to l = 3",
        ),
        Line(
            "rows for each L",
            _said("rows"),
            f"{data['unknowns']} in all, on the grid itself",
            "",
            "grid functions instead of 84 Sturmians of each electron",
        ),
        Line(
            "double ionisation, part L = 1",
            "no cross section is printed",
            f"{data['L1']:.4g}; all L {data['double']:.4g} ± {data['double_error']:.1g} a.u.",
            "",
            "another program: 0.02057(60) for L = 1",
        ),
    ]


@item("sturmian/sec3.3-e3e", "double ionisation of helium by 5.6 keV electrons", 25, _draw_e3e, _compare_e3e)
def e3e(work: Work) -> Data:
    """Run the deck; quick: only L = 0 and 1 with fewer partial waves."""
    overrides = (
        ("channels.L=[0, 1]", "channels.l_max=1", "initial.l_max=1", "grid.order=8", "grid.R=24")
        if work.quick
        else ()
    )
    with work.results("sturmian", "e3e", overrides) as results:
        value = results.scalars
        double = value["sigma_double_0"]
        return {
            "theta": np.asarray(results["theta"]).tolist(),
            "fdcs": np.asarray(results["fdcs"])[0, 0].tolist(),
            "sdcs": np.asarray(results["sdcs"])[0, 0].tolist(),
            "sdcs_error": np.asarray(results["sdcs_error"])[0, 0].tolist(),
            "sdcs_energy": np.asarray(results["sdcs_energy"])[0].tolist(),
            "seconds": float(results.provenance["elapsed"]),
            "unknowns": int(value["unknowns"].value),
            "L1": float(value["sigma_double_L1_0"].value),
            "double": float(double.value),
            "double_error": float(double.error or 0.0),
        }


def _helium(rows: list[Row]) -> Data:
    wanted = [row for row in rows if "matrix-free" in row["label"]]
    return {"seconds": undisturbed(wanted[0]), "energy": wanted[0]["energy"]} if wanted else {}


def _draw_helium(data: Data) -> Figure:
    fig, axes = panels(1, 1)
    names = ["paper, CPU", "paper, GPU", "qsim, one core"]
    values = [
        number("sturmian", "helium_cpu").value,
        number("sturmian", "helium_gpu").value,
        data["cpu"]["seconds"],
    ]
    if data["cuda"]:
        names.append(f"qsim, {device_of(data['cuda_from'])}")
        values.append(data["cuda"]["seconds"])
    axes[0][0].barh(names, values, color=["C3", "C1", "C0", "C2"][: len(names)])
    axes[0][0].set(
        xscale="log", xlabel="time (s)", title="helium, 64 functions, five pairs; ours with the eigenvalue"
    )
    for k, value in enumerate(values):
        axes[0][0].annotate(
            _seconds(value), (value, k), xytext=(4, 0), textcoords="offset points", va="center"
        )
    axes[0][0].set_xlim(1e-3, 3e6)
    axes[0][0].invert_yaxis()
    return fig


def _compare_helium(data: Data) -> list[Line]:
    gpu = data["cuda"]
    why = "no N⁴ integrals; the text contradicts its Table 4, whose rates make 55 min and 149 s"
    return [
        Line(
            "time, N = 64, five pairs",
            f"{_said('helium_cpu')}, {_said('helium_gpu')}",
            _seconds(data["cpu"]["seconds"]),
            _seconds(gpu["seconds"]) if gpu else NOT_RUN,
            why,
        ),
        Line(
            "energy with l up to 4",
            "not printed",
            f"{data['cpu']['energy']:.10f}",
            f"{gpu['energy']:.10f}" if gpu else NOT_RUN,
            "another program: -2.9035186012",
        ),
    ]


@item("sturmian/sec3.3-helium", "ground state of helium", 10, _draw_helium, _compare_helium)
def helium(work: Work) -> Data:
    """Measure the ground state from grid to energy."""
    rows, where = work.gpu_case("sturmian-helium")
    return {"cpu": _helium(work.case("sturmian-helium")), "cuda": _helium(rows), "cuda_from": where}


# ------------------------------------------------------------------------------------------- collisions


def _draw_collision(data: Data) -> Figure:
    fig, axes = panels(1, 2)
    for axes_, k, name in ((axes[0][0], 0, "singlet"), (axes[0][1], 1, "triplet")):
        share = np.array(data["share"])
        for kind, color, label in (
            ("grid", "C0", "whole grid"),
            ("gsf", "C1", "52 outgoing Sturmians, dense"),
        ):
            if kind in data:
                value, error = np.array(data[kind]["sdcs"][k]), np.array(data[kind]["error"][k])
                axes_.plot(share, value, color=color, linewidth=1, label=label)
                axes_.fill_between(share, value - error, value + error, color=color, alpha=0.2, linewidth=0)
        known = np.array(data["known"][k], dtype=float)
        axes_.plot(data["known_share"], known, "x", color="0.3", label="another program")
        axes_.set(xlabel="share of the energy", ylabel=r"SDCS ($\pi a_0^2/E_h$)", title=name, ylim=(0, None))
        axes_.legend(fontsize="x-small")
    return fig


KNOWN = {"ionisation, singlet": 0.01473, "ionisation, triplet": 0.003104}


def _compare_collision(data: Data) -> list[Line]:
    lines = []
    for k, (name, known) in enumerate(KNOWN.items()):
        texts = [
            f"{data[kind]['sigma'][k]:.5f} ± {data[kind]['sigma_error'][k]:.1g} ({label})"
            for kind, label in (("grid", "grid"), ("gsf", "Sturmians"))
            if kind in data
        ]
        lines.append(
            Line(
                f"{name}, 54.4 eV, π a₀²",
                "the method is described (Sec. 2); no cross section is printed",
                "; ".join(texts),
                "",
                f"another program: {known}",
            )
        )
    return lines


@item(
    "sturmian/collision",
    "the paper's route for a collision: outgoing Sturmians and a dense matrix, S waves of e-H at 54.4 eV",
    15,
    _draw_collision,
    _compare_collision,
    "The paper shows no cross section; the model of S waves is the test that collision programs are held to.",
)
def collision(work: Work) -> Data:
    """Run the model in outgoing Sturmian functions and on the whole grid."""
    data: Data = {}
    overrides = ('task.energy=["54.4 eV"]',)
    for kind, deck in (("grid", "temkin_poet"), ("gsf", "temkin_poet_gsf")):
        with work.results(
            "sturmian", deck, overrides if kind == "grid" else (), name=f"{deck}_54eV"
        ) as results:
            data[kind] = _sharing(results)
            data["share"] = np.asarray(results["sdcs_share"]).tolist()
            data["known"] = np.asarray(results["known/sdcs"])[0].tolist()
            data["known_share"] = np.asarray(results["known/share"]).tolist()
    return data


def _sharing(results: Any) -> Data:
    return {
        "sdcs": np.asarray(results["sdcs"])[0].tolist(),
        "error": np.asarray(results["sdcs_error"])[0].tolist(),
        "sigma": np.asarray(results["sigma_ionisation"])[0].tolist(),
        "sigma_error": np.asarray(results["sigma_ionisation_error"])[0].tolist(),
    }
