"""Run stage of the counter: resumable at every step."""

import math
import time
from dataclasses import dataclass

import numpy as np

from qsim.core.device.rng import key_from_seed, uniform


@dataclass
class Result:
    values: np.ndarray
    seed: int
    fail: str


def run(problem, monitor):
    values = np.empty(problem.steps)
    done, value = 0, problem.start
    if monitor.restored is not None:
        done, value = monitor.restored["done"], monitor.restored["value"]
        values[:done] = monitor.restored["values"][:done]
    key = key_from_seed(problem.seed)

    def state():
        return {"done": done, "value": value, "values": values[:done]}

    monitor.begin(problem.steps, "steps", "counting")
    while done < problem.steps:
        kick = 1e-3 * float(uniform(key, 0, done, 1)[0])
        value = problem.growth * value * (1.0 - value) * (1.0 - kick)
        values[done] = value
        done += 1
        if problem.fail == "bug":
            raise RuntimeError("the counter lost count")
        monitor.step(done, state, value=math.nan if problem.fail == "nan" and done == 5 else value)
        if problem.pause:
            time.sleep(problem.pause)
    return Result(values, problem.seed, problem.fail)
