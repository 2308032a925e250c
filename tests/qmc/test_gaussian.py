"""Gaussian orbitals and pseudopotentials: integrals against Hartree-Fock components, cusps, caches, files, mistakes."""

import builtins
import json
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qsim.core.errors import FileError, InvalidInput, NumericsError
from qsim.qmc.system import radial
from qsim.qmc.system.pseudopotentials import from_ecp, read_xml
from qsim.qmc.system.quadrature import random_rotation, rule
from qsim.qmc.system.radial import KNOTS, Terms, evaluate
from qsim.qmc.wavefunction.harmonics import solid_harmonics
from qsim.qmc.wavefunction.molecules.cusp import Correction, fit_correction, local_energy
from qsim.qmc.wavefunction.molecules.gaussian import PyscfMissing
from qsim.qmc.wavefunction.notes import Notes
from tests.qmc.trials import trial_function

DATA = Path(__file__).resolve().parents[1] / "reference_data"
ORBITALS = DATA / "qmc_orbitals"  # made by qsim with PySCF 2.14
REFERENCES = {
    entry["id"]: entry for entry in json.loads((DATA / "qmc.json").read_text(encoding="utf-8"))["references"]
}
WATER = [["O", 0, 0, 0], ["H", 0, -1.4305223, 1.1092692], ["H", 0, 1.4305223, 1.1092692]]
CCECP = {"O": "ccecp", "H": "ccecp"}
# ccECP of carbon, Bennett et al., J. Chem. Phys. 147, 224106 (2017)
CARBON = (
    2,
    [
        (-1, [[], [[14.43502, 4.0]], [[7.38188, -25.81955]], [[8.39889, 57.74008]]]),
        (0, [[], [], [[7.76079, 52.13345]]]),
    ],
)

needs_pyscf = pytest.mark.skipif(find_spec("pyscf") is None, reason="PySCF is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pyscf")


def water(**keys):
    orbitals = {
        "source": "pyscf",
        "method": "rhf",
        "basis": "ccecp-ccpvtz",
        "cache": "h2o_ccecp.h5",
    } | keys.pop("orbitals", {})
    return trial_function(
        {"atoms": WATER, "pseudopotentials": CCECP} if "system" not in keys else keys.pop("system"),
        orbitals,
        {
            "J1": {"type": "bspline", "rcut": 5.0, "size": 4},
            "J2": {"type": "bspline", "rcut": 5.0, "size": 4},
        },
        folder=keys.pop("folder", ORBITALS),
        **keys,
    )


def helium(**keys):
    return trial_function(
        {"atoms": [["He", 0, 0, 0]]},
        dict(source="pyscf", basis="cc-pvtz", cache="he.h5", **keys),
        folder=ORBITALS,
    )


def carbon():
    return trial_function(
        {"atoms": [["C", 0, 0, 0]], "spin": 2, "pseudopotentials": {"C": "ccecp"}},
        {"source": "pyscf", "method": "uhf", "basis": "ccecp-ccpvtz", "cache": "c_ccecp.h5"},
        folder=ORBITALS,
    )


def directions(n_theta, n_phi):
    x, w = np.polynomial.legendre.leggauss(n_theta)
    phi = 2 * np.pi * np.arange(n_phi) / n_phi
    s = np.sqrt(1 - x * x)
    points = np.stack([np.outer(s, np.cos(phi)), np.outer(s, np.sin(phi)), np.outer(x, np.ones(n_phi))], -1)
    return points.reshape(-1, 3), np.repeat(w * 2 * np.pi / n_phi, n_phi)


