"""Axes as a user wants them: units, limits, scales; figures of one column."""

import re

import numpy as np
import pytest

from qsim.core.physics.conversion import convert
from qsim.core.results.display.axes import AxesOptions, adjust
from qsim.core.results.plotting import WIDTHS, bar_beside, column, compose, figure, style

HARTREE_EV = 27.211386245988


def in_units(unit, **more):
    return AxesOptions(units=[unit], convert=lambda old, name: convert(old, [unit], name), **more)


def spectrum(log=False):
    fig = figure("single")
    ax = fig.subplots()
    energy = np.linspace(0.0, 1.0, 101)
    ax.plot(energy, np.exp(-5.0 * energy))
    ax.set_xlabel("energy (hartree)")
    ax.set_ylabel("dP/dE (1/hartree)")
    if log:
        ax.set_yscale("log")
    return fig, ax


def shown(axis):
    """Return where an axis has its ticks inside its limits, and what it writes there."""
    low, high = sorted(axis.get_view_interval())
    found = [
        (place, text.get_text())
        for place, text in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    ]
    return [(place, text) for place, text in found if low <= place <= high and text]


def test_numbers_at_ticks_are_those_of_the_new_unit():
    fig, ax = spectrum()
    with style():
        adjust(fig, in_units("eV"))
        fig.canvas.draw()
    assert ax.get_xlabel() == "energy (eV)"
    assert ax.get_ylabel() == "dP/dE (1/eV)"
    for place, text in shown(ax.xaxis):
        number = re.sub(r"[^0-9.]", "", text.replace("mathdefault", ""))
        assert float(number) == pytest.approx(place * HARTREE_EV, abs=1e-9)
    assert len(shown(ax.xaxis)) >= 3
    # powers of ten of the new unit on a logarithmic axis
    fig, ax = spectrum(log=True)
    with style():
        adjust(fig, in_units("eV"))
        fig.canvas.draw()
    for place, _ in shown(ax.yaxis):
        power = np.log10(place / HARTREE_EV)
        assert power == pytest.approx(round(power), abs=1e-9)


def test_limits_are_in_the_unit_that_is_shown_and_the_other_axis_follows():
    fig, ax = spectrum()
    adjust(fig, in_units("eV", x=(None, HARTREE_EV / 2.0)))
    assert ax.get_xlim()[1] == pytest.approx(0.5)
    low, high = ax.get_ylim()
    assert low == pytest.approx(np.exp(-2.5) - 0.05 * (1.0 - np.exp(-2.5)))
    assert high == pytest.approx(1.0 + 0.05 * (1.0 - np.exp(-2.5)))


def test_a_second_axis_that_would_repeat_the_first_is_hidden():
    for unit, visible in (("eV", True), ("cm-1", False)):
        fig, ax = spectrum()
        other = ax.secondary_xaxis("top", functions=(lambda x: x, lambda x: x))
        other.set_xlabel("wavenumber (cm$^{-1}$)")
        adjust(fig, in_units(unit))
        assert other.get_visible() is visible


def test_a_colour_bar_is_as_tall_as_a_map_of_one_scale():
    with style():
        fig = figure("single", 3.2)
        ax = fig.subplots()
        bar = bar_beside(ax.pcolormesh(np.eye(3)), ax, "density")
        ax.set_aspect("equal")
        fig.canvas.draw()
    of_bar, of_map = bar.ax.get_window_extent(), ax.get_window_extent()
    assert (of_bar.y0, of_bar.y1) == pytest.approx((of_map.y0, of_map.y1), abs=0.5)
    assert of_map.x1 < of_bar.x0 < of_bar.x1 < fig.bbox.x1


def test_scales_and_panels():
    fig = figure("double")
    a, b = fig.subplots(1, 2)
    for ax in (a, b):
        ax.plot([1.0, 2.0, 3.0], [1.0, 10.0, 100.0])
    adjust(fig, AxesOptions(log="y", y=(0.5, 50.0), panel=2))
    assert (a.get_yscale(), b.get_yscale()) == ("linear", "log")
    assert b.get_ylim() == (0.5, 50.0)
    with pytest.raises(ValueError, match="has no panel 3: it has 2"):
        adjust(fig, AxesOptions(log="y", panel=3))
    assert adjust(fig, in_units("fs")) == set()


def test_in_one_column_panels_stand_below_each_other():
    def drawn(_):
        fig = figure("double", 2.0)
        a, b = fig.subplots(1, 2, width_ratios=[1, 2])
        a.plot([0, 1])
        b.plot([1, 0])
        return fig

    with column():
        fig = compose(None, (drawn,))
        assert fig.get_figwidth() == WIDTHS["single"]
        assert fig.get_figheight() > 3.0
        fig.canvas.draw()
        a, b = (ax.get_position() for ax in fig.axes)
    assert a.y0 > b.y1
    assert a.width > 0.6
    assert drawn(None).get_figwidth() == WIDTHS["double"]


def test_a_style_file_of_the_user_replaces_what_it_names(tmp_path, monkeypatch):
    import matplotlib as mpl

    (tmp_path / "mine.mplstyle").write_text("font.size: 11\n", encoding="utf-8")
    monkeypatch.setenv("QSIM_STYLE", str(tmp_path / "mine.mplstyle"))
    with style():
        assert mpl.rcParams["font.size"] == 11.0
        assert mpl.rcParams["axes.grid"] is True
