"""The pages on how to add an observable and an initial state: their files, added to the package, against dense matrices.

Both are loaded in a fresh interpreter from a folder that counts as a part of the room; nothing else of the package changes.
Tolerance: the accuracy of the runs, 1e-10, times the size of the operator (9).
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import expm

pytestmark = pytest.mark.checkout
ROOT = Path(__file__).resolve().parents[2]
N, TIMES = 6, [0.0, 0.7, 1.9]
TERMS = [
    {"type": "xxz", "lattice": "chain", "Jxy": 1.0, "Jz": 0.4},
    {"type": "field", "axis": "z", "values": "0.3*j"},
]
SCRIPT = """
import importlib.util, json, sys
from pathlib import Path

room, folder, decks = sys.argv[1:]
test = Path(folder, "test_page.py").read_text(encoding="utf-8")
Path(folder, "test_page.py").unlink()  # it is no part of the room
spec = importlib.util.find_spec(room)
module = importlib.util.module_from_spec(spec)
module.__path__.append(folder)
sys.modules[room] = module
spec.loader.exec_module(module)

import qsim

found = []
for deck in json.loads(decks):
    results = qsim.run(deck)
    found.append({
        "sector": str(results.scalars["sector"].value),
        "sz": results["sz"].tolist(),
        "total": results["total_squared"].tolist() if "total_squared" in results else None,
    })
names = {}
exec(test, names)
(function,) = [names[name] for name in names if name.startswith("test_")]
function()
print(json.dumps(found))
"""


def example(page, folder):
    """Write the file of a page into a folder of its own."""
    text = (ROOT / f"docs/howto/{page}.md").read_text(encoding="utf-8")
    code, test = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (name,) = re.findall(r"^`(qsim/trotter/\w+/\w+\.py)`:$", text, re.MULTILINE)
    assert not (ROOT / name).exists()
    (folder / Path(name).name).write_text(code, encoding="utf-8")
    (folder / "test_page.py").write_text(test, encoding="utf-8")


def run(room, folder, decks):
    """Results of some decks with the files of a folder in a room of the package."""
    command = [sys.executable, "-c", SCRIPT, room, str(folder), json.dumps(decks)]
    reply = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert reply.returncode == 0, reply.stderr
    return json.loads(reply.stdout.splitlines()[-1])


def deck(**blocks):
    evolve = {"outputs": TIMES, "accuracy": 1e-10, "integrator": "chebyshev"}
    given = {"method": "trotter", "system": {"spins": N, "terms": TERMS}, "evolve": evolve}
    return given | {"run": {"device": "cpu"}} | blocks


def spin(axis, site):
    """S^a of a site, 2^N x 2^N; site 0 is the lowest bit."""
    pauli = {"x": [[0, 1], [1, 0]], "y": [[0, -1j], [1j, 0]], "z": [[1, 0], [0, -1]]}
    return np.kron(np.eye(2 ** (N - 1 - site)), np.kron(0.5 * np.array(pauli[axis]), np.eye(2**site)))


def evolved(psi):
    """The states at all times."""
    H = sum(0.3 * j * spin("z", j) for j in range(N))
    for j in range(N - 1):
        for axis, J in (("x", 1.0), ("y", 1.0), ("z", 0.4)):
            H = H + J * spin(axis, j) @ spin(axis, j + 1)
    return [expm(-1j * t * H) @ psi for t in TIMES]


def test_an_observable_is_one_file(tmp_path):
    example("add-observable", tmp_path)
    neel = np.zeros(2**N, complex)
    neel[0b101010] = 1.0
    states = evolved(neel)
    decks = [
        deck(initial="neel", sector=sector, observe=["sz", {"total_squared": axis}])
        for axis in "xz"
        for sector in ("auto", "full")
    ]
    found = run("qsim.trotter.observables", tmp_path, decks)
    assert [row["sector"] == "full" for row in found] == [False, True, False, True]
    for row, axis in zip(found, "xxzz", strict=True):
        total = sum(spin(axis, j) for j in range(N))
        expected = [np.vdot(psi, total @ total @ psi).real for psi in states]
        np.testing.assert_allclose(row["total"], expected, rtol=0, atol=1e-9)


def test_an_initial_state_is_one_file(tmp_path):
    example("add-state", tmp_path)
    psi = np.zeros(2**N, complex)
    psi[1 << np.arange(N)] = np.exp(0.5j * np.pi * np.arange(N)) / np.sqrt(N)
    states = evolved(psi)
    decks = [
        deck(initial={"type": "magnon", "q": 0.5}, sector=sector, observe=["sz"])
        for sector in ("auto", "full")
    ]
    found = run("qsim.trotter.initial", tmp_path, decks)
    assert [row["sector"] == "full" for row in found] == [False, True]
    expected = [[np.vdot(psi, spin("z", j) @ psi).real for j in range(N)] for psi in states]
    for row in found:
        np.testing.assert_allclose(row["sz"], expected, rtol=0, atol=1e-9)