def molecular_grid(centres, radial_points=40, n_theta=16, n_phi=16):
    """Becke's fuzzy cells: points (n, 3) and weights (n,)."""
    x, w = np.polynomial.legendre.leggauss(radial_points)
    r, dr = (1 + x) / (1 - x), 2 / (1 - x) ** 2 * w
    u, du = directions(n_theta, n_phi)
    around = (r[:, None, None] * u).reshape(-1, 3)
    volume = np.outer(r * r * dr, du).ravel()
    all_points, all_weights = [], []
    for a in range(len(centres)):
        points = centres[a] + around
        distance = np.linalg.norm(points[:, None] - centres, axis=-1)
        cells = np.ones_like(distance)
        for i in range(len(centres)):
            for j in range(len(centres)):
                if i != j:
                    mu = (distance[:, i] - distance[:, j]) / np.linalg.norm(centres[i] - centres[j])
                    for _ in range(3):
                        mu = 1.5 * mu - 0.5 * mu**3
                    cells[:, i] *= 0.5 * (1 - mu)
        all_points.append(points)
        all_weights.append(volume * cells[:, a] / cells.sum(1))
    return np.concatenate(all_points), np.concatenate(all_weights)


def one_body(w):
    """Return overlap matrices, and kinetic, local and nonlocal energies of the determinants by numerical integration."""
    points, weights = molecular_grid(w.system.positions)
    tables = w.hamiltonian_tables()
    potential = np.zeros(len(points))
    for a, p in enumerate(tables.potential):
        r = np.linalg.norm(points - w.system.positions[a], axis=1)
        potential += ((evaluate(tables.local[p], r).value if p >= 0 else 0.0) - w.system.charges[a]) / r
    overlaps, kinetic, local, nonlocal_ = [], 0.0, 0.0, 0.0
    for spin, count in enumerate((w.n_up, w.n_dn)):
        rows = w.orbitals.rows(points, spin)[:, :, :count]
        overlaps.append((rows[:, 0] * weights[:, None]).T @ rows[:, 0])
        kinetic -= 0.5 * float((weights[:, None] * rows[:, 0] * rows[:, 4]).sum())
        local += float((weights[:, None] * rows[:, 0] ** 2 * potential[:, None]).sum())
        nonlocal_ += _projected(w, tables, spin, count)
    return overlaps, kinetic, local, nonlocal_


def _projected(w, tables, spin, count):
    """Return the sum over orbitals and projectors of the integrals of r^2 (V_l - V_loc) <phi | lm>^2."""
    total = 0.0
    u, du = directions(14, 16)
    x, dx = np.polynomial.legendre.leggauss(30)
    for a, p in enumerate(tables.potential):
        if p < 0 or tables.cutoff[p] == 0.0:
            continue
        r = 0.5 * tables.cutoff[p] * (1 + x)
        points = (w.system.positions[a] + r[:, None, None] * u).reshape(-1, 3)
        values = w.orbitals.rows(points, spin)[:, 0, :count].reshape(len(r), len(u), count)
        for ell in range(tables.channels[p]):
            Y = solid_harmonics(ell, u)[0]
            moments = np.einsum("q,qm,rqo->rmo", du, Y, values)
            V = evaluate(tables.delta[p, ell], r).value
            total += float((0.5 * tables.cutoff[p] * dx * r * r * V) @ (moments**2).sum((1, 2)))
    return total


# --- imported orbitals ----------------------------------------------------------------------------


def test_water_has_its_hartree_fock_components():
    w = water()
    reference = REFERENCES["HF_H2O_ccecp"]
    parts = reference["inputs"]["components"]
    overlaps, kinetic, local, nonlocal_ = one_body(w)
    assert_allclose(overlaps[0], np.eye(4), atol=1e-4)
    assert kinetic == pytest.approx(parts["kinetic"], abs=5e-4)
    assert local == pytest.approx(parts["localecp"], abs=2e-3)
    assert nonlocal_ == pytest.approx(parts["nonlocalecp"], abs=1e-4)
    assert w.ion_ion == pytest.approx(parts["ionion"], abs=1e-9)
    assert w.orbitals.about["energy"] == pytest.approx(reference["value"], abs=1e-7)
    assert w.orbitals.about["determinant_energy"] == pytest.approx(reference["value"], abs=1e-7)
    assert (w.n_up, w.n_dn, w.system.charges.tolist()) == (4, 4, [6.0, 1.0, 1.0])


