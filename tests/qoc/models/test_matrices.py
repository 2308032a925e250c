"""Systems from files: the same matrices as named parts give, dense and sparse, and every refusal."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import expm
from scipy.sparse import csr_array, random_array
from scipy.sparse.csgraph import connected_components

import qsim
from qsim.core.errors import FileError
from qsim.core.results.hdf5 import save_datasets
from qsim.qoc.deck.systems.matrices import MatricesSystem
from qsim.qoc.deck.systems.model import ModelSystem
from qsim.qoc.models.basis import connected
from qsim.qoc.models.builders import model
from qsim.qoc.models.faults import InvalidSystem

RNG = np.random.default_rng(3)


def hermitian(size):
    a = RNG.normal(size=(size, size)) + 1j * RNG.normal(size=(size, size))
    return a + a.conj().T


def rows_compressed(name, matrix):
    m = sparse.csr_array(matrix)
    return {f"{name}/{part}": getattr(m, part) for part in ("data", "indices", "indptr")} | {
        f"{name}/shape": m.shape
    }


def written(path, arrays):
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        save_datasets(path, arrays)
    return path


def built(path, **keys):
    block = {"type": "matrices", "file": path.name, "initial": "0", "target": "1"} | keys
    return model(MatricesSystem.model_validate(block, context={"base": path.parent}))


@pytest.mark.parametrize("suffix", [".h5", ".npz"])
@pytest.mark.parametrize("dense", [True, False])
def test_a_file_gives_the_system_that_was_written(tmp_path, suffix, dense):
    parts = [{"name": "a", "type": "transmon", "levels": 3, "frequency": 5.0, "anharmonicity": -0.3}]
    parts.append({"name": "b", "type": "qubit", "frequency": 4.0, "T1": "20 us", "T2": "30 us"})
    deck = {
        **{"type": "model", "unit": "GHz", "parts": parts, "controls": {"re": "a.x", "im": "a.y + b.y"}},
        **{"terms": [{"operator": "a.b*b.sp + a.bd*b.sm", "value": 0.01}], "target": {"gate": "cz"}},
    }
    m = model(ModelSystem.model_validate(deck))
    bare = {"H0": m.drift / (2 * np.pi)}
    bare |= {f"controls/{control.name}": control.operator / (2 * np.pi) for control in m.controls}
    bare |= {f"jumps/{jump.name}": jump.operator for jump in m.jumps}
    arrays = {}
    for name, matrix in bare.items():
        arrays |= {name: matrix.toarray()} if dense else rows_compressed(name, matrix)
    path = written(tmp_path / f"system{suffix}", arrays)
    on = ["00", "01", "10", "11"]
    again = built(path, unit="GHz", labels=list(m.labels), initial=None, target={"gate": "cz", "on": on})
    assert again.drift.toarray() == pytest.approx(m.drift.toarray(), abs=1e-13)
    assert [control.name for control in again.controls] == ["im", "re"]
    assert again.controls[1].operator.toarray() == pytest.approx(m.controls[0].operator.toarray(), abs=1e-14)
    assert [jump.name for jump in again.jumps] == [jump.name for jump in m.jumps]
    assert again.jumps[0].operator.toarray() == pytest.approx(m.jumps[0].operator.toarray(), abs=1e-16)
    assert np.array_equal(again.goal.columns, m.goal.columns)
    assert again.states == pytest.approx(m.states)
    assert again.seconds == 1e-9


def test_named_states_observables_and_a_gate_of_the_same_file(tmp_path):
    h, number = hermitian(4), np.diag([0.0, 1.0, 1.0, 2.0])
    plus = np.array([1, 1j, 0, 0]) / np.sqrt(2)
    minus = np.array([1, -1j, 0, 0]) / np.sqrt(2)
    arrays = {"H0": h, "controls/u": hermitian(4), "controls/v": hermitian(4), "observables/n": number}
    path = written(
        tmp_path / "s.h5", arrays | {"states/plus": plus, "states/minus": minus, "gate": np.diag([1, 1j])}
    )
    m = built(path, initial="plus", target={"observable": "n^2 - H0"}, controls={"v": {"power": 2}, "u": {}})
    assert m.states[:, 0] == pytest.approx(plus)
    assert m.goal.operator.toarray() == pytest.approx(number @ number - h)
    assert [(control.name, control.power) for control in m.controls] == [("v", 2), ("u", 1)]
    gate = {"gate": "s.h5", "on": ["plus", "minus"], "free": ["z"]}
    m = built(path, initial=None, target=gate)
    assert m.goal.unitary == pytest.approx(np.diag([1, 1j]))
    assert m.goal.generators.tolist() == [[0], [1]]
    assert m.goal.columns == pytest.approx(np.array([plus, minus]).T)
    energies, vectors = np.linalg.eigh(h)
    assert abs(vectors[:, 2].conj() @ built(path, initial=2).states[:, 0]) == pytest.approx(1.0)
    thermal = built(path, initial={"thermal": 2.0, "below": 0})
    weights = np.exp(-energies / 2.0)
    assert thermal.weights == pytest.approx(weights / weights.sum())


def test_density_matrices_as_start_and_goal(tmp_path):
    a = RNG.normal(size=(3, 2)) + 1j * RNG.normal(size=(3, 2))
    rho = a @ a.conj().T / np.linalg.norm(a) ** 2
    np.savez(tmp_path / "rho.npz", rho=rho)
    path = written(tmp_path / "s.npz", {"H0": hermitian(3), "controls/u": hermitian(3)})
    m = built(path, initial={"file": "rho.npz"}, target={"density": "rho.npz"})
    assert m.states.shape == (3, 2)
    assert (m.states * m.weights) @ m.states.conj().T == pytest.approx(rho, abs=1e-14)
    assert m.goal.density == pytest.approx(rho, abs=1e-15)
    np.save(tmp_path / "psi.npy", np.array([0.6, 0.8j, 0]))
    assert built(path, initial={"file": "psi.npy"}).states[:, 0] == pytest.approx([0.6, 0.8j, 0])


H, GOOD = hermitian(3), {"controls/u": np.diag([1.0, 2.0, 3.0])}
NAN = np.diag([1.0, np.nan, 1.0])
SKEW = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]])
CSR = rows_compressed("H0", H)
REFUSED = [
    (GOOD, "no dataset H0; the file holds controls/u"),
    ({"H0": H}, "no dataset controls/NAME"),
    ({"H0": H[:2], **GOOD}, "H0 has the shape (2, 3); expected a square matrix"),
    ({"H0": H, "controls/u": np.eye(2)}, "controls/u has the shape (2, 2), H0 has (3, 3)"),
    ({"H0": NAN, **GOOD}, "H0 is not finite at (1,1)"),
    ({"H0": H, "jumps/a": NAN, **GOOD}, "jumps/a is not finite at (1,1)"),
    ({"H0": np.diag([1.0, 0.0, np.inf]), **GOOD}, "H0 is not finite at (2,2)"),
    ({"H0": np.diag([0.0, 1e180, 1.0]), **GOOD}, "H0 is 1e+180 at (1,1), beyond 1e+100"),
    ({"H0": H, "controls/u": 1e300 * (SKEW + SKEW.T)}, "controls/u is 1e+300 at (0,1), beyond 1e+100"),
    ({"H0": H, "jumps/a": -3e150j * SKEW, **GOOD}, "jumps/a is 3e+150 at (0,1), beyond 1e+100"),
    ({"H0": H + 1e-6 * SKEW, **GOOD}, "H0 is not Hermitian: |A - A+| = 1e-06 at (0,1)"),
    ({"H0": H, "controls/u": SKEW}, "controls/u is not Hermitian: |A - A+| = 1 at (0,1)"),
    ({"H0": H, "controls/u": np.zeros((3, 3))}, "controls/u is 0"),
    ({"H0": H, "control/u": np.eye(3)}, "unknown dataset 'control/u'; did you mean 'controls'?"),
    (
        {"H0": H, "states/a": np.array([1.0, 1.0, 0.0]), **GOOD},
        "states/a is no unit vector: its norm is 1.41421356",
    ),
    ({"H0": H, "states/a": np.array([1.0, 0.0]), **GOOD}, "states/a has the shape (2,), expected (3,)"),
    ({"H0": np.array([["a", "b"]]), **GOOD}, "not numbers"),
    ({k: v for k, v in CSR.items() if k != "H0/shape"} | GOOD, "H0 has an indptr but no shape"),
    (CSR | {"H0/indices": CSR["H0/indices"] + 1} | GOOD, "H0 is no CSR matrix"),
    (CSR | {"H0/indptr": CSR["H0/indptr"][:-1]} | GOOD, "H0 is no CSR matrix"),
    (CSR | {"H0/indices": CSR["H0/indices"] * 1.0} | GOOD, "H0/indices must be one row of whole numbers"),
]


@pytest.mark.parametrize(("arrays", "text"), REFUSED)
def test_refused_files(tmp_path, arrays, text):
    with pytest.raises(InvalidSystem) as error:
        built(written(tmp_path / "s.npz", arrays))
    assert error.value.key == "system.file"
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("keys", "key", "text"),
    [
        ({"labels": ["a", "b"]}, "system.labels", "2 labels for the 3 states"),
        ({"labels": ["a", "b", "a"]}, "system.labels", "once"),
        ({"controls": {"v": {}}}, "system.controls.v", "no controls/v; controls: u"),
        ({"initial": "5"}, "system.initial", "unknown state '5'"),
        ({"initial": {"file": "s.npz"}}, "system.initial.file", "holds no array rho or psi; it holds H0, "),
        ({"target": {"gate": "x", "on": ["0", "0"]}, "initial": None}, "system.target.on", "not orthogonal"),
        ({"target": {"gate": "x", "on": ["0", "1"]}}, "system.initial", "leave initial out"),
        (
            {"target": {"gate": "x"}, "initial": None},
            "system.target.gate",
            "2 x 2 but the logical space of 0, 1, 2 is 3",
        ),
        ({"target": {"gate": "g.npy"}, "initial": None}, "system.target.gate", "gate is not unitary by 1.25"),
        ({"target": {"gate": "u.npy", "free": ["z"]}, "initial": None}, "system.target.free", "not 3"),
        ({"target": {"density": "g.npy"}}, "system.target.density", "the trace of rho is 3.5"),
        ({"target": {"observable": "jumps.a"}}, "system.target.observable", "not Hermitian"),
    ],
)
def test_refused_keys(tmp_path, keys, key, text):
    path = written(tmp_path / "s.npz", {"H0": H, "jumps/a": SKEW} | GOOD)
    np.save(tmp_path / "g.npy", np.diag([1.0, 1.0, 1.5]) + 0.0)
    np.save(tmp_path / "u.npy", np.eye(3))
    with pytest.raises(InvalidSystem) as error:
        built(path, **keys)
    assert error.value.key == key
    assert text in str(error.value)


def test_a_file_that_is_none(tmp_path):
    (tmp_path / "s.h5").write_bytes(b"nothing")
    with pytest.raises(FileError):
        built(tmp_path / "s.h5")
    with pytest.raises(ValueError, match="not found"):
        built(Path(tmp_path) / "absent.h5")


@pytest.mark.parametrize("seed", range(4))
def test_blocks_are_the_connected_components_of_a_graph(seed):
    generator = np.random.default_rng(seed)
    # about as many blocks as states, some; and a chain whose states are in any order
    scattered = csr_array(random_array((60, 60), density=0.02 * seed / 3, rng=generator))
    order = generator.permutation(500)
    chain = csr_array((np.ones(499), (order[:-1], order[1:])), shape=(500, 500))
    for matrix in (scattered, chain):
        count, blocks = connected_components(matrix, directed=False)
        found = connected(matrix)
        assert found[0] == count
        np.testing.assert_array_equal(found[1], blocks)


class Operator:
    """What QuTiP's operators offer: their matrix."""

    def __init__(self, matrix):
        self.matrix = matrix

    def full(self):
        return self.matrix


