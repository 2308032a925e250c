"""A Slurm of one node, started for the tests and stopped after them; nothing of the machine is changed."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOON = 10  # half seconds that a job is pending before the tests hurry it
DAEMONS = ("munged", "slurmctld", "slurmd")
CONF = """\
ClusterName=qsim
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={port1}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MinJobAge=3600
KillWait=20
OverTimeLimit=0
SchedulerParameters=sched_min_interval=100000
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=2000 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """The running cluster."""

    def __init__(self, folder):
        self.folder = folder
        self.environ = {
            **os.environ,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PYTHONPATH": str(ROOT),
            "QSIM_DEVICE": "cpu",
            "NUMBA_NUM_THREADS": "1",
        }

    def run(self, *words, check=True):
        """Run a command of Slurm; return what it prints."""
        reply = subprocess.run(words, env=self.environ, capture_output=True, text=True, timeout=60)
        assert not check or reply.returncode == 0, reply.stderr
        return reply.stdout

    def submit(self, *words):
        """Submit a job; return its number."""
        return self.run("sbatch", "--parsable", *map(str, words)).strip().partition(";")[0]

    def job(self, number):
        """Return what Slurm knows of a job, by name."""
        words = self.run("scontrol", "show", "job", "-o", number).split()
        return dict(word.partition("=")[::2] for word in words)

    def states(self, number):
        """Return the states of all tasks of a job."""
        lines = self.run("scontrol", "show", "job", "-o", number).splitlines()
        return [part[9:] for line in lines for part in line.split() if part.startswith("JobState=")]

    def wait(self, number, seconds, until=("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL")):
        """Wait until all tasks of a job have ended; return their states."""
        deadline, pending = time.monotonic() + seconds, 0
        while not set(found := self.states(number)) <= set(until):
            assert time.monotonic() < deadline, self.run("scontrol", "show", "job", number)
            pending = pending + 1 if "PENDING" in found else 0
            # Slurm lets a requeued job wait for two minutes; one that starts within seconds has its old credentials, revoked
            if pending > SOON:
                self.run("scontrol", "update", f"JobId={number}", "StartTime=now", check=False)
            time.sleep(0.5)
        return found


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """Start munge and Slurm in a folder of their own."""
    where = {name: shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin") for name in DAEMONS}
    if missing := [name for name, path in where.items() if path is None]:
        pytest.skip(f"no {', '.join(missing)}: apt-get install slurmctld slurmd slurm-client munge")
    if os.geteuid() != 0:
        pytest.skip("slurmd runs as root only")
    folder = tmp_path_factory.mktemp("slurm")
    folder.chmod(0o755)
    for parent in folder.parents:  # munge wants a way that no other user can change
        if parent.name.startswith("pytest-"):
            parent.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    conf = CONF.format(folder=folder, host=host, port=port, port1=port + 1)
    (folder / "slurm.conf").write_text(conf)
    cluster = Slurm(folder)
    munge = [f"--{name}={folder}/munge.{end}" for name, end in (("socket", "socket"), ("key-file", "key"))]
    munge += [f"--{name}={folder}/munge.{name}" for name in ("pid-file", "log-file", "seed-file")]
    commands = [
        [where["munged"], "--foreground", "--force", *munge],
        [where["slurmctld"], "-D", "-f", folder / "slurm.conf"],
        [where["slurmd"], "-D", "-f", folder / "slurm.conf", "-N", host],
    ]
    running = []
    try:
        for words in commands:
            with (folder / f"{Path(words[0]).name}.out").open("w") as out:
                running.append(
                    subprocess.Popen(list(map(str, words)), env=cluster.environ, stdout=out, stderr=out)
                )
            time.sleep(0.5)
        deadline = time.monotonic() + 20
        while "idle" not in cluster.run("sinfo", "-h", "-o", "%T", check=False):
            if time.monotonic() > deadline or any(process.poll() is not None for process in running):
                logs = "\n".join(path.read_text()[-600:] for path in folder.glob("*.out"))
                pytest.skip(f"Slurm does not start here: {logs}")
            time.sleep(0.5)
        yield cluster
    finally:
        if len(running) == len(commands):
            cluster.run("scancel", "--user", "root", check=False)
            time.sleep(1)
        for process in reversed(running):
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def python():
    """Return the interpreter of the tests."""
    return sys.executable
