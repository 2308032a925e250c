"""custatevec called through ctypes: the layers of the Heisenberg ring gate by gate, and fused by hand.

The library is looked for in the environment variable ``CUSTATEVEC_LIBRARY``, in the package ``cuquantum`` (``pip install
custatevec-cu13``) and by its name.  What cannot be called is recorded as absent, with the error.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from bench.trotter import problem
from qsim.core.device.device import Device

COMPLEX = 5  # CUDA_C_64F
PRECISION = 1 << 4  # CUSTATEVEC_COMPUTE_64F
ROW = 1  # CUSTATEVEC_MATRIX_LAYOUT_ROW
X, Z = 1, 3  # custatevecPauli_t
NAME = "libcustatevec.so.1"
FUSED = (4, 6)  # qubits of a fused rotation
DIAGONAL = (10, 15)  # qubits of a fused phase
Layer = tuple[str, str, bool, Callable[[], None]]
Part = tuple[np.ndarray, list[int]]


class Absent(Exception):
    """The library or the function is not there, or refuses."""


def _paths() -> Iterator[str]:
    given = os.environ.get("CUSTATEVEC_LIBRARY")
    if given:
        yield given
    with contextlib.suppress(ImportError, ValueError):
        found = importlib.util.find_spec("cuquantum")
        for folder in (found.submodule_search_locations or []) if found else []:
            yield str(Path(folder) / "lib" / NAME)
    yield NAME


def _load() -> tuple[Any, str]:
    with contextlib.suppress(Exception):  # makes CuPy load cuBLAS, which the library needs
        from cupy.cuda import device

        device.get_cublas_handle()
    errors = []
    for path in _paths():
        try:
            return ctypes.CDLL(path), path
        except OSError as error:
            errors.append(str(error))
    raise Absent("; ".join(errors))


def _integers(values: list[int]) -> Any:
    return (ctypes.c_int32 * len(values))(*values)


class Library:
    """The library with a handle on the current stream.

    Parameters
    ----------
    device : Device
    library : optional
        Instead of the one that is found.
    """

    def __init__(self, device: Device, library: Any = None) -> None:
        self._device = device
        self._library, self.path = (library, "given") if library is not None else _load()
        self._handle = ctypes.c_void_p()
        self._call("custatevecCreate", ctypes.byref(self._handle))
        if device.is_cuda:
            stream = device.xp.cuda.get_current_stream().ptr
            self._call("custatevecSetStream", self._handle, ctypes.c_void_p(int(stream)))
        with contextlib.suppress(Exception):
            self._library.custatevecGetVersion.restype = ctypes.c_size_t
        self.version = int(self._library.custatevecGetVersion())
        self._workspace: Any = None

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            function = getattr(self._library, name)
        except AttributeError as error:
            raise Absent(f"{name} is not in the library") from error
        status = function(*arguments)
        if status != 0:
            raise Absent(f"{name} returns status {status}")

    def _reserve(self, size: int) -> tuple[Any, Any]:
        if size and (self._workspace is None or self._workspace.size < size):
            self._workspace = self._device.xp.empty(size, np.uint8)
        return _address(self._workspace) if size else None, ctypes.c_size_t(size)

    def pauli(self, psi: Any, spins: int, theta: float, paulis: list[int], targets: list[int]) -> None:
        """Apply ``exp(i theta P)``."""
        self._call(
            "custatevecApplyPauliRotation",
            self._handle,
            _address(psi),
            ctypes.c_int(COMPLEX),
            ctypes.c_uint32(spins),
            ctypes.c_double(theta),
            _integers(paulis),
            _integers(targets),
            ctypes.c_uint32(len(targets)),
            None,
            None,
            ctypes.c_uint32(0),
        )

    def matrix(self, psi: Any, spins: int, matrix: np.ndarray, targets: list[int]) -> None:
        """Apply a matrix (2^k, 2^k) to k qubits."""
        size = ctypes.c_size_t()
        data = _address(matrix)
        kind = (ctypes.c_int(COMPLEX), ctypes.c_int(ROW), ctypes.c_int32(0))
        where = (self._handle, ctypes.c_int(COMPLEX), ctypes.c_uint32(spins))
        count = ctypes.c_uint32(len(targets))
        self._call(
            "custatevecApplyMatrixGetWorkspaceSize",
            *where,
            data,
            *kind,
            count,
            ctypes.c_uint32(0),
            ctypes.c_int(PRECISION),
            ctypes.byref(size),
        )
        self._call(
            "custatevecApplyMatrix",
            self._handle,
            _address(psi),
            *where[1:],
            data,
            *kind,
            _integers(targets),
            count,
            None,
            None,
            ctypes.c_uint32(0),
            ctypes.c_int(PRECISION),
            *self._reserve(size.value),
        )

    def diagonal(self, psi: Any, spins: int, values: np.ndarray, targets: list[int]) -> None:
        """Multiply by a diagonal (2^k,) of k qubits."""
        size = ctypes.c_size_t()
        data, where = _address(values), (ctypes.c_int(COMPLEX), ctypes.c_uint32(spins))
        on, count = _integers(targets), ctypes.c_uint32(len(targets))
        self._call(
            "custatevecApplyGeneralizedPermutationMatrixGetWorkspaceSize",
            self._handle,
            *where,
            None,
            data,
            ctypes.c_int(COMPLEX),
            on,
            count,
            ctypes.c_uint32(0),
            ctypes.byref(size),
        )
        self._call(
            "custatevecApplyGeneralizedPermutationMatrix",
            self._handle,
            _address(psi),
            *where,
            None,
            data,
            ctypes.c_int(COMPLEX),
            ctypes.c_int32(0),
            on,
            count,
            None,
            None,
            ctypes.c_uint32(0),
            *self._reserve(size.value),
        )

    # ---------------------------------------------------------------------------------------- layers

    def layers(self, psi: Any, spins: int) -> list[Layer]:
        """Return rotations and phases of the ring: kind, label, whether fused, work."""
        found: list[Layer] = [
            ("rotation", "RX on every qubit (ApplyPauliRotation)", False, lambda: self._rx(psi, spins)),
            (
                "phase",
                "ZZ on every bond (ApplyPauliRotation)",
                False,
                lambda: self.bonds(psi, spins, problem.DT),
            ),
        ]
        for width in (1, *FUSED):
            parts = rotations(problem.ROTATION, spins, width)
            label = (
                f"C on {width} qubits at once (ApplyMatrix)"
                if width > 1
                else "C on every qubit (ApplyMatrix)"
            )
            found.append(
                ("rotation", label, width > 1, lambda parts=parts: self._matrices(psi, spins, parts))
            )
        for width in DIAGONAL:
            parts = chains(problem.DT, spins, width)
            label = f"ZZ on {width} qubits at once (ApplyGeneralizedPermutationMatrix)"
            found.append(("phase", label, True, lambda parts=parts: self._diagonals(psi, spins, parts)))
        return found

    def _rx(self, psi: Any, spins: int) -> None:
        for q in range(spins):
            self.pauli(psi, spins, -0.25 * np.pi, [X], [q])

    def _matrices(self, psi: Any, spins: int, parts: list[Part]) -> None:
        for matrix, targets in parts:
            self.matrix(psi, spins, matrix, targets)

    def _diagonals(self, psi: Any, spins: int, parts: list[Part]) -> None:
        for values, targets in parts:
            self.diagonal(psi, spins, values, targets)

    def bonds(self, psi: Any, spins: int, tau: float) -> None:
        """Multiply by ``exp(-i tau S^z S^z)`` on every bond of the ring, one after another."""
        for j in range(spins):
            self.pauli(psi, spins, -0.25 * tau, [Z, Z], [j, (j + 1) % spins])

    def step(self, psi: Any, spins: int, fused: bool) -> None:
        """Make one step of the ring in place, the same 21 + 20 layers."""
        steps = problem.sequence()
        turns = [*problem.rotations(steps), None]
        for (_, tau), forward in zip(steps, turns, strict=True):
            if fused:
                self._diagonals(psi, spins, chains(tau, spins, DIAGONAL[0]))
            else:
                self.bonds(psi, spins, tau)
            if forward is not None:
                one = problem.ROTATION if forward else problem.ROTATION.conj().T
                self._matrices(psi, spins, rotations(one, spins, FUSED[0] if fused else 1))


def rotations(one: np.ndarray, spins: int, width: int) -> list[Part]:
    """Return matrices and their qubits that apply a one-qubit matrix to every qubit."""
    groups = [list(range(first, min(first + width, spins))) for first in range(0, spins, width)]
    return [(np.ascontiguousarray(reduce(np.kron, [one] * len(group))), group) for group in groups]


def chains(tau: float, spins: int, width: int) -> list[Part]:
    """Return diagonals and their qubits that together are ``exp(-i tau S^z S^z)`` on every bond of the ring."""
    found = []
    for first in range(0, spins, width - 1):
        targets = [j % spins for j in range(first, min(first + width, spins + 1))]
        pairs = np.diag(np.ones(len(targets) - 1), 1)
        table = problem.energies(np, pairs + pairs.T, np.zeros(len(targets)))
        found.append((np.exp(-1j * tau * table), targets))
    return found


def _address(array: Any) -> Any:
    if isinstance(array, np.ndarray):
        return ctypes.c_void_p(array.ctypes.data)
    return ctypes.c_void_p(int(array.data.ptr))