def test_carbon_is_spin_polarised():
    w = carbon()
    reference = REFERENCES["HF_C_ccecp_triplet"]
    parts = reference["inputs"]["components"]
    overlaps, kinetic, local, nonlocal_ = one_body(w)
    assert_allclose(overlaps[0], np.eye(3), atol=1e-6)
    assert_allclose(overlaps[1], np.eye(1), atol=1e-6)
    assert kinetic == pytest.approx(parts["kinetic"], abs=1e-5)
    assert local == pytest.approx(parts["localecp"], abs=1e-5)
    assert nonlocal_ == pytest.approx(parts["nonlocalecp"], abs=1e-5)
    assert w.orbitals.about["energy"] == pytest.approx(reference["value"], abs=1e-7)


def test_derivatives_of_imported_orbitals():
    w = water()
    points = np.random.default_rng(1).normal(size=(6, 3)) * 1.5
    rows = w.orbitals.rows(points, 0)
    h = 1e-3
    laplacian = np.zeros((6, 4))
    for x in range(3):
        step = h * np.eye(3)[x]
        low2, low, high, high2 = (w.orbitals.rows(points + k * step, 0)[:, 0] for k in (-2, -1, 1, 2))
        assert_allclose(rows[:, 1 + x], (low2 - 8 * low + 8 * high - high2) / (12 * h), atol=1e-6)
        laplacian += (-low2 + 16 * low - 30 * rows[:, 0] + 16 * high - high2) / (12 * h * h)
    assert_allclose(rows[:, 4], laplacian, atol=1e-4)


@needs_pyscf
@pytest.mark.parametrize("name", ["HF_He", "HF_H2", "HF_LiH", "HF_H2O_ccecp", "HF_H", "HF_C_ccecp_triplet"])
def test_self_consistent_fields(name, tmp_path):
    reference = REFERENCES[name]
    inputs = reference["inputs"]
    atoms = [[a, *map(float, xyz)] for a, *xyz in (line.split() for line in inputs["atom_bohr"].split("; "))]
    pseudopotentials = dict.fromkeys({a[0] for a in atoms}, "ccecp") if inputs["ecp"] else {}
    w = trial_function(
        {"atoms": atoms, "spin": inputs["spin"], "pseudopotentials": pseudopotentials},
        {
            "source": "pyscf",
            "method": inputs["method"].lower(),
            "basis": inputs["basis"],
            "energy": reference["value"],
            "energy_tolerance": 1e-6,
        },
    )
    assert w.orbitals.about["determinant_energy"] == pytest.approx(reference["value"], abs=1e-7)
    assert [w.n_up, w.n_dn] == inputs["nelec"]


@needs_pyscf
def test_density_functionals_have_another_determinant(tmp_path):
    block = {"source": "pyscf", "method": "rks", "basis": "ccecp-ccpvdz", "xc": "pbe", "cache": "o.h5"}
    notes = Notes()
    w = water(orbitals=block, folder=tmp_path, notes=notes)
    about = w.orbitals.about
    assert about["energy"] < REFERENCES["HF_H2O_ccecp"]["value"] - 0.1
    assert -16.933 < about["determinant_energy"] < -16.9
    assert notes.lines == [f"rks ccecp-ccpvdz: {about['energy']:.6f} hartree"]
    again = water(orbitals=block, folder=tmp_path, notes=notes)
    assert_allclose(again.orbitals.coefficients, w.orbitals.coefficients)
    assert notes.lines[1].endswith("o.h5")


# --- cache ----------------------------------------------------------------------------------------


def test_a_cache_needs_no_pyscf(monkeypatch):
    imported = builtins.__import__

    def refuse(name, *rest, **keys):
        if name.partition(".")[0] == "pyscf":
            raise ModuleNotFoundError("No module named 'pyscf'")
        return imported(name, *rest, **keys)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert water().n_up == 4
    with pytest.raises(PyscfMissing, match="need PySCF, which cannot be imported") as caught:
        helium_without_cache()
    assert re.search(r"pyscf\S*; or give a cache file", caught.value.hint)
    assert caught.value.exit_code == 4
    with pytest.raises(PyscfMissing):
        trial_function(
            {"atoms": [["C", 0, 0, 0]], "pseudopotentials": {"C": "lanl2dz"}},
            {"source": "sto", "shells": [{"n": 1, "l": 0, "zeta": 1.0}]},
        )


