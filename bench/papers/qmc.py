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
from bench.qmc import crystals, problem
from qsim.qmc.deck import wavefunction as blocks
from qsim.qmc.wavefunction.crystals.bloch import BlochOrbitals, mesh_for
from qsim.qmc.wavefunction.trial import build_wavefunction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bench.papers.work import Row, Work
    from qsim.core.device.device import Device
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


def _both(molecules: str, crystals_: str) -> str:
    """Return where the numbers of molecules and of crystals come from."""
    return molecules if molecules == crystals_ else f"{molecules}; crystals: {crystals_}"


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


def _crystal_rates(rows: list[Row]) -> Data:
    """Return by system and kind, mixed precision: walkers, and walker-generations of diffusion per second."""
    found: Data = {}
    for row in rows:
        if row.get("precision") == "mixed" and "walker_generations_per_s" in row:
            here = found.setdefault(f"{row['system']} atoms", {}).setdefault(row["kind"], [])
            here.append((row["walkers"], row["walker_generations_per_s"]))
    return found


def _core_rates(core: Device) -> dict[str, float]:
    """Return walker-generations per second on one core of the crystals of the GPU's case: T-moves, double precision."""
    rates = {}
    for name, made in (("diamond 16", crystals.of_deck("diamond 16")), ("diamond 64", crystals.diamond64())):
        walkers = problem.ensemble(core, made, 2, crystals.MOVES)
        work = crystals._generations(walkers, 1, tmoves=True)
        found = problem.alternate(core, {"T-moves": work}, 3)["T-moves"]
        rates[f"{name} atoms"] = walkers.count / problem.undisturbed(core, found)
    return rates


def _draw_speed(data: Data) -> Figure:
    fig, axes = panels(2, 2, 3.2)
    (a, b), (c, d) = axes
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
    for k, (name, here) in enumerate(data["crystals"].items()):
        core = data["core"].get(name)
        for kind, points in here.items():
            x, y = (np.array(values) for values in zip(*points, strict=True))
            look = {"color": f"C{k}", "markersize": 3, "label": f"{name}, {kind}"}
            c.loglog(x, y, "o-" if kind == "locality" else "s--", **look)
            if core and kind == "T-moves":
                d.loglog(x, y / core, "s--", **look)
    gpu = device_of(data["crystals_from"])
    c.set(xlabel="walkers $N_w$", ylabel="generations of a walker per second", title=f"crystals, {gpu}")
    d.set(xlabel="walkers $N_w$", ylabel="time, one core / GPU", title=f"crystals, {gpu}")
    for axis in (c, d):
        axis.tick_params(which="minor", labelbottom=False)
        if axis.lines:
            axis.set_ylim(axis.get_ylim()[0] / 2, axis.get_ylim()[1] * 2)
            axis.legend(fontsize="xx-small", loc="lower right")
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
                "few electrons: many more walkers than 256 are needed",
            )
        )
    if not data["cuda"]:
        lines.append(Line("GPU against CPU", _said("speedup_high"), "", NOT_RUN))
    for name, core in data["core"].items():
        points = data["crystals"].get(name, {}).get("T-moves")
        count, rate = points[-1] if points else (0, 0.0)
        lines.append(
            Line(
                f"GPU against CPU, {name}, DMC with T-moves",
                _said("speedup_low") + "; " + _said("speedup_high"),
                f"{core:.3g} generations of a walker per second and core, double precision",
                f"{rate / core:.0f} times one core, {count} walkers, mixed precision" if points else NOT_RUN,
                "one core, not four; splines in the cache of the GPU",
            )
        )
    return lines


