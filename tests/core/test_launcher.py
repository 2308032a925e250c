"""The flag --gpus: processes by the installed MPI, and one message where something is missing."""

import os
import sys
from types import SimpleNamespace

import pytest

from qsim.core.device.device import CudaStatus, Memory
from qsim.core.errors import DeviceError
from qsim.core.run import launcher
from qsim.core.run.ranks import no_gain
from qsim.core.run.stages import Plan, Size


def test_the_process_becomes_the_launcher(monkeypatch):
    begun = []
    monkeypatch.setattr(launcher, "find_spec", lambda name: name)
    monkeypatch.setattr(launcher.shutil, "which", lambda name: f"/opt/{name}" if name == "mpiexec" else None)
    monkeypatch.setattr(launcher.os, "execve", lambda *arguments: begun.append(arguments))
    monkeypatch.setenv("OMPI_MCA_rmaps_base_oversubscribe", "0")
    launcher.become_ranks(3, ["qmc", "my deck.yaml", "--gpus", "3"])
    (path, command, environ), wanted = (
        begun[0],
        [sys.executable, "-m", "qsim", "qmc", "my deck.yaml", "--gpus", "3"],
    )
    assert (path, command) == ("/opt/mpiexec", ["/opt/mpiexec", "-n", "3", *wanted])
    # what the user has set stays
    assert environ == {**launcher.ENVIRONMENT, **os.environ}


@pytest.mark.parametrize(
    ("module", "mpirun", "told"),
    [(None, "/bin/mpirun", "mpi4py is not installed"), ("mpi4py", None, "there is no mpirun")],
)
def test_without_an_mpi_one_message_says_what_is_missing(monkeypatch, module, mpirun, told):
    monkeypatch.setattr(launcher, "find_spec", lambda name: module)
    monkeypatch.setattr(launcher.shutil, "which", lambda name: mpirun)
    with pytest.raises(DeviceError, match=f"--gpus 2 starts 2 processes with MPI, but {told}") as caught:
        launcher.become_ranks(2, ["qmc", "deck.yaml"])
    assert "leave --gpus out" in caught.value.hint


@pytest.mark.parametrize(
    ("names", "told"),
    [((), "--gpus 3: the driver reports no device"), (("H200",) * 2, "this machine shows 2: H200, H200")],
)
def test_more_gpus_than_there_are(monkeypatch, names, told):
    status = CudaStatus("14.0", 13000, 13000, names, "" if names else "the driver reports no device")
    monkeypatch.setattr(launcher, "cuda_status", lambda: status)
    launcher.require_gpus(len(names))
    with pytest.raises(DeviceError, match=told):
        launcher.require_gpus(3)


def test_the_plan_says_when_several_gpus_will_not_help():
    gpu = SimpleNamespace(is_cuda=True, free_memory=lambda: 80e9)
    small, large = Size(100.0, "amplitudes", 1e4), Size(1e5, "amplitudes", 1e4)
    for size, each, capacity, told in (
        (small, 1, True, "2 GPUs will not help: below 1e"),
        (large, 39e9, True, "one holds these amplitudes"),
        (large, 41e9, True, ""),
        (large, 39e9, False, ""),
    ):
        plan = Plan(memory=Memory(device=int(each)), size=size, shared="amplitudes", capacity=capacity)
        found = no_gain(gpu, plan, 2)
        assert len(found) == bool(told)
        assert told in "".join(found)
    assert not no_gain(SimpleNamespace(is_cuda=False), Plan(size=small, capacity=True), 2)
