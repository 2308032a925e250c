"""The parts of the memory that the plan announces; ``tests/test_memory.py`` holds them against measured peaks."""

import json

SECTIONS = {
    "vmc": [{"vmc": {"blocks": 3, "steps": 2, "warmup": 2, "timestep": 0.1}}],
    "dmc": [
        {"vmc": {"blocks": 2, "steps": 2, "warmup": 2, "timestep": 0.1}},
        {
            "dmc": {
                "timesteps": [0.004, 0.002],
                "blocks": 3,
                "steps": 6,
                "warmup": 0.01,
                "extrapolate": "none",
            }
        },
    ],
    "optimize": [{"optimize": {"iterations": 1, "steps": 3, "warmup": 2, "timestep": 0.1}}],
    "long optimize": [
        {"optimize": {"iterations": 1, "steps": 30, "warmup": 2, "timestep": 0.1, "sweeps": 1}}
    ],
}


def deck(kind, walkers, electrons):
    series = json.loads(json.dumps(SECTIONS[kind]))
    next(iter(series[0].values()))["walkers"] = walkers
    symbol, shells = {2: ("He", [(1, 1.7)]), 4: ("Be", [(1, 3.7), (2, 1.0)])}[electrons]
    orbitals = {
        "source": "sto",
        "shells": [{"atom": symbol, "n": n, "l": 0, "zeta": zeta} for n, zeta in shells],
    }
    splines = {"J1": {"rcut": 6.0, "size": 7}, "J2": {"rcut": 6.0, "size": 9}}
    return {
        "run": {"seed": 3},
        "system": {"atoms": [[symbol, 0, 0, 0]]},
        "wavefunction": {"orbitals": orbitals, "jastrow": splines},
        "series": series,
    }


def test_the_estimate_counts_each_section(qmc):
    """State of beryllium: 12 positions, 40 rows, 8 of inverses, 14 others; copies while branching, walkers that are kept."""
    from qsim.core.run.stages import stage

    plan = stage("qmc", "build").plan
    state = 8 * (12 + 40 + 8 + 14)
    one = plan(qmc.load(**deck("vmc", 1000, 4))).memory
    assert one.parts["walkers"] == 1000 * state
    assert one.parts["work space"] == 1000 * 72
    assert one.parts["walkers kept for resuming"] == 0
    chain = plan(qmc.load(**deck("dmc", 1000, 4))).memory
    assert chain.parts["walkers kept for resuming"] == 2000 * state
    assert chain.parts["work space"] == 1000 * (state + 48)
    mixed = deck("vmc", 1000, 4)
    mixed["run"]["precision"] = "mixed"
    assert plan(qmc.load(**mixed)).memory.parts["walkers"] == 1000 * (8 * 26 + 4 * 48)
