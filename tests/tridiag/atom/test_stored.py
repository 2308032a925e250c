"""Initial states from files: a run continued in another deck, other grids, other axes, and files that cannot be used."""

import h5py
import numpy as np
import pytest

from qsim.core.errors import DeckError, FileError

GRID = {"rmax": 50, "dr": 0.25, "l_max": 6, "map": {"dr0": 0.05, "width": 30}}
TIME = {"dt": 0.1, "outputs": 2, "verify": False}
PUMP = {"shape": "sin2", "omega": 0.6, "E0": 0.08, "cycles": 2}
PROBE = {"shape": "sin2", "omega": 0.4, "E0": 0.05, "cycles": 2}
END = 4.0 * np.pi / 0.6


def deck(pulses, gauge="length", polarization="linear", **changes):
    laser = {"gauge": gauge, "polarization": polarization, "pulses": pulses}
    return {"task": "atom", "atom": "hydrogen", "grid": GRID, "laser": laser, "time": TIME} | changes


def stored(tridiag, name, r, channels, u, **more):
    with h5py.File(tridiag.folder / name, "w") as file:
        for key, value in {"r": r, "channels": channels, "u_channels": u, **more}.items():
            file[key] = value
    return {"file": name}


@pytest.mark.parametrize("gauge", ["length", "velocity"])
@pytest.mark.parametrize("polarization", ["linear", "circular"])
def test_pump_and_probe_in_two_decks(tridiag, gauge, polarization):
    """A second deck that starts from the file of the first ends where one deck with both pulses does."""
    steps = {"time": {"steps": 200, "outputs": 1, "verify": False}}
    tridiag.execute("pump", **deck([PUMP], gauge, polarization, **steps))
    two = tridiag.run(**deck([PROBE], gauge, polarization, initial={"file": "pump.h5"}, **steps))
    # steps of the same lengths as those of the two decks, one pulse after the other
    one = tridiag.build(**deck([PUMP], gauge, polarization, **steps))
    p = one.propagator(one.lattice, 6, None, one.setting.dt)
    p.advance(200)
    other = tridiag.build(**deck([PROBE], gauge, polarization, **steps))
    q = other.propagator(other.lattice, 6, p.phi, other.setting.dt)
    q.advance(200)
    # half steps of the even pairs in velocity gauge are merged within a call, in Cayley form: equal to third order in dt
    near = 2e-5 if gauge == "velocity" and polarization == "linear" else 1e-12
    assert np.abs(two.phi - q.phi).max() < near
    assert two.final("norm") == pytest.approx(1.0, abs=1e-12)
    assert two.problem.ip == pytest.approx(0.5, abs=1e-3)


def test_delays_are_two_decks(tridiag):
    """The second pulse of one deck begins where the second deck begins."""
    both = tridiag.run(
        **deck([PUMP, PROBE | {"delay": END}], time={"dt": 0.02, "outputs": 1, "verify": False})
    )
    tridiag.execute("pump", **deck([PUMP], time={"dt": 0.02, "outputs": 1, "verify": False}))
    two = tridiag.run(
        **deck([PROBE], initial={"file": "pump.h5"}, time={"dt": 0.02, "outputs": 1, "verify": False})
    )
    assert two.frames["populations"][-1] == pytest.approx(both.frames["populations"][-1], abs=2e-7)
    assert two.frames["dipole"][-1] == pytest.approx(both.frames["dipole"][-1], abs=1e-5)


def test_a_state_in_velocity_gauge_with_a_momentum(tridiag):
    """A that is left at the end of the first run is taken out: the second begins with A = 0, in either gauge."""
    field, time = (
        [{"shape": "static", "E0": 0.03}],
        {"dt": 0.02, "t_final": 8.0, "outputs": 1, "verify": False},
    )
    whole = tridiag.run(**deck(field, time=time | {"t_final": 16.0}))
    tridiag.execute("first", **deck(field, "velocity", time=time))
    for gauge, near in (("length", 2e-5), ("velocity", 4e-5)):
        found = tridiag.run(**deck(field, gauge, initial={"type": "file", "file": "first.h5"}, time=time))
        assert found.populations["population_1s"] == pytest.approx(
            whole.populations["population_1s"], abs=near
        )
        assert found.frames["dipole"][-1] == pytest.approx(whole.frames["dipole"][-1], abs=1e-3)
    assert abs(whole.frames["dipole"][-1, 0]) > 0.05