def test_arrays_in_the_deck_are_the_system(tmp_path):
    """H0, controls and a jump as arrays, a start and first values as arrays, no goal: rho(T) by dense exponentials.

    The deck that the results keep runs again with the same numbers.
    """
    h, x, jump = hermitian(3), hermitian(3), 0.3 * hermitian(3)
    psi = RNG.normal(size=3) + 1j * RNG.normal(size=3)
    psi /= np.linalg.norm(psi)
    pulse = RNG.normal(size=8)
    system = {
        "type": "matrices",
        "H0": Operator(h),
        "controls": {"x": csr_array(x)},
        "jumps": [{"operator": jump / 0.6, "rate": 0.36}],
        "initial": psi,
    }
    deck = {"method": "qoc", "system": system, "time": {"T": 1.2, "slots": 8}, "optimizer": "none"}
    deck |= {
        "control": {"name": "x", "guess": pulse},
        "output": {"figures": "none"},
        "observe": {"h^2": "H0^2"},
    }
    results = qsim.run(deck)
    means = [(h @ h @ np.outer(psi, psi.conj())).trace().real]
    one, rho = np.eye(3), np.outer(psi, psi.conj()).ravel()
    loss = jump.conj().T @ jump
    open_part = np.kron(jump, jump.conj()) - 0.5 * (np.kron(loss, one) + np.kron(one, loss.T))
    for u in pulse:
        g = h + u * x
        rho = expm(0.15 * (open_part - 1j * (np.kron(g, one) - np.kron(one, g.T)))) @ rho
        means.append((h @ h @ rho.reshape(3, 3)).trace().real)
    assert results["observed/h^2"] == pytest.approx(means, abs=1e-11)
    assert results["time_observed"] == pytest.approx(0.15 * np.arange(9))
    assert results["rho_final"] == pytest.approx(rho.reshape(3, 3), abs=1e-12)
    assert np.array_equal(qsim.run(dict(results.deck))["rho_final"], results["rho_final"])


