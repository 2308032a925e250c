"""Robust control of a gate: value with gradient of many members, on a GPU and on one core."""

from __future__ import annotations

import time
from typing import Any

from bench.harness import Bench, case, wall
from bench.qoc import problem

SLOTS = 200
# Values of each of the three parameters that vary.
COUNT = 10
# The same on a CPU, where a member takes as long whatever their number.
FEW = 3

DECK = """
method: qoc
system:
  type: model
  unit: GHz
  parts: [{{name: a, type: qubit{bath}}}, {{name: b, type: qubit{bath}}}]
  terms: [{{operator: a.sz*b.sz, value: 0.05}}]
  controls: {{ax: a.sx, ay: a.sy, bx: b.sx, by: b.sy}}
  initial: "00"
  target: {{gate: cnot, on: [a, b]}}
time: {{T: "20 ns", slots: {slots}}}
control: [{{name: ax}}, {{name: ay}}, {{name: bx}}, {{name: by}}]
ensemble:
  members:
    - set: {{parts.a.frequency: {{start: "-2 MHz", stop: "2 MHz", count: {count}}}}}
    - set: {{parts.b.frequency: {{start: "-2 MHz", stop: "2 MHz", count: {count}}}}}
    - scale: {{control: {{start: 0.98, stop: 1.02, count: {count}}}}}
run: {{seed: 1}}
"""
BATHS = {"kets": "", "density matrices": ', T1: "30 us", T2: "20 us"'}


@case("qoc-members", "gradient of a CNOT averaged over 1000 members on a GPU against one core")
def members(bench: Bench) -> None:
    """Two qubits, four controls, 200 slots; kets, and density matrices with relaxation."""
    for name, bath in BATHS.items():
        slots = 20 if bench.quick else SLOTS
        core = _Ensemble(DECK.format(slots=slots, count=FEW, bath=bath), bench.core)
        single = wall(bench.core, core.gradient, budget=1.0)
        each = single.seconds / FEW**3
        bench.row(f"{name}, {FEW**3} members on one core", single, ms_per_member=1e3 * each)
        if not bench.device.is_cuda:
            continue
        count = FEW if bench.quick else COUNT
        whole = _Ensemble(DECK.format(slots=slots, count=count, bath=bath), bench.device)
        timing = wall(bench.device, whole.gradient, budget=1.0)
        ratio = each * count**3 / timing.seconds
        bench.row(
            f"{name}, {count**3} members",
            timing,
            us_per_member=1e6 * timing.seconds / count**3,
            build_s=whole.build_s,
        )
        bench.goal(f"{name}: {count**3} members, one core / GPU", ratio, 30.0, "x", at_least=True)


class _Ensemble:
    """The ensemble of a deck, with the controls at which its gradient is taken, and the seconds of its set-up."""

    def __init__(self, text: str, device: Any) -> None:
        from qsim.qoc.build import build

        begun = time.perf_counter()
        built = build(problem.load(text), device)
        self.objective, self.fields = built.ensemble.objective, built.guess
        self.build_s = time.perf_counter() - begun

    def gradient(self) -> None:
        """Compute P, J and the gradient."""
        self.objective.evaluate(self.fields)
