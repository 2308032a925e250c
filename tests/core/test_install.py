"""Hints that name a command name one that works: in a checkout, and in a copy without one."""

import sys
from importlib import metadata
from pathlib import Path

import pytest

from qsim.core import install
from qsim.core.install import install_extra

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def fresh():
    install_extra.cache_clear()
    yield
    install_extra.cache_clear()


@pytest.mark.checkout
def test_the_environment_of_the_checkout_is_extended_by_bootstrap(monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(ROOT / ".venv"))
    assert install_extra("cuda12") == f"python3 {ROOT / 'bootstrap.py'} cuda12"


@pytest.mark.checkout
def test_another_environment_of_the_checkout_is_extended_by_pip(monkeypatch):
    monkeypatch.setattr(sys, "prefix", "/somewhere/else")
    assert install_extra("pyscf") == f'pip install -e "{ROOT}[pyscf]"'


def test_an_installed_copy_names_the_packages(monkeypatch):
    monkeypatch.setattr(install, "checkout", lambda: None)
    lines = ["numpy>=2.0", 'cupy-cuda12x[ctk]>=14.2; extra == "cuda12"', "mpi4py>=4.0; extra == 'mpi'"]
    monkeypatch.setattr(metadata, "requires", {"qsim-suite": lines}.__getitem__)
    assert install_extra("cuda12") == 'pip install "cupy-cuda12x[ctk]>=14.2"'
    assert install_extra("mpi") == 'pip install "mpi4py>=4.0"'


def test_no_text_names_the_foreign_package():
    """`pip install qsim` is another program."""
    pages = [ROOT / "README.md", ROOT / "bench/README.md", *(ROOT / "docs").rglob("*.md")]
    sources = [*pages, *(ROOT / "qsim").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]
    for path in sources:
        text = path.read_text(encoding="utf-8")
        assert "qsim[" not in text, path
        lines = [line for line in text.splitlines() if "pip install qsim" in line]
        assert all("qsim-suite" in line or "another program" in line for line in lines), path
