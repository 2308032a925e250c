"""Plane waves that a cutoff leaves out: their kinetic energy against closed forms, and against PySCF where it is installed."""

from importlib.util import find_spec
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from scipy.special import gammainc

from qsim.core.errors import FileError, InvalidInput
from qsim.qmc.deck.wavefunction import Coulomb, System, Wavefunction
from qsim.qmc.system.cell import points_within
from qsim.qmc.wavefunction.crystals import pyscf
from qsim.qmc.wavefunction.crystals.bloch import Crystal, KPoint
from qsim.qmc.wavefunction.crystals.trial import build_crystal
from qsim.qmc.wavefunction.formats.eshdf import read_eshdf, write_eshdf
from qsim.qmc.wavefunction.notes import Notes

needs_pyscf = pytest.mark.skipif(find_spec("pyscf") is None, reason="PySCF is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pyscf")

BOX = np.diag([13.0, 14.0, 15.0])


def gaussian(a, kappa, cutoff):
    """Waves and coefficients of exp(-a r^2) in a wide box, from its Fourier transform, not normalised after the cut."""
    B = 2 * np.pi * np.linalg.inv(BOX).T
    g = points_within(B, np.sqrt(2 * cutoff) + 1.0)
    k2 = (((g + kappa) @ B) ** 2).sum(1)
    g, k2 = g[k2 <= 2 * cutoff], k2[k2 <= 2 * cutoff]
    c = (2 * np.pi / a) ** 0.75 * np.exp(-k2 / (4 * a)) / np.sqrt(np.linalg.det(BOX))
    return g, c[None].astype(complex)


def beyond(a, cutoff):
    """What the sphere leaves of the kinetic energy 3a/2: integrals of k^4 and k^2 exp(-k^2/2a), each up to the cutoff."""
    return 1.5 * a * (1 - gammainc(2.5, cutoff / a) / gammainc(1.5, cutoff / a))


def helium(path, a, cutoff, kappa=(0.0, 0.0, 0.0), kinetic=None):
    """Two electrons in a Gaussian, as a file of bands."""
    kappa = np.array(kappa)
    g, c = gaussian(a, kappa, cutoff)
    c = c / np.linalg.norm(c)
    known = np.array([[1.5 * a if kinetic is None else kinetic]])
    point = KPoint(kappa, g, np.array([[-1.0]]), c[None], known)
    write_eshdf(path, Crystal(BOX, ("He",), np.full((1, 3), 3.0), {"He": 2.0}, (point,)), (1, 1))


def built(path, kappa=(0.0, 0.0, 0.0)):
    system = System.model_validate({"cell": "periodic", "twist": list(kappa)})
    block = Wavefunction.model_validate({"orbitals": {"source": "eshdf", "file": str(path)}})
    notes = Notes()
    made = build_crystal(system, block, Coulomb(), potentials={}, folder=path.parent, notes=notes)
    return made.orbitals, notes


@pytest.mark.parametrize(("a", "cutoff", "kappa"), [(0.9, 6.5, (0, 0, 0)), (1.4, 11.3, (0.1, -0.3, 0.2))])
def test_what_a_file_leaves_of_the_kinetic_energy_is_told(tmp_path, a, cutoff, kappa):
    helium(tmp_path / "he.h5", a, cutoff, kappa)
    orbitals, notes = built(tmp_path / "he.h5", kappa)
    lost = orbitals.cutoff_error((1, 1)) / 2
    # a sphere of some thousand waves is a ball to a few per cent
    assert -lost == pytest.approx(beyond(a, cutoff), rel=0.08)
    (text,) = [text for text in notes.warnings if "plane waves" in text]
    assert f"change the kinetic energy by {lost:.2g} hartree per electron; a larger cutoff" in text


@pytest.mark.parametrize(("a", "cutoff"), [(1.1, 12.4), (1.9, 21.0)])
def test_a_norm_that_lacks_something_tells_the_least_that_is_lost(tmp_path, a, cutoff):
    """Bands of another program, without their kinetic energies: what their norms lack had the energy of the cutoff at least."""
    helium(tmp_path / "he.h5", a, cutoff)
    share = 1.0 - gammainc(1.5, cutoff / a)
    with h5py.File(tmp_path / "he.h5", "r+") as file:
        spin = file["electrons/kpoint_0/spin_0"]
        del spin["qsim_kinetic"]
        spin["state_0/psi_g"][...] *= np.sqrt(1.0 - share)
    orbitals, notes = built(tmp_path / "he.h5")
    lost = -orbitals.cutoff_error((1, 1)) / 2
    assert share * (0.9 * cutoff - 1.5 * a) < lost < 1.1 * beyond(a, cutoff)
    assert any("hartree per electron; a larger cutoff" in text for text in notes.warnings) == (lost > 1e-3)


