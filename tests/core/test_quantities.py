"""Quantities: one declaration gives arrays, scalars, headline and the page of the documentation."""

from dataclasses import dataclass
from fnmatch import fnmatchcase as fnmatch
from pathlib import Path

import numpy as np
import pytest

from qsim import methods
from qsim.core.physics.conversion import convert, factor_between
from qsim.core.results.quantities import (
    Quantity,
    arrays,
    by_task,
    headline,
    quantity_reference,
    scalars,
    tables,
)
from qsim.core.results.tables import NO_ERROR, SPEED_UNITS, Scalar, Table, of_machine
from qsim.core.run.stages import Method, stage

METHODS = methods.available()
# What the page has for a unit that the deck chooses.
DECK = "unit of the deck"
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Result:
    x: np.ndarray
    energy: float | None = -0.5
    error: float | None = 0.25
    parts: dict[str, float] | None = None
    whole: bool = True


QUANTITIES = (
    Quantity("norm", "", "norm at the end", lambda r: 1.0, when=lambda r: r.whole),
    Quantity("energy", "hartree", "E", lambda r: r.energy, error=lambda r: r.error, headline=True),
    Quantity("error_*", "", "part of the error: *", lambda r: r.parts or {}),
    Quantity("x", "bohr", "points |x|", lambda r: r.x, ("x",), note="ascending", label="$x$"),
    Quantity("some/y", "", "a table", lambda r: r.x**2 if r.whole else None, ("x",)),
)


def test_scalars_have_unit_error_and_meaning():
    found = scalars(QUANTITIES, Result(np.zeros(3), parts={"error_time_step": 0.1}))
    assert found == {
        "norm": Scalar(1.0, "", None, "norm at the end", NO_ERROR),
        "energy": Scalar(-0.5, "hartree", 0.25, "E"),
        "error_time_step": Scalar(0.1, "", None, "part of the error: time step"),
    }
    assert list(found) == ["norm", "energy", "error_time_step"]
    assert headline(QUANTITIES) == ("energy",)


def test_only_numbers_that_are_computed_lack_an_error():
    """Counts, words, times, settings and measures of errors are no promises."""
    declared = (
        Quantity("yield", "", "a computed number", lambda r: 0.5),
        Quantity("field", "a.u.", "with an error", lambda r: 0.5, error=lambda r: 0.1),
        Quantity("dt", "a.u.", "a setting", lambda r: 0.1, exact=True),
        Quantity("steps", "", "a count", lambda r: 100),
        Quantity("gauge", "", "a word", lambda r: "length"),
        Quantity("done", "", "a fact", lambda r: True),
        Quantity("speed", "1/s", "of the machine", lambda r: 1e6),
        Quantity("norm_drift", "", "an error itself", lambda r: 1e-12),
        Quantity("own", "", "made by the method", lambda r: Scalar(np.float64(0.5))),
        Quantity("none", "", "no value", lambda r: None),
    )
    found = scalars(declared, Result(np.zeros(3)))
    assert [name for name, scalar in found.items() if scalar.note] == ["yield", "own"]
    assert str(found["yield"]) == "0.5 (no error known)"


def test_a_scalar_without_a_value_stays_and_one_that_does_not_apply_goes():
    found = scalars(QUANTITIES, Result(np.zeros(3), energy=None, error=None, whole=False))
    assert found == {"energy": Scalar(None, "hartree", None, "E")}


def test_arrays_are_those_that_the_result_has():
    assert tables(QUANTITIES) == (
        Table("x", ("x",), "bohr", "points |x|", "$x$", "ascending"),
        Table("some/y", ("x",), "", "a table"),
    )
    assert arrays(QUANTITIES, Result(np.arange(3.0))).keys() == {"x", "some/y"}
    assert arrays(QUANTITIES, Result(np.arange(3.0), whole=False)).keys() == {"x"}


def test_names_that_do_not_fit_the_pattern():
    with pytest.raises(ValueError, match=r"'error_\*' gives 'other'"):
        scalars(QUANTITIES, Result(np.zeros(3), parts={"other": 0.1}))
    with pytest.raises(TypeError, match="must give a mapping"):
        scalars([Quantity("a*", "", "", lambda r: 1.0)], Result(np.zeros(3)))


