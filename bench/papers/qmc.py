"""Esler et al. (2012), quantum Monte Carlo: Figs. 3 to 5."""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from bench.papers.drawing import device_of, panels
from bench.papers.item import Data, Line, item, number, scheme
from bench.papers.work import NOT_RUN
from bench.qmc import problem
from qsim.qmc.deck import wavefunction as blocks
from qsim.qmc.wavefunction.bloch import BlochOrbitals, mesh_for
from qsim.qmc.wavefunction.trial import build_wavefunction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bench.papers.work import Row, Work
    from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

SYSTEMS = {  # deck: name, time step of variational moves, most walkers
    "he_atom": ("He", 0.3, 1024),
    "be_atom": ("Be", 0.05, 1024),
    "hydrogen_bcc": ("H crystal", 0.4, 1024),
    "h2o_ccecp": ("H$_2$O", 0.3, 256),
    "diamond_primitive": ("diamond", 0.3, 256),
    "electron_gas": ("electron gas", 4.0, 256),
    "diamond16": ("diamond, 16 atoms", 0.3, 16),
}
WALKERS = (1, 4, 16, 64, 256, 1024)


def _said(key: str) -> str:
    found = number("qmc", key)
    return f"{found} ({found.source})"


@cache
def trial_function(deck: str) -> Wavefunction:
    """Return the trial function at the start of a deck."""
    content = yaml.safe_load((problem.DECKS / f"{deck}.yaml").read_text(encoding="utf-8"))
    return build_wavefunction(
        blocks.System.model_validate(content["system"]),
        blocks.Wavefunction.model_validate(content["wavefunction"]),
        folder=problem.DECKS,
    )


scheme(
    "qmc/fig1",
    "pictures of orbitals of four systems",
    "pictures without numbers, of systems with other pseudopotentials",
)
scheme("qmc/fig2", "loops of diffusion Monte Carlo on a CPU", "an algorithm; qsim's is on the theory page")

# ---------------------------------------------------------------------------------------------- Fig. 3


def _gpu_ratios(rows: list[Row]) -> Data:
    """Return by system: walkers, and how many times as fast as two threads of its host the GPU is."""
    found: Data = {}
    for row in rows:
        if match := re.fullmatch(r"(\w+) (\d+) walkers: GPU / CPU, 2 threads", row["label"]):
            here = found.setdefault(match[1], {"walkers": [], "moves": [], "VMC": [], "DMC": []})
            here["walkers"].append(int(match[2]))
            for kind in ("moves", "VMC", "DMC"):
                here[kind].append(row[f"times_{kind}"])
    return found


def _draw_speed(data: Data) -> Figure:
    fig, axes = panels(1, 2, 3.4)
    a, b = axes[0]
    ordered = sorted(data["cpu"].items(), key=lambda entry: int(entry[1]["electrons"]))
    for k, (deck, here) in enumerate(ordered):
        name = f"{SYSTEMS[deck][0]}, {here['electrons']} e"
        a.loglog(here["walkers"], here["rate"], "o-", color=f"C{k}", markersize=3, label=name)
    a.set(
        xlabel="walkers $N_w$",
        ylabel="electron moves with energies per second",
        title="one core of this machine",
    )
    a.set_ylim(top=a.get_ylim()[1] * 30)
    a.legend(fontsize="xx-small", ncols=2, loc="upper left")
    for k, (name, here) in enumerate(data["cuda"].items()):
        for kind, style in (("VMC", "o-"), ("DMC", "s--")):
            b.loglog(here["walkers"], here[kind], style, color=f"C{k}", markersize=3, label=f"{name}, {kind}")
    b.axhline(1.0, color="0.7", linewidth=0.8)
    b.axhspan(
        number("qmc", "speedup_low").value,
        number("qmc", "speedup_high").value,
        color="C3",
        alpha=0.15,
        linewidth=0,
    )
    b.set(
        xlabel="walkers $N_w$",
        ylabel="time, two threads / GPU",
        title=device_of(data["cuda_from"]),
    )
    if data["cuda"]:
        b.legend(fontsize="x-small", title="band: the paper's 10 to 15", title_fontsize="x-small")
    return fig


