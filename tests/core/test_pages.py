"""Pages of runs: each figure once, texts for those who do not see it, several runs side by side, narrow, dark, printed."""

import re

import pytest
from click.testing import CliRunner

import qsim
from qsim.cli.group import cli
from qsim.core.results.display.page import STYLE, alternative, plain, with_powers
from qsim.core.results.display.report import report, side_by_side
from qsim.core.results.plotting import figure

DECK = {
    "method": "trotter",
    "title": "four <spins>",
    "system": {"spins": 4, "terms": [{"type": "heisenberg", "lattice": "ring", "J": 1.0}]},
    "initial": "neel",
    "evolve": {"t_final": 2.0, "outputs": 11, "accuracy": 1e-6},
    "observe": [{"sz": "all"}, "imbalance"],
    "run": {"seed": 1},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, field in (("weak", 0.1), ("strong", 0.7)):
        terms = [*DECK["system"]["terms"], {"type": "field", "axis": "x", "values": field}]
        deck = {**DECK, "system": {"spins": 4, "terms": terms}}
        qsim.run(deck, device="cpu", output=folder / f"{name}.h5").close()
    return folder


def figures(text):
    return re.findall(r'<figure id="([^"]*)"', text)


def test_each_figure_is_shown_once_with_a_text_of_what_is_in_it(runs):
    with qsim.open_results(runs / "weak.h5") as one:
        text, named = report(one), report(one, ["overview"])
    names = figures(text)
    assert len(names) == len(set(names))
    assert "overview" not in names  # it is composed of the others
    assert {"sz_map", "curves"} <= set(names)
    assert figures(named) == ["overview"]
    texts = re.findall(r'<img alt="([^"]*)"', text)
    assert len(texts) == len(names)
    assert all(re.search(r"against time \(1/J\), 0 to 2", alt) for alt in texts)
    assert "<script" not in text


def test_a_page_goes_into_a_folder(runs, tmp_path):
    arguments = ["view", str(runs / "weak.h5"), "-o", str(tmp_path), "--figures", "curves"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.stderr
    assert figures((tmp_path / "weak.html").read_text(encoding="utf-8")) == ["curves"]


def test_runs_side_by_side_show_what_differs(runs):
    with qsim.open_results(runs / "weak.h5") as a, qsim.open_results(runs / "strong.h5") as b:
        text = side_by_side([a, b], ["weak", "strong"])
        energies = [str(run.scalars["energy_final"]).split(" ")[0][:6] for run in (a, b)]
    rows = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>", text)
    found = {name: (first, second) for name, first, second in rows}
    assert any("0.1" in first and "0.7" in second for first, second in found.values())
    assert not any(name == "evolve.t_final" for name in found)
    assert all(energy in cell for energy, cell in zip(energies, found["energy_final"], strict=True))
    names = figures(text)
    # each of both, beside each other, with places of their own
    assert len(names) == len(set(names))
    assert [name.removeprefix("weak-") for name in names[0::2]] == [
        name.removeprefix("strong-") for name in names[1::2]
    ]


def test_pages_are_made_for_phones_dark_screens_and_paper():
    for rule in (
        r"max-width: 40rem",
        r"prefers-color-scheme: dark",
        r"@media print",
        r"details::details-content",
    ):
        assert re.search(rule, STYLE), rule


def test_formulas_are_read_as_text():
    assert plain(r"$\omega$ (hartree)") == "ω (hartree)"
    assert plain(r"$|\langle\psi(0)|\psi(t)\rangle|^2$") == "|⟨ψ(0)|ψ(t)⟩|^2"
    assert with_powers("hartree^2") == "hartree²"
    assert with_powers("a0^2/(hartree sr^-1)") == "a0²/(hartree sr⁻¹)"
    fig = figure()
    ax = fig.subplots()
    ax.plot([0.0, 1.0, 2.0], label="first")
    ax.set_xlim(0.0, 2.0)
    ax.set(xlabel="time (fs)", ylabel=r"$\epsilon$ (a.u.)")
    ax.legend()
    assert alternative(fig, "two_fields").startswith(
        "two fields: ε (a.u.) against time (fs), 0 to 2, curves first"
    )
