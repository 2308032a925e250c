"""The commands about examples and results files: examples, cite, plot of several files, view."""

import html.parser
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import qsim
from qsim import methods
from qsim.cli import cli
from qsim.core.deck.load import load_deck
from qsim.core.examples.catalogue import examples
from qsim.core.results.display.bibliography import entries
from qsim.core.run.stages import stage

ROOT = Path(__file__).resolve().parents[1]
ROTOR = {
    "method": "trotter",
    "title": "two <spins>",
    "system": {"spins": 2, "terms": [{"type": "pairs", "list": [[0, 1, 1.0, 1.0, 1.0]]}]},
    "initial": {"type": "basis", "up": [0]},
    "evolve": {"t_final": 3.0, "outputs": 31, "accuracy": 1e-8},
    "observe": [{"sz": "all"}, "return_probability"],
    "run": {"seed": 1},
}


def command(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of different couplings."""
    folder = tmp_path_factory.mktemp("runs")
    for name, coupling in (("one", 1.0), ("two", 0.4)):
        overrides = {"system.terms.0.list": [[0, 1, coupling, coupling, 1.0]]}
        qsim.run(ROTOR, device="cpu", output=folder / f"{name}.h5", overrides=overrides).close()
    return folder


# --- examples -------------------------------------------------------------------------------------


def test_examples_are_listed_by_method():
    reply = command("examples", "--method", "qoc")
    assert reply.exit_code == 0
    names = [line.split()[1] for line in reply.stdout.splitlines()[1:]]
    assert names == sorted(path.stem for path in (ROOT / "inputs/qoc").glob("*.yaml"))
    assert len(command("examples").stdout.splitlines()) == 1 + len(list(ROOT.glob("inputs/*/*.yaml")))


@pytest.mark.parametrize("example", examples(methods.available()), ids=lambda example: example.name)
def test_a_copied_example_is_complete_and_can_be_cited(example, tmp_path):
    reply = command("examples", example.name, "-o", tmp_path)
    assert reply.exit_code == 0
    assert reply.stdout.splitlines()[0] == str(tmp_path / f"{example.name}.yaml")
    deck = tmp_path / f"{example.name}.yaml"
    method = stage(example.method, "deck")
    assert set(method.references(load_deck(deck, method.DECK).deck)) <= entries().keys()
    for cache in re.findall(r"cache: ([\w.]+)", deck.read_text()):
        assert (tmp_path / cache).exists() == (example.path.parent / cache).exists()
    assert command("examples", example.name, "-o", tmp_path).exit_code == 6  # nothing is overwritten


def test_init_prints_an_example():
    reply = command("init", "tridiag", "--example", "solve_file")
    assert reply.stdout == (ROOT / "inputs/tridiag/solve_file.yaml").read_text()
    assert "it reads rod.mtx, rod_rhs.txt" in reply.stderr
    wrong = command("init", "tridiag", "--example", "solve_fil")
    assert wrong.exit_code == 2
    assert "did you mean 'solve_file'" in wrong.stderr
    assert command("init", "qoc", "--example", "solve_file").exit_code == 2


# --- citations ------------------------------------------------------------------------------------


def test_entries_are_bibtex():
    for key, entry in entries().items():
        assert entry.startswith("@"), key
        assert entry.count("{") == entry.count("}"), key
        assert "year = {" in entry
        assert "title = {" in entry
        assert key == "qsim" or "journal = {" in entry or "eprint = {" in entry


def test_cite_names_what_the_run_used(runs):
    reply = command("cite", runs / "one.h5")
    assert reply.exit_code == 0
    keys = re.findall(r"^@\w+\{(.*),$", reply.stdout, re.M)
    assert keys[:2] == ["qsim", "Dente2013"]
    assert (
        command("cite", ROOT / "inputs/qoc/morse.yaml").stdout.count("\n@") == 1
    )  # after that of qsim, of L-BFGS
    assert "Byrd" in command("cite", ROOT / "inputs/qoc/morse.yaml").stdout


# --- figures --------------------------------------------------------------------------------------


def test_several_files_in_one_figure(runs, tmp_path):
    reply = command(
        "plot", runs / "one.h5", runs / "two.h5", "--overlay", "curves", "norm", "-o", tmp_path,
        "--format", "svg", "--format", "png", "--size", "5x3",
    )  # fmt: skip
    assert reply.exit_code == 0, reply.output
    names = [Path(line).name for line in reply.stdout.splitlines()]
    assert names == [f"one+two.{name}.{ending}" for name in ("curves", "norm") for ending in ("svg", "png")]
    text = (tmp_path / "one+two.curves.svg").read_text()
    assert 'width="360pt" height="216pt"' in text
    assert text.count("#0072b2") > 0  # a colour for each run
    assert text.count("#d55e00") > 0


def test_overlays_that_cannot_be(runs, tmp_path):
    both = (runs / "one.h5", runs / "two.h5")
    assert "two results files" in command("plot", both[0], "--overlay").stderr
    maps = command("plot", *both, "--overlay", "sz_map", "-o", tmp_path)
    assert maps.exit_code == 6
    assert "a map cannot be overlaid" in maps.stderr
    assert "has no figure 'sz_mat'" in command("plot", *both, "sz_mat").stderr


def test_figures_in_a_style_of_ones_own(runs, tmp_path):
    style = tmp_path / "mine.mplstyle"
    style.write_text("axes.facecolor: ff0000\n")
    assert (
        command(
            "plot", runs / "one.h5", "norm", "-o", tmp_path, "--style", style, "--format", "svg"
        ).exit_code
        == 0
    )
    assert "#ff0000" in (tmp_path / "one.norm.svg").read_text()
    wrong = command("plot", runs / "one.h5", "norm", "-o", tmp_path, "--style", "nonesuch", "--force")
    assert wrong.exit_code == 6
    assert "no style 'nonesuch'" in wrong.stderr
    assert "7x4" in command("plot", runs / "one.h5", "norm", "--size", "7").stderr


# --- page -----------------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """Checks that elements close, and collects tags with their attributes."""

    VOID = ("meta", "img", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.texts = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_view_writes_a_page_that_needs_nothing_else(runs, tmp_path):
    shutil.copy(runs / "one.h5", tmp_path / "run.h5")
    reply = command("view", tmp_path / "run.h5")
    assert reply.stdout.strip() == str(tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text(encoding="utf-8")
    page = Page(text)
    tags = [tag for tag, _ in page.found]
    assert "script" not in tags
    assert "link" not in tags
    sources = [attrs["src"] for tag, attrs in page.found if tag == "img"]
    assert len(sources) >= 3
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert "http" not in re.sub(r"base64,[^\"]*", "", text)
    assert "two <spins>" in page.texts  # escaped in the file
    assert "<spins>" not in text
    assert any("error_estimate" in found for found in page.texts)
    assert any("return_probability" in found for found in page.texts if "observe" in found)  # the deck
    assert command("view", tmp_path / "run.h5").exit_code == 6
    few = command("view", tmp_path / "run.h5", "--figures", "curves", "--force")
    assert few.exit_code == 0
    assert (tmp_path / "run.html").read_text().count("<figure") == 1


# --- differences ----------------------------------------------------------------------------------


def test_some_quantities_of_two_runs_are_compared(runs):
    both = (runs / "one.h5", runs / "two.h5")
    assert command("compare", *both).exit_code == 7
    one = command("compare", *both, "--only", "norm")
    assert one.exit_code == 0, one.output
    assert "1 quantities agree" in one.stderr
    several = command("compare", *both, "--only", "norm", "--only", "sz")
    assert several.exit_code == 7
    assert "1 of 2 quantities differ" in several.output
    assert command("compare", *both, "--only", "sz", "--atol", "1.1").exit_code == 0
    unknown = command("compare", *both, "--only", "nrom")
    assert unknown.exit_code == 2
    assert "neither file has 'nrom'" in unknown.stderr
    head = command("compare", *both, "--headline", "--all")
    names = {line.split()[0] for line in head.stdout.replace("differs", "").splitlines()[1:]}
    assert "error_estimate" in names
    assert not names & {"sz", "norm", "time"}


@pytest.mark.parametrize(
    ("method", "listing"),
    [
        ("tridiag", "its tasks: propagate, solve, scaling, atom"),
        ("sturmian", "its tasks: bound"),
        ("qoc", "its decks have no task"),
    ],
)
def test_a_task_that_there_is_not_has_no_deck(command, method, listing):
    reply = command("init", method, "--task", "atoms")
    assert reply.exit_code == 2
    assert reply.stdout == ""
    assert f"{method} has no task 'atoms'; {listing}" in reply.stderr