def test_the_page_names_every_quantity_once():
    page = quantity_reference(QUANTITIES)
    for quantity in QUANTITIES:
        assert page.count(f"\n| `{quantity.name}` | ") == 1
    assert "| `x` | `x` | `bohr` | points \\|x\\|; ascending |" in page
    assert "| `energy` | `hartree` | E; with an error, where one is claimed |" in page
    assert "part of the error: \\*" in page


def test_a_scalar_states_its_own_unit_error_and_meaning():
    """Where they depend on the result, as the unit of a cross section on the process."""
    declared = (
        Quantity("sigma_*", "", "cross section", lambda r: {"sigma_2p": Scalar(1.0, "kb", 0.1, "of 2p")}),
    )
    assert scalars(declared, None) == {"sigma_2p": Scalar(1.0, "kb", 0.1, "of 2p")}


def test_axes_that_depend_on_the_result():
    declared = (
        Quantity(
            "x", "", "x", lambda r: r.x, ("batch", "row"), axes_of=lambda r: ("batch", "row")[-r.x.ndim :]
        ),
        Quantity("y", "", "y", lambda r: r.x, ("row",)),
    )
    assert [table.dims for table in tables(declared)] == [("batch", "row"), ("row",)]
    assert [table.dims for table in tables(declared, Result(np.zeros(3)))] == [("row",), ("row",)]
    assert "; other axes in some runs" in quantity_reference(declared)


def test_errors_by_name():
    """A mapping serves all names of a pattern; a name that it does not have has no error."""
    declared = [
        Quantity("p_*", "", "p", lambda r: {"p_0": 0.5, "p_1": 0.25}, error=lambda r: {"p_1": 0.1, "q": 0.2}),
        Quantity("q", "", "q", lambda r: 1.0, error=lambda r: {"p_1": 0.1, "q": 0.2}),
    ]
    assert {name: s.error for name, s in scalars(declared, None).items()} == {
        "p_0": None,
        "p_1": 0.1,
        "q": 0.2,
    }


def shown(*names):
    return [Quantity(name, "", "", lambda r: 1.0, headline=True) for name in names]


def test_headline_of_a_pattern_and_of_several_tasks():
    pattern = Quantity("p_*", "", "", lambda r: {}, headline=("p_0", "p_2"))
    assert headline([*shown("a"), pattern, Quantity("b", "", "", lambda r: 1.0)]) == ("a", "p_0", "p_2")
    # the order of every task is kept, whichever comes first
    assert headline(shown("a", "c", "e"), shown("b", "c", "d", "e"), shown("d")) == ("a", "b", "c", "d", "e")
    with pytest.raises(ValueError, match="opposite order: a, b"):
        headline(shown("a", "b"), shown("b", "a"))


def test_the_page_of_several_tasks_has_a_level_below():
    page = quantity_reference(shown("a"), level=3)
    assert page.startswith("### Scalars\n")
    assert "Arrays" not in page


@pytest.mark.parametrize("method", METHODS)
def test_every_method_declares_its_quantities_once(method):
    """Scalars and arrays of a task have names of their own; what is shown first, and the page, follow from them."""
    tasks = by_task(stage(method, "output").QUANTITIES)
    assert headline(*tasks) == Method(method).headline
    for task in tasks:
        for kind in (True, False):
            names = [quantity.name for quantity in task if (quantity.axes is None) is kind]
            assert len(names) == len(set(names))
        page = quantity_reference(task)
        assert page.count("\n| `") == len(task)
        found = [quantity.name for quantity in task if quantity.axes is None]
        assert all(any(fnmatch(name, one) for one in found) for name in headline(task))


#: Names with several units, and why: J of spins is no hartree, a word means two things, or a table of runs converts.
SEVERAL_UNITS = {
    **dict.fromkeys(
        ("energy", "energy_*", "energy_0", "energy_initial", "energy_final", "levels", "omega", "dt", "time"),
        "J",
    ),
    "alpha": "times of a solver, polarisability",
    "beta": "times of a solver, anisotropy",
    "dipole": "mu(x) of a molecule, <x> of an electron",
    "residual_*": "energies, parts of a right-hand side",
    "x": "place, solution of a linear system",
    "thresholds": "converted",
    "theta": "converted",
    **dict.fromkeys(
        ("sigma_level", "sigma_level_error", "sigma_total", "sigma_total_error", "sigma_photo_*"), "converted"
    ),
}


