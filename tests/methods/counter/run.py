"""Run stage of the counter: resumable at every step."""

import math
import os
import resource
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qsim.core.device.parallel import world
from qsim.core.device.rng import key_from_seed, uniform
from qsim.core.run.loop import Progress, drive


@dataclass
class Result:
    values: np.ndarray
    seed: int
    fail: str


class Counting:
    """The map, step by step."""

    def __init__(self, problem, saved=None):
        self.problem = problem
        self.values = np.empty(problem.steps)
        self.done, self.value = 0, problem.start
        if saved is not None:
            self.done, self.value = saved["done"], saved["value"]
            self.values[: self.done] = saved["values"][: self.done]

    def state(self):
        return {"done": self.done, "value": self.value, "values": self.values[: self.done]}

    def advance(self, report):
        problem, key = self.problem, key_from_seed(self.problem.seed)
        while self.done < problem.steps:
            kick = 1e-3 * float(uniform(key, 0, self.done, 1)[0])
            self.value = problem.growth * self.value * (1.0 - self.value) * (1.0 - kick)
            self.values[self.done] = self.value
            self.done += 1
            if problem.fail == "bug":
                raise RuntimeError("the counter lost count")
            if problem.fail == "rank" and self.done == 5 and world().rank == 1:
                raise RuntimeError("rank one lost count")
            if problem.fail == "disk" and self.done == 5 and world().rank == 0:
                resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            if problem.fail == "death" and self.done == 5 and world().rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            shown = math.nan if problem.fail == "nan" and self.done == 5 else self.value
            report(Progress(self.done, {"value": shown}))
            while problem.fail == "wait" and self.done == 5 and Path("wait").exists():
                time.sleep(0.01)
                report(Progress(self.done))
            if problem.pause:
                time.sleep(problem.pause)


def run(problem, monitor):
    counting = Counting(problem, monitor.restored)
    drive(counting, monitor, total=problem.steps, unit="steps", what="counting")
    return Result(counting.values, problem.seed, problem.fail)