def test_little_is_a_note_and_much_is_refused(tmp_path):
    helium(tmp_path / "good.h5", 0.7, 8.0)
    notes = built(tmp_path / "good.h5")[1]
    assert any("plane waves" in line and "per electron" in line for line in notes.lines)
    helium(tmp_path / "bad.h5", 0.7, 2.0)
    with pytest.raises(
        InvalidInput, match=r"change the kinetic energy by -0\.\d+ hartree per electron; a larger cutoff"
    ):
        built(tmp_path / "bad.h5")
    helium(tmp_path / "none.h5", 0.7, 8.0, kinetic=-1.0)
    with pytest.raises(FileError, match="qsim_kinetic must be 1 energies of at least 0"):
        built(tmp_path / "none.h5")


@pytest.mark.parametrize("exponents", [(0.8, 1.3), (0.35,)])
def test_the_cutoff_that_is_found_leaves_what_it_may(exponents):
    class Known(pyscf.Bands):
        def waves(self, cutoff):
            found = [gaussian(a, self.kappa, cutoff) for a in exponents]
            return found[0][0], np.concatenate([c for _, c in found])

    cell = SimpleNamespace(lattice_vectors=lambda: BOX)
    kinetic = 1.5 * np.array(exponents)
    bands = [Known(cell, np.array(kappa), None, kinetic) for kappa in ([0.0, 0, 0], [0.25, 0.5, -0.1])]
    cutoff = pyscf.best_cutoff(bands, len(exponents))
    # whole hartrees, upwards
    left = [np.mean([beyond(a, one) for a in exponents]) for one in (cutoff, cutoff - 1.5)]
    assert left[0] < 1.1 * pyscf.KEPT < left[1]


@needs_pyscf
@pytest.mark.parametrize("twist", [[0, 0, 0], [0.2, 0.4, -0.1]])
def test_bands_of_a_molecule_in_a_cell_keep_their_kinetic_energy(tmp_path, twist):
    """Waves from values on a mesh, and kinetic energies of a field of its own."""
    lattice = [[5.1, 0, 0.2], [0.4, 5.6, 0], [0, -0.3, 6.2]]
    atoms = [["H", 0.3, 0.1, 0.0], ["H", 0.9, -0.2, 1.3]]
    system = System.model_validate({"cell": "periodic", "lattice": lattice, "atoms": atoms, "twist": twist})

    def bands(**keys):
        orbitals = {"source": "pyscf", "basis": "6-31g**", "cache": f"h2{len(keys)}.h5", **keys}
        block = Wavefunction.model_validate({"orbitals": orbitals})
        notes = Notes()
        made = build_crystal(system, block, Coulomb(), potentials={}, folder=tmp_path, notes=notes)
        return made.orbitals, read_eshdf(tmp_path / orbitals["cache"]).kpoints[0], notes

    orbitals, point, notes = bands()
    assert abs(orbitals.cutoff_error((1, 1))) / 2 <= 1.2 * pyscf.KEPT
    assert not any("plane waves" in text for text in notes.warnings)
    from pyscf.pbc import gto, scf

    cell = gto.Cell(
        a=np.array(lattice), atom=[(s, p) for s, *p in atoms], unit="B", basis="6-31g**", verbose=0
    )
    cell.exp_to_discard = 0.2
    cell.build()
    k = cell.get_abs_kpts([twist])
    field = scf.KRHF(cell, k).density_fit().run(conv_tol=1e-9)
    C = field.mo_coeff[0][:, 0]
    T = float((C.conj() @ cell.pbc_intor("int1e_kin", kpts=k)[0] @ C).real)
    assert point.kinetic[0, 0] == pytest.approx(T, abs=2e-5)
    n = 48
    u = np.stack(np.meshgrid(*[np.arange(n) / n] * 3, indexing="ij"), -1).reshape(-1, 3)
    values = (
        cell.pbc_eval_gto("GTOval", u @ np.array(lattice), kpt=k[0]) @ C * np.exp(-2j * np.pi * u @ twist)
    )
    waves = np.fft.fftn(values.reshape(n, n, n)) / n**3 * np.sqrt(cell.vol)
    mine = waves[tuple((point.gvectors % n).T)]
    assert abs(np.vdot(mine, point.coefficients[0, 0])) == pytest.approx(1.0, abs=2e-5)
    assert "a larger cutoff (auto finds it) and no file h21.h5" in " ".join(bands(cutoff=25)[2].warnings)