def test_another_grid(tridiag):
    """A state is interpolated to other points, its norm and populations kept; what was absorbed stays missing."""
    absorber = {"type": "cap", "width": 15, "strength": 0.05}
    tridiag.execute("pump", **deck([PUMP | {"cycles": 6}], absorber=absorber))
    found = []
    for grid in (GRID, GRID | {"rmax": 70, "dr": 0.2, "l_max": 8, "map": {"dr0": 0.04, "width": 40}}):
        problem = tridiag.build(**deck([PROBE], initial={"file": "pump.h5"}, grid=grid))
        phi = problem.state(problem.lattice, problem.frame.lanes(grid["l_max"]))
        near = problem.lattice.grid.r < 8
        found.append([np.sum(np.abs(phi) ** 2), *np.sum(np.abs(phi[:3, near]) ** 2, axis=1)])
        assert abs(problem.levels[0].phi @ phi[0]) ** 2 == pytest.approx(0.82, abs=0.05)
    assert found[0][0] < 1.0 - 1e-6
    assert found[1][0] == pytest.approx(found[0][0], abs=2e-6)
    full = tridiag.build(**deck([PROBE], initial={"file": "pump.h5", "normalise": True}))
    assert np.sum(np.abs(full.state(full.lattice, full.frame.lanes(6))) ** 2) == pytest.approx(1.0, abs=1e-12)


def test_automatic_grid_holds_the_state(tridiag):
    tridiag.execute("pump", **deck([PUMP]))
    auto = tridiag.build(**deck([PROBE | {"E0": 1e-4}], initial={"file": "pump.h5"}, grid={}))
    phi = auto.state(auto.lattice, auto.frame.lanes(auto.setting.lmax))
    assert np.sum(np.abs(phi) ** 2) == pytest.approx(1.0, abs=1e-6)
    assert auto.setting.grows


def test_other_axes(tridiag):
    """|1 0> about x is (|1 -1> - |1 1>) / sqrt(2) about z: a file whose axes are turned starts the same run."""
    made = tridiag.build(**deck([PROBE], polarization="circular", initial="2p"))
    r, u = made.lattice.grid.r, made.start[0].phi / np.sqrt(made.lattice.grid.slope)
    turned = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    block = stored(tridiag, "p.h5", r, [[1, 0]], u[None, :], axes=turned)
    one = tridiag.run(**deck([PROBE], polarization="circular", initial=block))
    weights = [{"n": 2, "l": 1, "m": -1}, {"n": 2, "l": 1, "m": 1, "weight": -1}]
    two = tridiag.run(**deck([PROBE], polarization="circular", initial=weights))
    assert abs(np.vdot(one.phi, two.phi)) == pytest.approx(1.0, abs=1e-10)
    assert one.frames["dipole"] == pytest.approx(two.frames["dipole"], abs=1e-10)
    # along its own axis it has one m: the cheap run
    along = tridiag.build(**deck([PROBE], polarization="x", initial=block))
    assert not along.frame.planar
    assert along.frame.m == 0


def test_two_m_in_a_field_along_z(tridiag):
    """A coherent sum of two m is propagated in the plane: populations are the mean, and <x> beats."""
    both = [{"n": 2, "l": 1, "m": 0}, {"n": 2, "l": 1, "m": 1, "weight": "1i"}]
    found = tridiag.run(**deck([PUMP], initial=both, grid=GRID | {"l_max": 4}))
    assert found.problem.frame.planar
    parts = [
        tridiag.run(**deck([PUMP], initial={"n": 2, "l": 1, "m": m}, grid=GRID | {"l_max": 4}))
        for m in (0, 1)
    ]
    for name in ("2p", "1s"):
        mean = 0.5 * sum(one.populations.get(f"population_{name}", 0.0) for one in parts)
        assert found.populations[f"population_{name}"] == pytest.approx(mean, abs=1e-4)


def _good(tridiag):
    made = tridiag.build(**deck([PROBE]))
    r = made.lattice.grid.r
    return r, np.array([[0, 0]]), (made.start[0].phi / np.sqrt(made.lattice.grid.slope))[None, :]


def test_arrays_of_your_own(tridiag):
    """The documented layout, real and imaginary part apart, starts the run that the level starts."""
    r, channels, u = _good(tridiag)
    block = stored(tridiag, "own.h5", r, channels, np.stack([u, 0 * u], axis=-1))
    one, two = tridiag.run(**deck([PROBE], initial=block)), tridiag.run(**deck([PROBE]))
    assert np.abs(one.phi - two.phi).max() < 1e-12