@item(
    "qmc/fig3",
    "throughput against the number of walkers, from 2 to 256 electrons",
    70,
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
    rows, data["crystals_from"] = work.gpu_case("qmc-crystals-gpu")
    data["crystals"] = _crystal_rates(rows)
    data["cuda_from"] = _both(data["cuda_from"], data["crystals_from"])
    data["core"] = {} if work.quick else _core_rates(work.core)
    return data


# ---------------------------------------------------------------------------------------------- Fig. 4


def _shares(rows: list[Row]) -> Data:
    found: Data = {}
    for row in rows:
        if "share_of_generation" in row:
            found.setdefault(row["system"], {})[row["kind"]] = row["share_of_generation"]
    return found


COLORS = ("C0", "C1", "C2", "C3", "C4", "C5", "0.25", "0.5", "0.7", "0.85")
MERGED = {  # classes that some columns divide: what the figure calls them
    "orbitals": "orbitals and determinants",
    "determinants: ratios, drift, updates": "orbitals and determinants",
    "determinants: ratios and drift": "determinants, random numbers, drift, acceptance",
    "determinants: updates of inverses": "determinants, random numbers, drift, acceptance",
    "random numbers, acceptance": "determinants, random numbers, drift, acceptance",
    "nonlocal part: splines": "nonlocal part",
    "nonlocal part: Jastrow factor": "nonlocal part",
    "nonlocal part: ions, rotations, sums": "nonlocal part",
    "T-moves, and what is in no class": "T-moves",
}


def _columns(data: Data, systems: Any) -> Data:
    """Return the bars of some systems: shares by class, without classes that others divide."""
    columns = {f"{name}\none core": data["cpu"][name] for name in systems if name in data["cpu"]}
    columns |= {f"{name}\nGPU": data["cuda"][name] for name in systems if name in data["cuda"]}
    merged: Data = {}
    for name, shares in columns.items():
        here = merged.setdefault(name, {})
        for kind, value in shares.items():
            shown = MERGED.get(kind, kind)
            here[shown] = here.get(shown, 0.0) + value
    return merged


def _draw_shares(data: Data) -> Figure:
    fig, axes = panels(2, 1, 3.4)
    every = list(dict.fromkeys([*data["cpu"], *data["cuda"]]))
    parts = ([n for n in every if "diamond" not in n], [n for n in every if "diamond" in n])
    sources = (data["cuda_from"], data["crystals_from"])
    for axis, systems, source in zip((row[0] for row in axes), parts, sources, strict=True):
        columns = _columns(data, systems)
        kinds = list(dict.fromkeys(kind for shares in columns.values() for kind in shares))
        bottom = np.zeros(len(columns))
        for k, kind in enumerate(kinds):
            shown = 100 * np.maximum([shares.get(kind, 0.0) for shares in columns.values()], 0.0)
            axis.bar(list(columns), shown, 0.6, bottom=bottom, label=kind, color=COLORS[k % len(COLORS)])
            bottom += shown
        axis.set(ylabel="share of a generation (%)", title=f"GPU: {device_of(source)}")
        handles, labels = axis.get_legend_handles_labels()
        axis.legend(
            handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="x-small"
        )
    return fig


def _part(shares: Data, *kinds: str) -> str:
    return f"{100 * sum(value for kind, value in shares.items() if kind in kinds):.0f} %"


ORBITALS = ("orbitals", "orbitals and determinants", "determinants: ratios, drift, updates")
SPLINES = ("splines of moves", "nonlocal part: splines")
PAIRS = ("Jastrow factor of moves", "nonlocal part: Jastrow factor")
UPDATES = ("determinants: ratios and drift", "determinants: updates of inverses")


def _compare_shares(data: Data) -> list[Line]:
    lines = []
    for name in dict.fromkeys([*data["cpu"], *data["cuda"]]):
        cpu, gpu = data["cpu"].get(name), data["cuda"].get(name)

        def both(*kinds: str, divided: bool, cpu: Any = cpu, gpu: Any = gpu) -> tuple[str, str]:
            """Return the shares on CPU and GPU; a CPU does not tell the parts of the nonlocal energy apart."""
            there = _part(gpu, *kinds) if gpu else NOT_RUN
            return "" if divided or not cpu else _part(cpu, *kinds), there

        if "diamond" in name:
            said = (
                ("splines, moves and nonlocal part", SPLINES, MOST, SMALL),
                (
                    "Jastrow functions and distances, both",
                    PAIRS,
                    "quite similar on CPU and GPU (p. 48)",
                    POINTS,
                ),
                (
                    "determinants",
                    UPDATES,
                    "larger on a GPU, where inverses leave the caches (p. 48)",
                    INVERSES,
                ),
            )
            lines += [
                Line(f"{name} atoms: {what}", paper, *both(*kinds, divided=True), why)
                for what, kinds, paper, why in said
            ]
            kinds = ("recomputation",)
            lines.append(
                Line(f"{name} atoms: inversions", INVERSIONS, "", both(*kinds, divided=True)[1], "match")
            )
            continue
        lines += [
            Line(f"{name}: orbitals and determinants", MOST, *both(*ORBITALS, divided=False), SMALL),
            Line(f"{name}: inversions", INVERSIONS, *both("recomputation", divided=False), "match"),
        ]
    return lines


INVERSIONS = "negligible on a CPU, little on a GPU (p. 48)"
MOST = "the most expensive class, by bandwidth (p. 48, Fig. 4; bars without numbers)"
POINTS = "each of some 7 points of an electron in the nonlocal part has a distance to every particle"
INVERSES = "inverses are in the caches of this GPU"
SMALL = "splines of a gigabyte there, tables that stay in the cache here"


@item(
    "qmc/fig4",
    "share of time of the classes of work",
    60,
    _draw_shares,
    _compare_shares,
)
def shares(work: Work) -> Data:
    """Take the shares of the cases of the bench."""
    rows, where = work.gpu_case("qmc-shares")
    solid, from_ = work.gpu_case("qmc-crystal-shares-gpu")
    cpu = _shares(work.case("qmc-shares")) | _shares(work.case("qmc-crystal-shares"))
    both = _both(where, from_)
    return {"cpu": cpu, "cuda": _shares(rows) | _shares(solid), "cuda_from": both, "crystals_from": from_}


# ---------------------------------------------------------------------------------------------- Fig. 5

FACTORS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0)
CRYSTALS = {"diamond_primitive": 1, "diamond16": 8}


