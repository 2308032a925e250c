"""Photoionisation at many energies: whole spectra beside their goals, and the rate beside that of complex products."""

from __future__ import annotations

import time
from pathlib import Path

from bench.harness import Bench, Cost, Timing, case
from bench.sturmian import problem
from qsim.core.device.device import cpu
from qsim.sturmian.scatter.photo.run import Photons

ROOT = Path(__file__).resolve().parents[2]
# Seconds for 200 photon energies of helium from its threshold to double ionisation, with all errors, on two cores and on an H200.
CORES, GPU = 60.0, 10.0
THREADS = 2
WHOLE = ("channels.l_max=4",)
SMALL = ("grid.R=16", "grid.order=8", "grid.ecs.length=20", "channels.l_max=1", "task.photon.count=20")


@case("sturmian-photons", "photoionisation of helium at 200 energies, l_max 4, in two gauges, with errors")
def photons(bench: Bench) -> None:
    """Time all spectra of `he_photo`, without reading, writing and drawing; operations are those of its own grid."""
    from qsim.core.deck.load import load_deck
    from qsim.sturmian.build import build
    from qsim.sturmian.deck.model import SturmianDeck

    device = bench.device if bench.device.is_cuda else cpu(THREADS)
    rate = problem.product_rate(bench, complex) * (1 if device.is_cuda else THREADS)
    loaded = load_deck(ROOT / "inputs/sturmian/he_photo.yaml", SturmianDeck, SMALL if bench.quick else WHOLE)
    begun, busy = time.perf_counter(), time.process_time()
    made = Photons(build(loaded, device))  # type: ignore[arg-type]
    made.advance(lambda _: None)
    result = made.result()
    device.synchronize()
    seconds, busy = time.perf_counter() - begun, time.process_time() - busy
    own = result.own
    bench.row(
        "he_photo, all spectra and errors",
        Timing(seconds, seconds, 1, "wall", None if device.is_cuda else busy),
        device=device,
        unknowns=own.unknowns,
        energies=int(own.E.size),
        directions=sum(one.directions for one in made.spectra),
        nodes=sum(one.nodes for one in made.spectra),
        own_spectrum_s=own.seconds,
    )
    work = own.flops * own.steps
    bench.row(
        "he_photo, the grid of the deck",
        Timing(own.seconds, own.seconds, 1, "wall"),
        Cost(work, 16.0 * own.unknowns * own.directions**2),
        device=device,
        gemm_fraction=work / own.seconds / rate,
    )
    if not bench.quick:
        bench.goal("200 photon energies of helium", seconds, GPU if device.is_cuda else CORES, "s")
    problem.release(bench)