BAD = {
    "no state": (lambda r, c, u: {"r": r}, "no state of task: atom; expected r, channels and u_channels"),
    "shape": (lambda r, c, u: {"r": r, "channels": c, "u_channels": u[:, 1:]}, "u has shape"),
    "falling": (lambda r, c, u: {"r": r[::-1].copy(), "channels": c, "u_channels": u}, "radii that rise"),
    "m above l": (lambda r, c, u: {"r": r, "channels": [[0, 1]], "u_channels": u}, "pairs of l and m"),
    "axes": (
        lambda r, c, u: {"r": r, "channels": c, "u_channels": u, "axes": np.ones((3, 3))},
        "orthogonal unit vectors",
    ),
    "kick": (
        lambda r, c, u: {"r": r, "channels": c, "u_channels": u, "kick": [0.0, 0.1, 0.1]},
        "a state in velocity gauge needs",
    ),
    "not finite": (lambda r, c, u: {"r": r, "channels": c, "u_channels": u * np.nan}, "u_channels"),
    "nothing": (lambda r, c, u: {"r": r, "channels": c, "u_channels": 0.0 * u}, "vanishes"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_hold_no_state(tridiag, name):
    arrays, message = BAD[name]
    with h5py.File(tridiag.folder / "bad.h5", "w") as file:
        for key, value in arrays(*_good(tridiag)).items():
            file[key] = value
    with pytest.raises(FileError, match=message):
        tridiag.load(**deck([PROBE], initial={"file": "bad.h5"}))


def test_states_that_do_not_fit(tridiag):
    r, channels, u = _good(tridiag)
    stored(tridiag, "loud.h5", r, channels, 2.0 * u)
    with pytest.raises(DeckError, match=r"initial\.normalise: .* norm 4.*take normalise: true"):
        tridiag.load(**deck([PROBE], initial={"file": "loud.h5"}))
    stored(tridiag, "wide.h5", 4.0 * r, channels, u * np.exp(r[None, :] - 0.1 * r[None, :]))
    with pytest.raises(DeckError, match=r"grid\.rmax: .*outside of the box of 50.* rmax of at least \d+"):
        tridiag.load(**deck([PROBE], initial={"file": "wide.h5", "normalise": True}))
    stored(tridiag, "high.h5", r, [[0, 0], [9, 0]], np.concatenate([u, 0.1 * u]))
    with pytest.raises(
        DeckError, match=r"grid\.l_max: .*0\.0099 of its norm above l = 6; it needs lmax of at least 9"
    ):
        tridiag.load(**deck([PROBE], initial={"file": "high.h5", "normalise": True}))
    with pytest.raises(DeckError, match=r"initial\.file"):
        tridiag.load(**deck([PROBE], initial={"file": "none.h5"}))
    with pytest.raises(DeckError, match=r"initial\.normalize: unknown key.*normalise"):
        tridiag.load(**deck([PROBE], initial={"file": "loud.h5", "normalize": True}))


def test_a_momentum_in_the_plane(tridiag):
    """The same for a field along x that a p state of m = 1 sees in the plane: A along x is taken out."""
    field, time = (
        [{"shape": "static", "E0": 0.004}],
        {"dt": 0.02, "t_final": 6.0, "outputs": 1, "verify": False},
    )
    start, grid = {"n": 2, "l": 1, "m": 1}, GRID | {"l_max": 4}
    whole = tridiag.run(
        **deck(field, polarization="x", initial=start, grid=grid, time=time | {"t_final": 12.0})
    )
    tridiag.execute("first", **deck(field, "velocity", "x", initial=start, grid=grid, time=time))
    with h5py.File(tridiag.folder / "first.h5") as file:
        assert file["results/kick"][0] == pytest.approx(-0.024)
    two = tridiag.run(**deck(field, "length", "x", initial={"file": "first.h5"}, grid=grid, time=time))
    assert two.populations["population_2p"] == pytest.approx(whole.populations["population_2p"], abs=5e-5)
    assert two.frames["dipole"][-1] == pytest.approx(whole.frames["dipole"][-1], abs=3e-3)
    assert abs(whole.frames["dipole"][-1, 0]) > 0.1