def helium_without_cache():
    return trial_function({"atoms": [["He", 0, 0, 0]]}, {"source": "pyscf", "basis": "cc-pvtz"})


def test_a_cache_of_another_calculation_is_refused(tmp_path):
    with pytest.raises(FileError, match=r"its basis is ccecp-ccpvtz, the deck's ccecp-ccpvdz"):
        water(orbitals={"basis": "ccecp-ccpvdz"})
    moved = [[*WATER[0][:3], 0.1], *WATER[1:]]
    with pytest.raises(FileError, match="another calculation: its atoms"):
        water(system={"atoms": moved, "pseudopotentials": CCECP})
    (tmp_path / "bad.h5").write_bytes(b"nothing")
    with pytest.raises(FileError, match="cannot be read"):
        water(orbitals={"cache": "bad.h5"}, folder=tmp_path)
    from qsim.core.results.hdf5 import save_datasets

    save_datasets(tmp_path / "other.h5", {"x": np.zeros(3)})
    with pytest.raises(FileError, match="not a file of orbitals of qsim"):
        water(orbitals={"cache": "other.h5"}, folder=tmp_path)
    shutil.copy(ORBITALS / "he.h5", tmp_path / "he.h5")
    with pytest.raises((FileError, PyscfMissing, InvalidInput)):
        water(orbitals={"cache": "he.h5"}, folder=tmp_path)


def test_energies_are_checked():
    assert water(orbitals={"energy": -16.9435}).n_up == 4
    with pytest.raises(
        NumericsError, match=r"gave -16.943531 hartree, the deck expects -16.940000 within 0.0001"
    ):
        water(orbitals={"energy": -16.94})


