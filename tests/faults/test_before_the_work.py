"""What would fail or destroy something after the work is refused before it; no run gets as far as its build."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from qsim.core.deck.load import load_deck
from qsim.core.device.compilers import caches
from qsim.core.device.footprint import INTERPRETER
from qsim.core.errors import DeckError, DeviceError, FileError, MemoryLimitError
from qsim.core.results.results import open_results
from qsim.core.run.files import publish
from qsim.core.run.files.paths import paths_in, refuse_inputs
from qsim.core.run.pipeline import Options, execute
from qsim.core.run.stages import stage

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run(counter):
    def invoke(deck, *overrides, **options):
        return execute("counter", deck, Options(verbosity=-1, overrides=overrides, **options))

    return invoke


@pytest.fixture
def no_work(monkeypatch, counter):
    """Make a build fail the test."""
    import qsim.counter.build as build

    def never(*arguments):
        pytest.fail("the work was begun")

    monkeypatch.setattr(build, "build", never)


@pytest.mark.parametrize("title", ['"a\\0b"', '"\\0"'])
def test_titles_that_hdf5_cannot_hold(counter, run, no_work, title):
    with pytest.raises(DeckError, match=r"title: .*NUL"):
        run(counter.deck(), f"title={title}")


@pytest.mark.parametrize("length", [231, 256, 300, 5000])
def test_names_that_the_file_system_does_not_take(counter, run, no_work, length):
    with pytest.raises(FileError, match="too long|File name too long"):
        run(counter.deck(), output="n" * length)
    assert counter.files() == []


@pytest.mark.parametrize("output", ["a\0b", "deck.yaml/x.h5"])
def test_outputs_that_are_no_files(counter, run, no_work, output):
    with pytest.raises(FileError):
        run(counter.deck(), output=output)
    assert counter.files() == []


@pytest.mark.parametrize(
    "name", ["deck.summary.json", "deck.value.png", "deck.ckpt.h5", "deck.s001.extra.dat"]
)
@pytest.mark.parametrize("make", ["mkdir", "fifo"])
def test_even_force_replaces_files_only(counter, run, no_work, name, make):
    path = counter.folder / name
    {"mkdir": path.mkdir, "fifo": lambda: os.mkfifo(path)}[make]()
    with pytest.raises(FileError, match="no plain file|is_dir|folder"):
        run(counter.deck(beside="true"), force=True)
    assert path.exists()


def test_links_to_nothing_are_something(counter, run, no_work):
    for name in ("deck.h5", "deck.summary.json", "deck.value.png", "deck.ckpt.h5"):
        (counter.folder / name).symlink_to(counter.folder / "elsewhere")
        with pytest.raises(FileError, match=name):
            run(counter.deck())
        (counter.folder / name).unlink()
    assert counter.files() == []


def test_a_link_is_replaced_by_force_not_what_it_leads_to(counter, run):
    (counter.folder / "elsewhere").write_text("precious")
    (counter.folder / "deck.h5").symlink_to(counter.folder / "elsewhere")
    run(counter.deck(), force=True, figures=False)
    assert (counter.folder / "elsewhere").read_text() == "precious"
    assert not (counter.folder / "deck.h5").is_symlink()


@pytest.mark.parametrize("value", ["0", "-1", "all", "2.5", "1e3"])
def test_numbers_of_threads_that_numba_does_not_take(counter, run, no_work, monkeypatch, value):
    monkeypatch.setenv("NUMBA_NUM_THREADS", value)
    with pytest.raises(DeviceError, match="NUMBA_NUM_THREADS"):
        run(counter.deck())


def test_a_working_folder_that_was_deleted(counter, run, no_work, monkeypatch):
    deck = counter.deck()
    gone = counter.folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(FileError, match="No such file"):
        run(deck)
    monkeypatch.chdir(counter.folder)


def test_results_are_readable_whatever_the_umask(counter, run):
    before = os.umask(0o777)
    try:
        run(counter.deck())
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in counter.folder.glob("deck.[hsv]*")}
    assert modes == dict.fromkeys(["deck.h5", "deck.summary.json", "deck.value.png"], 0o600)


def test_names_and_titles_that_are_not_utf8_reach_the_results(counter, run):
    deck = counter.deck(name=os.fsdecode(b"\xff"))
    run(deck, "title=αβ\u2028γ")
    with open_results(os.fsdecode(b"\xff.h5")) as results:
        assert results.title == "αβ\u2028γ"
        assert results.provenance["deck_file"].endswith("\\udcff.yaml")
    summary = json.loads((counter.folder / os.fsdecode(b"\xff.summary.json")).read_bytes())
    assert os.fsdecode(b"\xff.h5") in summary["files"]


def test_a_backend_that_does_not_exist_draws_into_files_all_the_same():
    script = (
        "import os, qsim.core.results.plotting as p; p.ready();"
        "assert os.environ['MPLBACKEND'] == 'nonsense'; import matplotlib; print(matplotlib.__version__)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MPLBACKEND": "nonsense"}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


def test_a_matplotlib_that_fails_is_noticed_before_the_work(counter, run, no_work, monkeypatch):
    def broken(*arguments):
        raise ImportError("no such library")

    monkeypatch.setattr("qsim.core.results.plotting._matplotlib", broken)
    with pytest.raises(FileError, match="no figures can be drawn: .*no such library") as error:
        run(counter.deck())
    assert "--no-figures" in error.value.hint


# --- overwriting ----------------------------------------------------------------------------------


def test_files_of_a_method_are_not_overwritten(counter, run, no_work):
    path = counter.folder / "deck.s001.extra.dat"
    path.write_text("precious")
    with pytest.raises(FileError, match=r"s001\.extra\.dat exists"):
        run(counter.deck(beside="true"))
    assert path.read_text() == "precious"


def test_what_the_earlier_run_left_goes_with_its_results(counter, run):
    run(counter.deck(beside="true"))
    assert "deck.s001.extra.dat" in counter.files()
    mine = counter.folder / "deck.mine.png"
    mine.write_text("not of the run")
    with open_results(run(counter.deck(), force=True, figures=False).results) as results:
        assert results.scalars["steps"].value == 20
    assert counter.files() == ["deck.h5", "deck.mine.png", "deck.summary.json"]


def test_the_figures_of_the_earlier_run_survive_one_that_fails(counter, run):
    run(counter.deck())
    with pytest.raises(RuntimeError):
        run(counter.deck(fail="bug"), force=True)
    assert counter.files() == ["deck.h5", "deck.summary.json", "deck.value.png"]


def test_figures_that_stay_beside_other_results_are_named(counter, run):
    run(counter.deck())
    (counter.folder / "deck.h5").unlink()
    (counter.folder / "deck.summary.json").unlink()
    summary = run(counter.deck(), figures=False).summary
    assert any("of an earlier run" in text and "deck.value.png" in text for text in summary["warnings"])


@pytest.mark.parametrize(
    "listed",
    [
        '["/etc/passwd", "../x.png", "deck.yaml", "deck.mine.txt"]',
        "7",
        "null",
        "[[]]",
        '["deck.\\u0000.png"]',
    ],
)
def test_a_summary_that_lists_anything_costs_no_file(counter, run, listed):
    deck = counter.deck()
    (counter.folder / "deck.mine.txt").write_text("precious")
    (counter.folder / "deck.summary.json").write_text(f'{{"files": {listed}}}')
    run(deck, force=True, figures=False)
    assert deck.exists()
    assert (counter.folder / "deck.mine.txt").exists()


def test_what_a_deck_reads_is_not_its_output(tmp_path, monkeypatch):
    """By any of its names, with --force or without."""
    (tmp_path / "in.h5").write_text("precious")
    (tmp_path / "out.h5").symlink_to(tmp_path / "in.h5")
    os.link(tmp_path / "in.h5", tmp_path / "hard.h5")
    for name in ("in.h5", "out.h5", "hard.h5"):
        with pytest.raises(FileError, match="is read by this run"):
            refuse_inputs([tmp_path / "other.h5", tmp_path / name], [tmp_path / "in.h5"])
    refuse_inputs([tmp_path / "other.h5"], [tmp_path / "in.h5", tmp_path / "none"])
    deck = load_deck(ROOT / "inputs/tridiag/solve_file.yaml", stage("tridiag", "deck").DECK).deck
    assert {path.name for path in paths_in(deck)} == {"rod.mtx", "rod_rhs.txt"}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"scalars": {}}', "\xff", "[" * 5000])
def test_a_damaged_summary_of_a_complete_run_is_written_again(counter, run, content):
    run(counter.deck(), figures=False)
    (counter.folder / "deck.summary.json").write_text(content, encoding="latin-1")
    assert run(counter.deck(), resume=True, figures=False).summary["scalars"]["steps"]["value"] == 20
    assert json.loads((counter.folder / "deck.summary.json").read_text())["status"] == "complete"


def test_what_a_complete_run_lacks_is_added_whatever_stops_it(counter, run, monkeypatch):
    """A stop request before the work would end the process between two figures and say that nothing was written."""
    run(counter.deck(), figures=False)
    (counter.folder / "deck.summary.json").unlink()
    draw, heard = publish.draw_figure, []

    def draw_and_be_stopped(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return draw(*arguments)

    monkeypatch.setattr(publish, "draw_figure", draw_and_be_stopped)
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        run(counter.deck(), resume=True)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == []
    assert counter.files() == ["deck.h5", "deck.summary.json", "deck.value.png"]


def test_the_method_qmc_says_which_files_it_adds():
    from qsim.qmc.deck import DECK
    from qsim.qmc.output import extra_paths

    loaded = load_deck(
        ROOT / "inputs/qmc/he_atom.yaml",
        DECK,
        ["output.scalar_dat=true", "series=[{vmc: {}}, {dmc: {timesteps: [0.02, 0.01]}}]"],
    )
    assert [path.name for path in extra_paths(loaded.deck, Path("he"))] == [
        f"he.s00{number}.scalar.dat" for number in range(3)
    ]


# --- results that cannot be written ---------------------------------------------------------------


def test_results_that_cannot_be_written_are_rescued(counter, run, monkeypatch, tmp_path_factory):
    """The folder of the output vanishes during the run."""
    import qsim.counter.run as stage

    place = counter.folder / "place"
    place.mkdir()
    original = stage.run

    def vanish(*arguments):
        result = original(*arguments)
        for path in place.iterdir():
            path.unlink()
        place.rmdir()
        return result

    monkeypatch.setattr(stage, "run", vanish)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("rescue")))
    with pytest.raises(FileError, match="the complete results are in") as error:
        run(counter.deck(), output="place/deck.h5", figures=False)
    path = str(error.value).rpartition(" in ")[2].removesuffix(" instead")
    assert path in error.value.hint
    with open_results(path) as results:
        assert results["value"].shape == (20,)


# --- memory ---------------------------------------------------------------------------------------


def test_the_interpreter_counts(counter, run, no_work, monkeypatch):
    """What the process has already is not needed twice; what is still to come is."""
    from qsim.core.device import device

    deck = counter.deck()
    monkeypatch.setattr(device, "resident_memory", lambda: 100_000_000)
    for free, fits in ((150_000_000, False), (250_000_000, True)):
        monkeypatch.setattr(device, "free_host_memory", lambda free=free: free)
        if fits:
            run(deck, dry_run=True)
        else:
            with pytest.raises(MemoryLimitError, match="Python and its libraries 220 MB"):
                run(deck, dry_run=True)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory as Linux gives it")
def test_the_estimate_for_the_interpreter_is_near_the_truth(counter):
    runner = ROOT / "tests/methods/run_counter.py"
    counter.deck()
    script = (
        "import resource, subprocess, sys;"
        "subprocess.run(sys.argv[1:], check=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)"
    )
    command = [
        sys.executable,
        "-c",
        script,
        sys.executable,
        str(runner),
        "counter",
        "deck.yaml",
        "-q",
        "--no-figures",
    ]
    peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])
    assert 0.25 * INTERPRETER < peak < 1.15 * INTERPRETER  # the counter compiles nothing


# --- caches ---------------------------------------------------------------------------------------


@pytest.fixture
def places(tmp_path):
    home, package, scratch = (tmp_path / name for name in ("home", "package", "scratch"))
    for folder in (home, package, package / "core", scratch):
        folder.mkdir()
    return home, package, {"HOME": str(home), "TMPDIR": str(scratch)}


@pytest.fixture
def read_only(monkeypatch):
    """Make folders read-only also for root."""
    real, closed = os.access, []
    monkeypatch.setattr(
        "os.access",
        lambda path, mode: real(path, mode) and not any(Path(path).is_relative_to(c) for c in closed),
    )
    monkeypatch.setattr(caches, "NOTICES", [])
    return closed.append


def test_a_home_that_can_be_written_is_enough(places, read_only):
    _home, package, environ = places
    read_only(package)
    before = dict(environ)
    caches.ensure_kernel_cache(environ, package)
    assert environ == before
    assert caches.NOTICES == []


def test_an_installation_that_can_be_written_is_enough_for_numba(places, read_only):
    home, package, environ = places
    read_only(home)
    caches.ensure_kernel_cache(environ, package)
    assert "NUMBA_CACHE_DIR" not in environ
    assert caches.NOTICES == []


def test_where_nothing_can_be_written_there_is_a_private_folder(places, read_only):
    home, package, environ = places
    read_only(home)
    read_only(package)
    caches.ensure_kernel_cache(environ, package)
    folder = Path(environ["TMPDIR"]) / f"qsim-kernels-{os.getuid()}"
    assert environ["NUMBA_CACHE_DIR"] == str(folder / "numba")
    assert environ["CUPY_CACHE_DIR"] == str(folder / "cupy")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(caches.NOTICES) == 1
    caches.ensure_kernel_cache(environ, package)
    assert len(caches.NOTICES) == 1


def test_a_full_disk_takes_no_kernels(places, monkeypatch):
    home, package, environ = places
    real = os.statvfs
    full = SimpleNamespace(f_bavail=1, f_frsize=4096)
    monkeypatch.setattr(caches, "NOTICES", [])
    monkeypatch.setattr("os.statvfs", lambda path: full if Path(path).is_relative_to(package) else real(path))
    caches.ensure_kernel_cache(environ, package)
    assert environ["NUMBA_CACHE_DIR"].startswith(environ["TMPDIR"])
    environ["NUMBA_CACHE_DIR"] = str(home / "own")
    caches.ensure_kernel_cache(environ, package)
    assert environ["NUMBA_CACHE_DIR"] == str(home / "own")


def test_a_folder_that_others_can_write_is_not_trusted(places, read_only):
    home, package, environ = places
    read_only(home)
    read_only(package)
    trap = Path(environ["TMPDIR"]) / f"qsim-kernels-{os.getuid()}"
    trap.mkdir()
    trap.chmod(0o777)
    caches.ensure_kernel_cache(environ, package)
    assert not environ["NUMBA_CACHE_DIR"].startswith(f"{trap}/")


@pytest.mark.exhaustive
@pytest.mark.checkout
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="gives up the rights of root")
def test_a_read_only_installation_and_home_run(tmp_path):
    """A copy that belongs to another user, a home that cannot be written: results, and one notice."""
    import shutil

    place = tmp_path / "place"
    shutil.copytree(ROOT / "qsim", place / "qsim", ignore=shutil.ignore_patterns("__pycache__"))
    home, out, scratch = place / "home", place / "out", place / "tmp"
    for folder in (home, out, scratch):
        folder.mkdir()
    for folder in (out, scratch):
        folder.chmod(0o777)
    for folder in [place, *place.rglob("*")]:
        if folder.is_dir() and folder not in (out, scratch):
            folder.chmod(0o555)
    for folder in [tmp_path, *tmp_path.parents][:4]:
        if folder.stat().st_uid == 0 and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    deck = ROOT / "inputs/trotter/autocorrelation_a1.yaml"
    command = [
        sys.executable,
        "-m",
        "qsim",
        "trotter",
        str(deck),
        "--set",
        "evolve.t_final=1",
        "--no-figures",
    ]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(scratch),
        "PYTHONPATH": str(place),
    }
    done = subprocess.run(
        command,
        cwd=out,
        env=environment,
        user=12345,
        group=12345,
        extra_groups=[],
        capture_output=True,
        text=True,
    )
    for folder in [place, *place.rglob("*")]:
        if folder.is_dir():
            folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("compiled kernels are kept in") == 1
    assert (out / "autocorrelation_a1.h5").exists()