@pytest.mark.parametrize(
    ("change", "key", "text"),
    [
        ({"H0": [[0.0, 1.0], [1.0]]}, "system.H0", "several lengths"),
        ({"controls": {"x": [[0.0, 1.0], [2.0, 0.0]]}}, "system", "not Hermitian"),
        ({"jumps": [[[1.0]]]}, "system.jumps.0.matrix", "shape is not that of H0"),
        ({"initial": {"psi": [1.0, 1.0]}}, "system.initial.psi", "no unit vector"),
        (
            {"H0": [[0.0, 1.0], [1.0, 0.0]], "jumps": [{"lifetimes": {"1": 2.0}}]},
            "system.jumps.0",
            "are no levels of H0",
        ),
        ({"H0": None}, "system.file", "give a file, or H0"),
    ],
)
def test_arrays_that_make_no_system_are_refused(change, key, text):
    block = {"type": "matrices", "H0": [[0.0, 0.0], [0.0, 1.0]], "controls": {"x": [[0.0, 1.0], [1.0, 0.0]]}}
    with pytest.raises(InvalidSystem, match=text) as found:
        model(MatricesSystem.model_validate(block | {"initial": "0", "target": "1"} | change))
    assert key in found.value.key


def test_gates_and_densities_are_given_as_arrays():
    block = {"type": "matrices", "H0": np.zeros((3, 3)).tolist(), "controls": {"x": hermitian(3).tolist()}}
    turn = np.linalg.qr(hermitian(2))[0]
    rho = hermitian(3) @ hermitian(3)
    rho = rho @ rho.conj().T / np.linalg.norm(rho) ** 2

    def goal(**given):
        return model(MatricesSystem.model_validate(block | given)).goal

    assert np.array_equal(goal(target={"gate": turn.tolist(), "on": ["0", "2"]}).unitary, turn)
    found = goal(initial="0", target={"density": rho.tolist()}).density
    assert found == pytest.approx(rho, abs=1e-12)
    for gate, text in ((np.eye(2, 3), "square matrix"), (np.eye(2) * 2.0, "not unitary")):
        with pytest.raises(InvalidSystem, match=text):
            goal(target={"gate": gate.tolist(), "on": ["0", "2"]})