def _compare_speed(data: Data) -> list[Line]:
    flat = {}
    for deck, here in data["cpu"].items():
        flat[SYSTEMS[deck][0]] = max(here["rate"]) / here["rate"][0]
    spread = f"{min(flat.values()):.1f} to {max(flat.values()):.1f} times from one walker to many"
    lines = [
        Line(
            "gain of many walkers on a CPU",
            "not shown: a CPU carries one walker at a time (p. 44)",
            spread,
            "",
            "walkers of a call share its overhead only",
        )
    ]
    for name, here in data["cuda"].items():
        lines.append(
            Line(
                f"GPU against CPU, {name}, DMC",
                _said("speedup_low") + "; " + _said("speedup_high"),
                "",
                f"{here['DMC'][0]:.2g} times two threads with {here['walkers'][0]} walkers, "
                f"{here['DMC'][-1]:.0f} with {here['walkers'][-1]}",
                "few electrons: many more walkers than 256 are needed; crystals have no GPU kernels yet",
            )
        )
    if not data["cuda"]:
        lines.append(Line("GPU against CPU", _said("speedup_high"), "", NOT_RUN))
    return lines


@item(
    "qmc/fig3",
    "throughput against the number of walkers, from 2 to 64 electrons",
    60,
    _draw_speed,
    _compare_speed,
    "The paper's systems are not named; molecules and crystals of the decks stand for them, on a CPU in small form.",
)
def speed(work: Work) -> Data:
    """Measure variational generations of every system; the GPU's ratios are those of a case of the bench."""
    data: Data = {"cpu": {}}
    chosen = list(SYSTEMS)[:3] if work.quick else list(SYSTEMS)
    for deck in chosen:
        _, tau, most = SYSTEMS[deck]
        psi, rates, counts = trial_function(deck), [], []
        for count in WALKERS[:3] if work.quick else WALKERS:
            if count <= most:
                walkers = problem.ensemble(work.core, psi, count, tau)
                found = problem.alternate(work.core, {"VMC": problem.variational(walkers, tau)}, 3)["VMC"]
                seconds = problem.undisturbed(work.core, found)
                rates.append(count * problem.STEPS * walkers.electrons / seconds)
                counts.append(count)
        data["cpu"][deck] = {"walkers": counts, "rate": rates, "electrons": walkers.electrons}
    rows, data["cuda_from"] = work.gpu_case("qmc-walkers")
    data["cuda"] = _gpu_ratios(rows)
    return data


# ---------------------------------------------------------------------------------------------- Fig. 4


def _shares(rows: list[Row]) -> Data:
    found: Data = {}
    for row in rows:
        if "share_of_generation" in row:
            found.setdefault(row["system"], {})[row["kind"]] = row["share_of_generation"]
    return found


COLORS = ("C0", "C1", "C2", "C3", "C4", "C5", "0.25", "0.5", "0.7", "0.85")
MERGED = {
    "orbitals": "orbitals and determinants",
    "determinants: ratios, drift, updates": "orbitals and determinants",
}


def _draw_shares(data: Data) -> Figure:
    fig, axes = panels(1, 1, 3.6)
    columns = {f"{name}\none core": shares for name, shares in data["cpu"].items()}
    gpu = device_of(data["cuda_from"])
    columns |= {f"{name}\n{gpu}": shares for name, shares in data["cuda"].items()}
    kinds: dict[str, None] = {}
    for shares in columns.values():
        kinds |= dict.fromkeys(MERGED.get(kind, kind) for kind in shares)
    bottom = np.zeros(len(columns))
    for k, kind in enumerate(kinds):
        values = np.array(
            [
                sum(v for name, v in shares.items() if MERGED.get(name, name) == kind)
                for shares in columns.values()
            ]
        )
        shown = 100 * np.maximum(values, 0.0)
        axes[0][0].bar(
            list(columns),
            shown,
            0.6,
            bottom=bottom,
            label=kind,
            color=COLORS[k % len(COLORS)],
        )
        bottom += shown
    axes[0][0].set(ylabel="share of a generation (%)", title="diffusion Monte Carlo")
    handles, labels = axes[0][0].get_legend_handles_labels()
    axes[0][0].legend(
        handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="x-small"
    )
    return fig


def _part(shares: Data, *kinds: str) -> str:
    return f"{100 * sum(value for kind, value in shares.items() if kind in kinds):.0f} %"


