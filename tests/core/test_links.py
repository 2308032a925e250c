"""How processes come by their links: NCCL where every one can, the hosts otherwise, and one clear message."""

import ctypes
import sys
from types import SimpleNamespace

import pytest

from qsim.core.device import links
from qsim.core.errors import DeviceError


class Others:
    """A communicator of processes of which this one is the first; the others answer as they are told."""

    rank = 0

    def __init__(self, answers=()):
        self.answers, self.size = list(answers), 1 + len(answers)

    def allgather(self, own):
        return [own, *((own[0], identity, there) for identity, there in self.answers)]

    def bcast(self, value):
        return value


class Library:
    """What CuPy's wrapper of NCCL has of it."""

    available, made = True, None

    def get_unique_id(self):
        return "identifier"

    def NcclCommunicator(self, size, identifier, rank):
        self.made = (size, identifier, rank)
        return self


def gpu(identity="GPU-0"):
    from contextlib import nullcontext

    return SimpleNamespace(is_cuda=True, identity=identity, use=nullcontext)


ONE, TWO, SAME, WITHOUT = [], [("GPU-1", True)], [("GPU-0", True)], [("GPU-1", False)]


@pytest.mark.parametrize(
    ("asked", "others", "there", "kind"),
    [
        (None, TWO, True, links.NcclLinks),
        (None, SAME, True, links.HostLinks),
        (None, WITHOUT, True, links.HostLinks),
        (None, TWO, False, links.HostLinks),
        ("mpi", TWO, True, links.HostLinks),
        ("nccl", TWO, True, links.NcclLinks),
        ("nccl", ONE, True, links.HostLinks),
    ],
)
def test_links_are_those_that_all_processes_have(monkeypatch, asked, others, there, kind):
    library = Library() if there else None
    monkeypatch.setattr(links, "_nccl", lambda: library)
    monkeypatch.setattr(links, "HostLinks", type("HostLinks", (), {"__init__": lambda *_: None}))
    kind = links.HostLinks if kind.__name__ == "HostLinks" else kind
    if asked is None:
        monkeypatch.delenv("QSIM_LINKS", raising=False)
    else:
        monkeypatch.setenv("QSIM_LINKS", asked)
    found = links.links_of(Others(others), gpu())
    assert type(found) is kind
    if kind is links.NcclLinks:
        assert library.made == (2, "identifier", 0)


@pytest.mark.parametrize(
    ("asked", "others", "there", "message"),
    [
        ("nccl", TWO, False, "finds no NCCL"),
        ("nccl", WITHOUT, True, "finds no NCCL"),
        ("nccl", SAME, True, "two ranks have the same GPU"),
        ("nvlink", TWO, True, "allowed: auto, mpi, nccl"),
    ],
)
def test_what_is_asked_for_and_not_there_is_one_message(monkeypatch, asked, others, there, message):
    monkeypatch.setattr(links, "_nccl", lambda: Library() if there else None)
    monkeypatch.setenv("QSIM_LINKS", asked)
    with pytest.raises(DeviceError, match=message):
        links.links_of(Others(others), gpu())


def test_nccl_is_that_of_the_wheel_that_lies_beside_cupy(monkeypatch, tmp_path):
    """CuPy's wheels leave it to the loader; the library of NVIDIA's wheel is loaded before."""
    loaded, library = [], Library()
    monkeypatch.setattr(
        links, "find_spec", lambda name: SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    )
    monkeypatch.setattr(ctypes, "CDLL", lambda path, mode: loaded.append((path, mode)))
    monkeypatch.setitem(sys.modules, "cupy.cuda.nccl", library)
    monkeypatch.setattr(links.importlib, "import_module", lambda name: sys.modules[name])
    assert links._nccl() is library
    assert loaded == [(str(tmp_path / "lib" / "libnccl.so.2"), ctypes.RTLD_GLOBAL)]
    library.available = False
    assert links._nccl() is None


def test_without_cupy_or_library_there_is_no_nccl(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(links, "find_spec", lambda name: None)
    monkeypatch.setattr(links.importlib, "import_module", missing)
    assert links._nccl() is None