@pytest.mark.parametrize(
    ("orbitals", "key", "message"),
    [
        ({"cache": None, "basis": {}}, "wavefunction.orbitals.basis", "needs the name of a basis set"),
        (
            {"cache": None, "basis": "no-such-basis"},
            "wavefunction.orbitals.basis",
            "refuses the basis no-such-basis",
        ),
        ({"cache": None, "method": "rks"}, "wavefunction.orbitals.xc", "rks needs a functional"),
    ],
)
@needs_pyscf
def test_mistakes(orbitals, key, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        water(orbitals=orbitals)
    assert caught.value.key == key


@needs_pyscf
def test_open_shells_need_another_method():
    with pytest.raises(InvalidInput, match="a system of spin 1 needs uhf or rohf"):
        trial_function(
            {"atoms": [["H", 0, 0, 0]], "spin": 1}, {"source": "pyscf", "method": "rhf", "basis": "cc-pvdz"}
        )


@needs_pyscf
def test_unknown_pseudopotentials():
    with pytest.raises(InvalidInput, match="PySCF has no pseudopotential 'nonsense' of C") as caught:
        trial_function(
            {"atoms": [["C", 0, 0, 0]], "pseudopotentials": {"C": "nonsense"}},
            {"source": "pyscf", "basis": "cc-pvdz"},
        )
    assert caught.value.key == "system.pseudopotentials.C"


# --- cusps ----------------------------------------------------------------------------------------


def all_electron_water(**keys):
    return trial_function(
        {"atoms": WATER}, dict(source="pyscf", basis="cc-pvdz", cache="h2o.h5", **keys), folder=ORBITALS
    )


def test_correction_continues_to_second_order():
    chi = Terms.of([1.2, 0.4], 0, 0.0, [2.0, 0.4])
    c = fit_correction(chi, 2.0)
    assert isinstance(c, Correction)
    r = np.array([c.rc * (1 - 1e-7)])
    for a, b in zip(c.corrected(r), chi(r), strict=True):
        assert a[0] == pytest.approx(b[0], abs=1e-4)
    assert c.rc in KNOTS
    value, slope, _ = c.corrected(np.zeros(1))
    assert slope[0] / value[0] == pytest.approx(-2.0, abs=1e-12)
    assert not np.any(c(np.array([c.rc, 2 * c.rc])))


def test_helium_with_a_cusp():
    """The value at the nucleus comes close to the Hartree-Fock limit, 1.3409, and the local energy is smooth."""
    raw, corrected = helium(cusp=False), helium()
    origin = np.zeros((1, 3))
    assert raw.orbitals.rows(origin, 0, exact=True)[0, 0, 0] == pytest.approx(1.290, abs=2e-3)
    assert corrected.orbitals.rows(origin, 0, exact=True)[0, 0, 0] == pytest.approx(1.3409, rel=0.015)
    assert raw.orbitals.cusp(0, (1, 1)) == pytest.approx(0.0, abs=1e-9)
    assert corrected.orbitals.cusp(0, (1, 1)) == pytest.approx(2.0, abs=1e-9)
    shell = corrected.orbitals.shells[-1]
    r = np.linspace(0.01, 0.49, 40)
    energy = local_energy(shell.function.corrected(r), r, 2.0)
    assert np.ptp(energy) < 0.6
    assert np.ptp(local_energy(shell.function.chi(r), r, 2.0)) > 100.0
    # norm and energy change little: the determinant's energy is that of the self-consistent field within 0.3 mHa
    overlaps, kinetic, local, _ = one_body(corrected)
    _, before, attraction, _ = one_body(raw)
    assert overlaps[0][0, 0] == pytest.approx(1.0, abs=2e-3)
    per_electron = (kinetic + local) / 2 / overlaps[0][0, 0]
    assert per_electron == pytest.approx((before + attraction) / 2, abs=2e-3)


def test_cusps_of_a_molecule():
    raw, w = all_electron_water(cusp=False), all_electron_water()
    assert raw.orbitals.size < w.orbitals.size
    assert w.orbitals.coefficients.shape[0] == 2
    for atom, Z in enumerate((8.0, 1.0, 1.0)):
        assert raw.orbitals.cusp(atom, (5, 5)) == pytest.approx(0.0, abs=1e-9)
        assert w.orbitals.cusp(atom, (5, 5)) == pytest.approx(Z, rel=1e-3)
        # every orbital that matters there
        u, du = directions(6, 6)
        place = w.system.positions[atom]
        averages = [(du @ w.orbitals.rows(place + r * u, 0)[:, 0]) / (4 * np.pi) for r in (1e-4, 2e-4)]
        slope, value = (averages[1] - averages[0]) / 1e-4, averages[0]
        large = np.abs(value) > 1e-2 * np.abs(value).max()
        assert_allclose(slope[large] / value[large], -Z, rtol=2e-2)
    # outside, nothing has changed
    points = np.array([[0.0, 0.0, 2.3], [1.5, 0.0, 0.0]])
    # where symmetry makes an orbital zero, sums of coefficients of order 1 leave their rounding
    assert_allclose(w.orbitals.rows(points, 0), raw.orbitals.rows(points, 0), rtol=1e-12, atol=1e-15)
    reach = w.orbital_tables().reach
    assert reach.min() < 0.13


def test_local_energy_is_finite_at_a_nucleus():
    """With the cusp the local energy of an electron near oxygen is bounded, without it is -8/r."""
    raw, w = all_electron_water(cusp=False), all_electron_water()
    R = w.scatter(1, np.random.default_rng(3))[0]
    R[0] = [0.0, 1e-4, 0.0]
    assert raw.local_energy(R)["total"] < -70000
    assert abs(w.local_energy(R)["total"]) < 3000


def test_orbitals_with_a_node_at_the_nucleus_are_left_alone():
    assert fit_correction(Terms.of([1.0, -0.9999], 0, 0.0, [1.0, 0.9]), 6.0) is None


# --- pseudopotentials -----------------------------------------------------------------------------


def xml(
    path,
    *,
    potential=None,
    points=2001,
    rmax=10.0,
    units="hartree",
    form="r*V",
    grid="linear",
    header="",
    extra="",
    l_local=1,
    symbol="C",
):
    """Write a file like QMCPACK's from an analytic potential."""
    potential = potential or from_ecp("C", 6, CARBON)
    r = np.linspace(0, rmax, points) if grid == "linear" else np.geomspace(1e-4, rmax, points)
    scale = 1.0 if units == "hartree" else 2.0
    local = scale * (potential.local(r).value - potential.charge)
    s = local + scale * r * potential.delta[0](r).value
    if form == "V":
        local, s = local / r, s / r
    first = 0 if grid == "linear" else 1e-4
    element = f'<grid type="{grid}" units="bohr" ri="{first}" rf="{rmax}" npts="{points}"/>'
    channels = ""
    for name, values in (("s", s), ("p", local)):
        data = " ".join(f"{v:.16e}" for v in values)
        channels += f'<vps l="{name}" cutoff="{potential.cutoff}"><radfunc>{element}<data>{data}</data></radfunc></vps>'
    path.write_text(
        f'<?xml version="1.0"?><pseudo version="0.5"><header symbol="{symbol}" atomic-number="6" zval="4" {header}/>{element}'
        f'<semilocal units="{units}" format="{form}" npots-down="2" npots-up="0" l-local="{l_local}">'
        f"{channels}</semilocal>{extra}</pseudo>"
    )
    return path


def test_effective_core_potential():
    p = from_ecp("C", 6, CARBON, "ccecp")
    r = np.array([1e-3, 0.2, 0.7, 1.3])
    V = (
        4.0 / r * np.exp(-14.43502 * r**2)
        - 25.81955 * np.exp(-7.38188 * r**2)
        + 57.74008 * r * np.exp(-8.39889 * r**2)
        - 4.0 / r
    )
    assert_allclose(p.local(r).value, r * V + 4.0, rtol=1e-12, atol=1e-15)
    assert_allclose(p.delta[0](r).value, 52.13345 * np.exp(-7.76079 * r**2), rtol=1e-13)
    assert p.charge == 4.0
    assert abs(p.delta[0](np.array([p.cutoff])).value[0]) < 1e-5
    local, delta = p.tables(3)
    assert delta.shape == (3, radial.INTERVALS, 6)
    assert not delta[1:].any()
    inside = np.linspace(0, p.cutoff, 300)
    assert np.abs(evaluate(delta[0], inside).value - p.delta[0](inside).value).max() < 1e-7
    r = np.linspace(0, 20, 3000)
    assert np.abs(evaluate(local, r).value - p.local(r).value).max() < 1e-7


@pytest.mark.parametrize(
    "keys",
    [{}, {"units": "rydberg"}, {"form": "V", "grid": "log"}, {"grid": "log"}, {"points": 4001, "rmax": 6.0}],
    ids=["plain", "rydberg", "V", "log", "fine"],
)
def test_files_hold_the_potential(tmp_path, keys):
    p, exact = read_xml(xml(tmp_path / "C.xml", **keys), "C"), from_ecp("C", 6, CARBON)
    assert (p.charge, p.channels, p.cutoff) == (4.0, 1, exact.cutoff)
    local, delta = p.tables(1)
    r = np.concatenate([[0.0], np.linspace(1e-4, 1.4, 700)])
    assert np.abs(evaluate(local, r).value - exact.local(r).value).max() < 3e-6
    assert np.abs(evaluate(delta[0], r).value - exact.delta[0](r).value).max() < 1e-4
    assert not evaluate(local, np.array([p.local_range + 1.0])).value.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"symbol": "N"}, "is a pseudopotential of 'N', but the deck gives it to 'C'"),
        ({"l_local": 2}, "the local channel is l = 2, which the file does not have"),
        ({"extra": "<L2/>"}, "has an L2 operator"),
        ({"extra": "<vps_so/>"}, "spin-orbit"),
        ({"extra": "<local/>"}, "a separate local potential"),
        (('npots-down="2"', 'npots-down="3"'), "3 channels are announced, 2 are there"),
        (('l="s"', 'l="d"'), "channel s is missing"),
        (('l="s"', 'l="p"'), "channel p is given twice"),
        (('units="hartree"', 'units="eV"'), "units must be hartree or rydberg"),
        (('zval="4"', ""), "<header> needs the finite number zval, found nothing"),
        (('npts="2001"', 'npts="2000"'), "must have 2000 finite numbers, found 2001"),
        (("<data>", "<data>x "), "could not convert"),
        (("<semilocal", "<other"), "cannot be read: mismatched tag"),
        (("semilocal", "other"), "<semilocal> is missing"),
    ],
)
def test_broken_files(tmp_path, change, message):
    path = xml(tmp_path / "C.xml", **(change if isinstance(change, dict) else {}))
    if not isinstance(change, dict):
        path.write_text(path.read_text().replace(*change))
    with pytest.raises(FileError, match=message):
        read_xml(path, "C")


