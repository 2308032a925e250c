"""Names of transitions in the spectrum of a pulse: above the axes, the wanted ones first."""

from __future__ import annotations

import qsim
from qsim.qoc.figures.controls import spectrum
from qsim.qoc.figures.reading import together, transitions

DECK = {
    "method": "qoc",
    "system": {
        "grid": {"xmin": -7, "xmax": 7, "points": 120},
        "mass": 1,
        "potential": {"type": "expression", "value": "0.02*x^2 + 0.0004*x^3 + 0.0001*x^4"},
        "dipole": {"type": "expression", "value": "x + 0.2*x^2"},
        "initial": 1,
        "target": 3,
    },
    "time": {"T": 300, "steps": 800},
    "control": {"guess": {"type": "expression", "value": "0.02*sin(pi*t/T)^2*cos(0.2*t)"}},
    "optimizer": "none",
    "verify": False,
}


def test_names_stand_above_the_axes_and_the_wanted_one_comes_first(tmp_path):
    with qsim.run(DECK, output=tmp_path / "r", figures="none") as results:
        lines = transitions(results)
        figure = spectrum(results)
    assert lines[0][0] == "1-3"
    assert len(lines) > 4
    figure.canvas.draw()
    [axes] = figure.axes
    above = next(child for child in axes.child_axes if child.xaxis.get_ticks_position() == "top")
    box = axes.get_window_extent()
    labels = [label for label in above.get_xticklabels() if label.get_text()]
    assert any("1-3" in label.get_text() for label in labels)
    assert all(label.get_window_extent().y0 > box.y1 for label in labels)


def test_a_group_names_the_first_of_the_lines():
    lines = [("0-1", 1.0), ("3-4", 0.9), ("2-3", 0.93), ("1-2", 0.96), ("0-2", 1.9)]
    assert together(lines, 0.2) == [("0-1, 3-4, 2-3, ...", (1.0 + 0.9 + 0.93 + 0.96) / 4), ("0-2", 1.9)]