def _compare_shares(data: Data) -> list[Line]:
    orbitals = ("orbitals", "orbitals and determinants", "determinants: ratios, drift, updates")
    lines = []
    for name in data["cpu"]:
        gpu = data["cuda"].get(name)
        lines += [
            Line(
                f"{name}: orbitals and determinants",
                "the most expensive class, by bandwidth (p. 48, Fig. 4; bars without numbers)",
                _part(data["cpu"][name], *orbitals),
                _part(gpu, *orbitals) if gpu else NOT_RUN,
                "splines of a gigabyte there, tables that stay in the cache here",
            ),
            Line(
                f"{name}: inversions",
                "negligible on a CPU, little on a GPU (p. 48)",
                _part(data["cpu"][name], "recomputation"),
                _part(gpu, "recomputation") if gpu else NOT_RUN,
                "match",
            ),
        ]
    return lines


@item("qmc/fig4", "share of time of the classes of work", 40, _draw_shares, _compare_shares)
def shares(work: Work) -> Data:
    """Take the shares of the case of the bench."""
    rows, where = work.gpu_case("qmc-shares")
    return {"cpu": _shares(work.case("qmc-shares")), "cuda": _shares(rows), "cuda_from": where}


# ---------------------------------------------------------------------------------------------- Fig. 5

FACTORS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0)
CRYSTALS = {"diamond_primitive": 1, "diamond16": 8}


def _draw_meshes(data: Data) -> Figure:
    fig, axes = panels(1, 2)
    a, b = axes[0]
    for k, (deck, here) in enumerate(data.items()):
        MB = np.array(here["bytes"]) / 1e6
        error = np.abs(here["error"])
        a.loglog(
            MB, error, "o-", color=f"C{k}", markersize=3, label=f"{SYSTEMS[deck][0]}, {here['electrons']} e"
        )
        b.loglog(
            error,
            MB * here["cells"],
            "s--",
            color=f"C{k}",
            markersize=3,
            label=f"{SYSTEMS[deck][0]}: mesh over the supercell",
        )
        b.loglog(
            error, MB, "o-", color=f"C{k}", markersize=3, label=f"{SYSTEMS[deck][0]}: one primitive cell"
        )
    a.axhline(1e-3, color="0.7", linewidth=0.8)
    a.set(xlabel="uniform B-splines (MB)", ylabel="error of the kinetic energy\n(hartree per electron)")
    b.set(xlabel="error (hartree per electron)", ylabel="memory (MB)")
    a.legend(fontsize="x-small")
    b.legend(fontsize="xx-small")
    return fig


def _compare_meshes(data: Data) -> list[Line]:
    lines = [
        Line(
            "memory saved by muffin tins",
            f"{number('qmc', 'memory_low').value:g} to {_said('memory_high')}",
            "not built: qsim has uniform splines",
            "not built",
            "",
        )
    ]
    for deck, here in data.items():
        fine = [b for b, e in zip(here["bytes"], here["error"], strict=True) if abs(e) < 1e-3]
        lines.append(
            Line(
                f"{SYSTEMS[deck][0]}: uniform splines for 1 millihartree per electron",
                "more than 1 GB is typical (p. 48)",
                f"{min(fine) / 1e6:.3g} MB"
                + (
                    f", instead of {min(fine) * here['cells'] / 1e6:.3g} MB over the supercell"
                    if here["cells"] > 1
                    else ""
                ),
                "",
                "translation keeps one primitive cell, as the paper's memory that grows with the number of atoms (p. 49)",
            )
        )
    return lines


@item(
    "qmc/fig5",
    "uniform B-splines: memory and accuracy",
    10,
    _draw_meshes,
    _compare_meshes,
    "The paper's figure is a scheme of two representations; here the numbers of the one that qsim has.",
)
def meshes(work: Work) -> Data:
    """Change the mesh of the orbitals of diamond."""
    data: Data = {}
    for deck, cells in list(CRYSTALS.items())[: 1 if work.quick else None]:
        psi: Any = trial_function(deck)
        orbitals: BlochOrbitals = psi.orbitals
        counts = (psi.system.n_up, psi.system.n_dn)
        found: Data = {
            "factor": list(FACTORS),
            "bytes": [],
            "error": [],
            "electrons": sum(counts),
            "cells": cells,
        }
        for factor in FACTORS:
            other = dataclasses.replace(orbitals, mesh=mesh_for(orbitals.functions, factor))
            found["bytes"].append(other.table_bytes)
            found["error"].append(other.spline_error(counts) / sum(counts))
        data[deck] = found
    return data