def _draw_meshes(data: Data) -> Figure:
    fig, axes = panels(1, 3)
    a, b, c = axes[0]
    for k, (deck, here) in enumerate(data["meshes"].items()):
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
    for place, marker in (("cpu", "o"), ("cuda", "s")):
        for k, (name, bases) in enumerate(data[place].items()):
            first = bases["splines"]["rate"]
            x = [here["bytes"] / 1e6 for here in bases.values()]
            y = [here["rate"] / first for here in bases.values()]
            where = "one core" if place == "cpu" else device_of(data["cuda_from"])
            c.semilogx(x, y, marker, color=f"C{k}", markersize=4, label=f"{name} atoms, {where}")
            for basis, here in bases.items():
                if "tins" in basis:
                    at = (here["bytes"] / 1e6, here["rate"] / first)
                    text = f"$l={basis[-1]}$"
                    c.annotate(text, at, textcoords="offset points", xytext=(4, 2), fontsize="xx-small")
    c.axhline(1.0, color="0.7", linewidth=0.8)
    c.set_ylim(bottom=0.0)
    c.set(xlabel="memory (MB)", ylabel="speed over that of splines", title="$l$: muffin tins")
    c.legend(fontsize="xx-small")
    return fig


def _bases(rows: list[Row]) -> Data:
    """Return by system and basis: bytes, generations of a walker per second, and where there are any, energies per electron."""
    found: Data = {}
    for row in rows:
        name, _, rest = row["label"].partition(" atoms, ")
        basis, _, kind = rest.rpartition(": ")
        here = found.setdefault(name, {}).setdefault(basis, {})
        if kind == "locality":
            here |= {"bytes": row["bytes_of_tables"], "rate": row["walker_generations_per_s"]}
        elif kind == "variational energy":
            here |= {"energy": row["energy_per_electron"], "error": row["energy_error_per_electron"]}
    return {name: {basis: h for basis, h in bases.items() if "rate" in h} for name, bases in found.items()}


def _of_bases(name: str, cpu: Data, gpu: Data | None) -> list[Line]:
    """Return what muffin tins to l = 6 save and cost."""

    def said(bases: Data, what: str) -> str:
        uniform, mixed = bases["splines"], bases.get("tins to l = 6")
        if mixed is None:
            return "on CPUs only"
        return (
            f"{uniform['bytes'] / mixed['bytes']:.1f}"
            if what == "bytes"
            else f"{mixed['rate'] / uniform['rate']:.2f}"
        )

    there = {what: said(gpu, what) if gpu else NOT_RUN for what in ("bytes", "rate")}
    memory = f"{number('qmc', 'memory_low').value:g} to {_said('memory_high')}"
    lines = [
        Line(
            f"{name} atoms: memory of splines over muffin tins to l = 6",
            memory,
            said(cpu, "bytes"),
            there["bytes"],
            MESHES,
        ),
        Line(
            f"{name} atoms: speed of these tins over splines",
            "about the same (p. 49)",
            said(cpu, "rate"),
            there["rate"],
            CACHED,
        ),
    ]
    if gpu and "energy" in gpu["splines"]:
        shown = "; ".join(
            f"{basis}: {here['energy']:g} ± {here['error']:.1g}"
            for basis, here in gpu.items()
            if "energy" in here
        )
        what = f"{name} atoms: variational energy per electron, hartree"
        lines.append(
            Line(
                what, "the same accuracy (p. 49)", "", shown, "Jastrow factors of the start; splines between"
            )
        )
    return lines


MESHES = "splines of meshfactor 1 (2 atoms) and 1.4 (16 atoms), of 0.5 between tins"
CACHED = "tables of splines fit into the caches here"


def _compare_meshes(data: Data) -> list[Line]:
    lines = []
    for name, bases in data["cpu"].items():
        lines += _of_bases(name, bases, data["cuda"].get(name))
    for deck, here in data["meshes"].items():
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
    "uniform and mixed basis: memory, accuracy, speed",
    90,
    _draw_meshes,
    _compare_meshes,
    "The paper's figure is a scheme of two representations; here are the numbers of both.",
)
def meshes(work: Work) -> Data:
    """Change the mesh of the orbitals of diamond; take the bases of the case of the bench."""
    rows, where = work.gpu_case("qmc-basis")
    data: Data = {
        "meshes": {},
        "cpu": _bases(work.case("qmc-basis")),
        "cuda": _bases(rows),
        "cuda_from": where,
    }
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
        data["meshes"][deck] = found
    return data
