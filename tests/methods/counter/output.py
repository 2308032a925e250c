"""Output stage of the counter."""

import numpy as np

from qsim.core.results.quantities import Quantity


def _steps(result):
    return np.arange(1, len(result.values) + 1)


def _error_of_mean(result):
    return float(np.std(result.values) / np.sqrt(len(result.values)))


SCALARS = (
    Quantity("final", "au", "last value", lambda r: float(r.values[-1]), headline=True),
    Quantity(
        "mean", "au", "mean value", lambda r: float(np.mean(r.values)), error=_error_of_mean, headline=True
    ),
    Quantity("steps", "", "steps done", lambda r: len(r.values)),
    Quantity("converged", "", "", lambda r: True),
    Quantity("rate", "1/s", "", lambda r: 1.0e6),
)
ARRAYS = (
    Quantity("step", "", "number of the step", _steps, ("step",)),
    Quantity("value", "au", "value after the step", lambda r: r.values, ("step",)),
    Quantity("phase", "", "a complex array", lambda r: np.exp(1j * r.values), ("step",)),
)
QUANTITIES = (*SCALARS, *ARRAYS)


def _value_figure(results):
    from qsim.core.results.plotting import figure

    if float(results["value"][0]) < 0.1:
        raise ValueError("this figure does not like small values")
    fig = figure()
    axes = fig.subplots()
    axes.plot(results["step"], results["value"])
    axes.set(xlabel=results.label("step"), ylabel=results.label("value"))
    axes.set_axis_off()  # text is what takes long, and no test looks at it
    return fig


def _absent_figure(results):
    return None


def extra_paths(deck, stem):
    return [stem.with_name(f"{stem.name}.s001.extra.dat")] if deck.count.beside else []


def extra_files(results, stem):
    if not results.deck["count"]["beside"]:
        return []
    path = stem.with_name(f"{stem.name}.s001.extra.dat")
    path.write_text("extra")
    return [path]


FIGURES = {"value": _value_figure, "absent": _absent_figure}