def units_by_name():
    """Return the units of every name of every task of every method."""
    found = {}
    for method in METHODS:
        for task in by_task(stage(method, "output").QUANTITIES):
            for quantity in task:
                found.setdefault(quantity.name, set()).add(quantity.unit)
    return found


def test_a_name_has_one_unit():
    """In all methods; the deck chooses one for quantum systems, and the cross sections of a process have one of areas."""
    several = {
        name: {unit.replace("unit of the process", "kb") for unit in units}
        for name, units in units_by_name().items()
        if len(units - {DECK}) > 1
    }
    assert sorted(several) == sorted(SEVERAL_UNITS)
    for name, units in several.items():
        first, *others = sorted(units)
        factors = [factor_between(unit, first, name) for unit in others]
        # tables of runs multiply by the factor, or refuse where there is none
        assert (None not in factors) is (SEVERAL_UNITS[name] == "converted"), name


def test_a_unit_that_the_deck_chooses():
    clock = Quantity("time", "unit of the deck", "t", lambda r: r.x, ("time",), unit_of=lambda r: "ns")
    rate = Quantity("rate", "unit of the deck", "1/t", lambda r: 1.0, unit_of=lambda r: "1/ns")
    made = Result(np.zeros(3))
    assert [table.unit for table in tables((clock,))] == ["unit of the deck"]
    assert [table.unit for table in tables((clock,), made)] == ["ns"]
    assert scalars((rate,), made)["rate"].unit == "1/ns"
    # nanoseconds of the physics are compared and converted, those of the machine are not
    assert not of_machine("time", "ns")
    assert of_machine("ns_per_point_step", "ns")
    assert factor_between("us", "ns", "time") == pytest.approx(1e3)
    assert convert("ns", ["ps"], "ns_per_point_step").factor == 1.0
    assert factor_between("MHz^2 us", "GHz^2 ns", "fluence") == pytest.approx(1e-3)


class Lost(RuntimeError):
    """What a function of a quantity raises in these tests."""


def lost(result):
    raise Lost("no data")


def test_a_quantity_that_cannot_be_found_costs_no_other():
    declared = [
        Quantity("a", "eV", "a number", lambda r: 1.5, error=lost),
        Quantity("b", "eV", "another number", lost, error=lambda r: 0.1),
        Quantity("p_*", "", "the number of *", lost),
        Quantity("x", "", "places", lost, ("x",)),
        Quantity("y", "", "values", lambda r: np.arange(3.0), ("x",)),
        Quantity("c", "", "a third number", lambda r: 2.0, error=lambda r: 0.2),
    ]
    told = []
    found = scalars(declared, None, lambda name, error: told.append((name, str(error))))
    assert {name: (one.value, one.error, one.unit) for name, one in found.items()} == {
        "a": (1.5, None, "eV"),
        "b": (None, 0.1, "eV"),
        "c": (2.0, 0.2, ""),
    }
    assert list(arrays(declared, None, lambda name, error: told.append((name, str(error))))) == ["y"]
    assert told == [(name, "no data") for name in ("the error of a", "b", "p_*", "x")]
    for function in (scalars, arrays):  # without anyone to tell, nothing is hidden
        with pytest.raises(Lost):
            function(declared, None)


def test_the_promise_names_what_measures_the_machine():
    text = (ROOT / "docs/reference/promises.md").read_text(encoding="utf-8")
    promise = text.partition("## What is reproducible")[2].partition("\n- ")[2].partition("\n- ")[0]
    for method in METHODS:
        for task in by_task(stage(method, "output").QUANTITIES):
            for quantity in task:
                # those of the paper, and the unit of a deck's own times, do not change
                fixed = "paper" in quantity.name or quantity.name == "time_unit"
                if quantity.unit in SPEED_UNITS and not fixed:
                    short = quantity.name.removesuffix("_*")
                    assert short.endswith(("seconds", "per_second")) or f"`{quantity.name}`" in promise