def test_missing_files_and_channels(tmp_path):
    with pytest.raises(FileError, match="does not exist"):
        read_xml(tmp_path / "none.xml", "C")
    with pytest.raises(FileError, match="has no local channel"):
        from_ecp("C", 6, (2, CARBON[1][1:]))


def test_nonlocal_energy_by_rule():
    """For a single s orbital the nonlocal energy is V_s(r), and any rule gives it for every rotation."""
    w = trial_function(
        {
            "atoms": [["C", 0, 0, 0]],
            "charge": 3,
            "spin": 1,
            "pseudopotentials": {"C": TMP / "C.xml"},
            "quadrature": 6,
        },
        {"source": "sto", "shells": [{"n": 1, "l": 0, "zeta": 1.2}]},
    )
    R = np.array([[0.3, 0.2, -0.5]])
    expected = from_ecp("C", 6, CARBON).delta[0](np.array([np.linalg.norm(R)])).value[0]
    for turn in (None, random_rotation(np.random.default_rng(2))):
        assert w.local_energy(R, turn)["nonlocal"] == pytest.approx(expected, abs=2e-4)
    assert w.local_energy(4 * R)["nonlocal"] == 0.0


def test_nonlocal_terms_of_a_molecule():
    """Averages over rotations agree between rules, and terms add up."""
    coarse, fine = (
        water(system={"atoms": WATER, "pseudopotentials": CCECP, "quadrature": points}) for points in (12, 50)
    )
    R = coarse.scatter(1, np.random.default_rng(8))[0]
    R[0] = [0.25, 0.1, 0.3]
    terms = fine.nonlocal_terms(R)
    assert {term.atom for term in terms} == {0}
    assert {0} <= {term.electron for term in terms}
    assert sum(term.amplitudes.sum() for term in terms) == pytest.approx(
        fine.local_energy(R)["nonlocal"], rel=1e-12
    )
    first = terms[0]
    log, sign = fine.log_psi(R)
    d = np.linalg.norm(R[0])
    V = evaluate(fine.hamiltonian_tables().delta[0, 0], np.array([d])).value[0]
    for q in (0, 17, 49):
        moved = R.copy()
        moved[first.electron] = first.points[q]
        after, other = fine.log_psi(moved)
        assert first.amplitudes[q] == pytest.approx(
            fine.rule.weights[q] * V * sign * other * np.exp(after - log), rel=1e-9
        )
    generator = np.random.default_rng(9)
    values = [
        coarse.local_energy(R, np.array([[random_rotation(generator)] * 3] * 8))["nonlocal"]
        for _ in range(25)
    ]
    assert np.mean(values) == pytest.approx(
        fine.local_energy(R)["nonlocal"], abs=4 * np.std(values) / 5 + 2e-3
    )
    assert rule(50).points.shape == (50, 3)


@pytest.fixture(autouse=True)
def _folder(tmp_path):
    global TMP
    TMP = tmp_path
    xml(tmp_path / "C.xml")
