"""The command line: what goes to which stream, exit codes, helper commands, completion, signals."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import qsim
from qsim import methods
from qsim.core.results.results import open_results

ROOT = Path(__file__).resolve().parents[1]
RUNNER = Path(__file__).resolve().parent / "methods" / "run_counter.py"
HELPERS = (
    "init",
    "validate",
    "schema",
    "show",
    "plot",
    "compare",
    "check",
    "info",
    "sweep",
    "collect",
    "warmup",
)


def strict_json(text):
    """Parse JSON that any parser reads: without NaN and infinities."""

    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


# --- help -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["import qsim", "from qsim.cli import cli; cli(['--help'])"])
def test_nothing_heavy_is_imported_for_help(code):
    heavy = "{'numpy', 'scipy', 'numba', 'h5py', 'matplotlib', 'pydantic', 'yaml', 'rich', 'cupy'}"
    check = f"import sys, atexit; atexit.register(lambda: print(sorted({heavy} & set(sys.modules))))"
    reply = subprocess.run(
        [sys.executable, "-c", f"{check}\n{code}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert reply.stdout.splitlines()[-1] == "[]"


def test_help_lists_methods_and_helpers(counter, command):
    reply = command("--help")
    assert reply.exit_code == 0
    for name in ("counter", *HELPERS, *methods.available()):
        assert re.search(rf"^  {name} ", reply.stdout, flags=re.MULTILINE), name


@pytest.mark.parametrize("name", HELPERS)
def test_every_helper_explains_itself(command, name):
    reply = command(name, "--help")
    assert reply.exit_code == 0
    assert reply.stdout.startswith(f"Usage: qsim {name}")


def test_help_of_a_method_tells_every_option(counter, command):
    text = command("counter", "-h").stdout
    for option in (
        *(
            "-o",
            "--device",
            "--gpus",
            "--set",
            "--dry-run",
            "--resume",
            "--force",
            "--allow-changes",
            "--json",
        ),
        *("-q", "-v", "--figures", "--format", "--no-figures"),
    ):
        assert option in text


def test_version(command):
    assert command("--version").stdout == f"qsim {qsim.__version__}\n"


# --- usage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", methods.available())
def test_help_of_a_method_tells_its_limits(command, name):
    text = " ".join(command(name, "--help").stdout.split())
    assert f"Limits: {methods.LIMITS[name]}" in text


@pytest.mark.parametrize("arguments", [["deck.yaml"], ["--help"], ["deck.yaml", "--json", "-o", "x"], []])
def test_a_method_of_a_later_version_is_hidden_and_honest(monkeypatch, command, arguments):
    monkeypatch.setitem(methods.TABLE, "alchemy", "Gold.")
    assert "alchemy" not in command("--help").stdout
    reply = command("alchemy", *arguments)
    assert reply.exit_code == 2
    assert "the method 'alchemy' is not part of this version of qsim" in reply.stderr
    assert reply.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["conter"], "did you mean 'counter'?"),
        (["deck.yaml"], "give its method first: qsim METHOD deck.yaml"),
        (["counter"], "Missing argument 'DECK'"),
        (["counter", "deck.yaml", "--device", "gpu"], "'gpu' is not auto, cpu, cuda or cuda:N"),
        (["counter", "deck.yaml", "--resume", "--force"], "--resume and --force exclude each other"),
        (["counter", "deck.yaml", "--allow-changes"], "--allow-changes needs --resume"),
        (["counter", "deck.yaml", "-q", "-v"], "exclude each other"),
        (
            ["counter", "deck.yaml", "--gpus", "2", "--device", "cuda:1"],
            "--gpus and --device cuda:1 exclude each other",
        ),
        (["counter", "deck.yaml", "--gpus", "0"], "0 is not in the range"),
        (["init", "conter"], "unknown method 'conter'; did you mean 'counter'?"),
        (["schema", "nothing"], "unknown method 'nothing'; available:"),
    ],
)
def test_wrong_usage_exits_with_2(counter, command, arguments, message):
    counter.deck()
    reply = command(*arguments)
    assert reply.exit_code == 2
    assert message in reply.stderr
    assert reply.stdout == ""


# --- running --------------------------------------------------------------------------------------


def test_a_run_talks_on_stderr_only(counter, command):
    reply = command("counter", counter.deck(), "--set", "count.steps=7", "--no-figures")
    assert reply.exit_code == 0
    assert reply.stdout == ""
    lines = {line.split()[0]: line for line in reply.stderr.splitlines() if line.split()}
    assert re.fullmatch(r"mean +0\.\d+ ± 0\.\d+ au *", lines["mean"])
    assert re.fullmatch(r"final +0\.\d{1,6} au \(no error known\) *", lines["final"])
    assert list(lines).index("final") < list(lines).index("mean")  # the headline comes first
    assert lines["steps"].split() == ["steps", "7"]
    assert re.search(r"build \S+ s, run \S+ s, write \S+ s, figures \S+ s", lines["time"])
    assert lines["files"].split()[1] == "deck.h5"
    assert "seed" in reply.stderr


def test_verbose_shows_all_digits(counter, command):
    reply = command("counter", counter.deck(extra="run:\n  seed: 7\n"), "-v", "--no-figures")
    assert re.search(r"^final +0\.\d{10,12} au", reply.stderr, flags=re.MULTILINE)


def test_json_is_the_summary_and_nothing_else(counter, command):
    reply = command("counter", counter.deck(), "--json")
    content = strict_json(reply.stdout)
    file = strict_json((counter.folder / "deck.summary.json").read_text())
    # what is on a disk has a sum beside it
    assert len(file.pop("checksum")) == 8
    assert content == file
    assert content["scalars"]["mean"].keys() == {"value", "error", "unit"}
    assert (content["method"], content["status"], content["device"]) == ("counter", "complete", "cpu")


def test_quiet_says_nothing(counter, command):
    reply = command("counter", counter.deck(), "-q")
    assert (reply.exit_code, reply.output) == (0, "")


def test_warnings_are_said_once_and_counted_at_the_end(counter, command):
    reply = command("counter", counter.deck(growth=0.9), "--no-figures")
    assert reply.exit_code == 0
    assert reply.stderr.count("the map dies out") == 1
    assert reply.stderr.splitlines()[-1].split() == ["warnings", "1", "warning", "above"]
    again = command("counter", counter.deck(growth=0.9), "--no-figures", "--resume")
    assert again.stderr.count("the map dies out") == 1


def test_a_quiet_dry_run_says_nothing(counter, command):
    reply = command("counter", counter.deck(), "--dry-run", "-q")
    assert (reply.exit_code, reply.output) == (0, "")


def test_the_command_line_is_recorded(counter):
    deck = counter.deck("my deck")
    subprocess.run([sys.executable, RUNNER, "counter", deck.name, "-q", "--no-figures"], check=True)
    with open_results("my deck.h5") as results:
        assert results.provenance["command"] == "qsim counter 'my deck.yaml' -q --no-figures"


def test_a_complete_run_is_not_repeated(counter, command):
    command("counter", counter.deck(), "-q")
    reply = command("counter", counter.deck(), "--resume", "--json")
    assert reply.exit_code == 0
    assert "deck.h5 is complete; nothing to do" in reply.stderr
    assert strict_json(reply.stdout)["status"] == "complete"


def test_a_dry_run_prints_the_resolved_deck(counter, command):
    reply = command("counter", counter.deck(), "--dry-run")
    assert reply.exit_code == 0
    assert yaml.safe_load(reply.stdout)["count"]["growth"] == 3.9
    assert re.search(r"^steps +20", reply.stderr, flags=re.MULTILINE)
    assert re.search(r"^memory: values +160 B", reply.stderr, flags=re.MULTILINE)
    assert re.search(r"^memory for a job \(--mem\) +\d+M$", reply.stderr, flags=re.MULTILINE)
    assert counter.files() == []
    plan = strict_json(command("counter", counter.deck(), "--dry-run", "--json").stdout)
    assert plan["deck"]["count"]["growth"] == 3.9


def test_a_resolved_deck_gives_the_same_run(counter, command):
    title = 'title: "1e5: no # \\"odd\\""\n'
    counter.deck().write_text(counter.deck().read_text().replace("title: a count\n", title))
    resolved = counter.folder / "resolved.yaml"
    resolved.write_text(command("counter", "deck.yaml", "--set", "run.seed=5", "--dry-run").stdout)
    for name in ("deck.yaml", "resolved.yaml"):
        assert command("counter", name, "-q", "--no-figures", "--set", "run.seed=5").exit_code == 0
    assert command("compare", "deck.h5", "resolved.h5", "--rtol", "0", "--sigmas", "0").exit_code == 0
    with open_results("resolved.h5") as results:
        assert results.title == '1e5: no # "odd"'


# --- exit codes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "arguments", "code", "message"),
    [
        ({"fail": "bug"}, [], 1, "internal error: RuntimeError: the counter lost count"),
        ({"stepz": 3}, [], 3, r"deck.yaml:5:3: count.stepz: unknown key; did you mean 'steps'?"),
        ({}, ["--set", "count.steps=x"], 3, "<--set count.steps>: count.steps: "),
        ({"huge": "true"}, [], 4, "lower count.steps"),
        ({}, ["--device", "cuda:77"], 4, "cuda:77"),
        ({"fail": "nan"}, [], 5, "value is nan after 5 steps"),
        ({}, ["-o", "no/where.h5"], 6, "does not exist"),
    ],
)
def test_failures_exit_with_their_code(counter, command, monkeypatch, count, arguments, code, message):
    monkeypatch.setenv("TMPDIR", str(counter.folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    reply = command("counter", counter.deck(**count), *arguments)
    assert reply.exit_code == code
    assert message in reply.stderr
    assert "Traceback" not in reply.stderr
    assert reply.stdout == ""


def test_a_missing_deck_is_a_file_error(counter, command):
    counter.deck("morse")
    reply = command("counter", "mors.yaml")
    assert reply.exit_code == 6
    assert "did you mean" in reply.stderr


def test_the_traceback_of_a_bug_is_kept_or_shown(counter, command, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(counter.folder))
    line = command("counter", counter.deck(fail="bug")).stderr
    file = re.search(r"the traceback is in (\S+);", line)[1]
    assert "in run\n" in Path(file).read_text()
    assert "RuntimeError: the counter lost count" in Path(file).read_text()
    monkeypatch.setenv("QSIM_TRACEBACK", "1")
    shown = command("counter", counter.deck(fail="bug")).stderr
    assert "Traceback (most recent call last)" in shown
    assert len([path for path in counter.files() if "traceback" in path]) == 1


def test_a_failing_figure_says_that_the_results_are_complete(counter, command, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(counter.folder))
    reply = command("counter", counter.deck(start=0.01))
    assert reply.exit_code == 1
    assert "while drawing the figure 'value'; the results in deck.h5 are complete" in reply.stderr


def test_the_log_goes_to_the_file_of_qsim_log(counter, command, monkeypatch):
    monkeypatch.setenv("QSIM_LOG", "run.log")
    command("counter", counter.deck(growth=0.9), "-q", "--no-figures")
    log = (counter.folder / "run.log").read_text()
    assert "INFO counter deck: a count" in log
    assert re.search(r"WARNING .*the map dies out", log)


@pytest.mark.parametrize("place", ["no/where.log", ".", "pipe"])
def test_a_log_that_cannot_be_written_is_one_warning(counter, command, monkeypatch, place):
    os.mkfifo("pipe")
    monkeypatch.setenv("QSIM_LOG", place)
    reply = command("counter", counter.deck(), "--no-figures")
    assert reply.exit_code == 0
    assert reply.stderr.count(f"warning: cannot write the log {place} (QSIM_LOG): ") == 1
    assert "deck.h5" in counter.files()


def test_a_mistaken_deck_is_told_as_json(counter, command):
    deck = counter.deck(steps=0, start=3)
    for more in ((), ("--dry-run",)):
        reply = command("counter", deck, "--json", *more)
        assert reply.exit_code == 3
        assert strict_json(reply.stdout) == strict_json(command("validate", deck, "--json").stdout)
    (found,) = strict_json(reply.stdout)["decks"]
    assert [problem["key"] for problem in found["problems"]] == ["count.steps", "count.start"]
    assert found["error"] is None
    counter.deck()
    assert command("counter", deck, "-q", "--no-figures").exit_code == 0
    counter.deck(start=0.3)
    (found,) = strict_json(command("counter", deck, "--json", "--resume").stdout)["decks"]
    assert "the complete result of another problem" in found["error"]


# --- signals --------------------------------------------------------------------------------------


def start(deck, *arguments):
    """Start a run of `deck` in a process of its own and wait until it has made a step."""
    process = subprocess.Popen(
        [sys.executable, RUNNER, "counter", deck.name, "--no-figures", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if line.startswith("counting:"):
            return process
    raise AssertionError("the run ended before its first progress line")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGINT"])
def test_a_stopped_run_is_resumed_to_the_same_bits(counter, command, name):
    deck = counter.deck(steps=200, fail="wait", extra="run: {seed: 11}\n")
    Path("wait").touch()
    process = start(deck, "--json")
    process.send_signal(getattr(signal, name))
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 75
    assert strict_json(stdout) == {"method": "counter", "status": "stopped", "checkpoint": "deck.ckpt.h5"}
    assert f"stopped by {name}; checkpoint written to deck.ckpt.h5" in stderr
    assert "--resume" in stderr
    Path("wait").unlink()
    assert counter.files() == ["deck.ckpt.h5"]

    resumed = command("counter", deck, "--resume", "--no-figures")
    assert resumed.exit_code == 0
    assert "continuing from deck.ckpt.h5" in resumed.stderr
    assert counter.files() == ["deck.h5", "deck.summary.json"]
    command("counter", deck, "-o", "straight", "-q", "--no-figures")
    with open_results("deck.h5") as one, open_results("straight.h5") as other:
        assert np.array_equal(one["value"], other["value"])


def test_changed_physics_is_refused_on_resume(counter, command):
    deck = counter.deck(steps=100, pause="5 ms")
    assert command("counter", deck, "-q", "--no-figures", "--set", "run.walltime=0.3 s").exit_code == 75
    reply = command("counter", deck, "--resume", "--set", "count.growth=3.6")
    assert reply.exit_code == 3
    assert "count.growth" in reply.stderr
    changed = ("--resume", "--allow-changes", "--set", "count.growth=3.6", "-q", "--no-figures")
    assert command("counter", deck, *changed).exit_code == 0


def test_json_answers_when_a_run_fails(counter, command):
    deck = counter.deck()
    (counter.folder / "deck.h5").write_text("mine")
    reply = command("counter", deck, "--json", "-q")
    found = strict_json(reply.stdout)
    assert reply.exit_code == found["exit_code"] == 6
    assert (found["method"], found["status"]) == ("counter", "failed")
    assert "deck.h5" in found["error"]


# --- helper commands: decks -----------------------------------------------------------------------


@pytest.mark.parametrize("full", [[], ["--full"]])
def test_init_writes_a_deck_that_is_valid(counter, command, full):
    reply = command("init", "counter", *full)
    assert reply.exit_code == 0
    (counter.folder / "new.yaml").write_text(reply.stdout)
    assert command("validate", "new.yaml").exit_code == 0


def test_validate_reports_all_decks_and_all_mistakes(counter, command):
    good, bad = counter.deck("good", growth=0.9), counter.deck("bad", steps="x", growth=9)
    planned = counter.deck("planned", start=0.5)
    figures = counter.deck("figures", extra="output: {figures: [valu]}\n")
    alien = counter.deck("alien")
    alien.write_text("title: x\nmethod: conter\n")
    reply = command("validate", good, bad, planned, figures, alien, "missing.yaml", "--json")
    assert reply.exit_code == 3
    content = strict_json(reply.stdout)
    assert not content["valid"]
    found = {Path(entry["file"]).stem: entry for entry in content["decks"]}
    assert {name for name, entry in found.items() if entry["valid"]} == {"good"}
    assert [found[name]["method"] for name in ("good", "bad", "alien", "missing")] == [
        "counter",
        "counter",
        "conter",
        None,
    ]
    assert [(p["key"], p["severity"]) for p in found["good"]["problems"]] == [("count.growth", "warning")]
    assert {p["key"] for p in found["bad"]["problems"]} == {"count.steps", "count.growth"}
    assert [(p["key"], p["line"]) for p in found["planned"]["problems"]] == [("count.start", 5)]
    assert found["figures"]["problems"][0]["key"] == "output.figures.0"
    assert [(p["key"], p["line"]) for p in found["alien"]["problems"]] == [("method", 2)]
    assert "not found" in found["missing"]["error"]
    assert counter.files() == []


def test_validate_talks_on_stderr(counter, command):
    reply = command("validate", counter.deck())
    assert (reply.exit_code, reply.stdout) == (0, "")
    assert reply.stderr.endswith("deck.yaml: valid\n")
    missing = command("validate", "missing.yaml")
    assert missing.exit_code == 6


def test_validate_needs_neither_compiler_nor_device(counter):
    argv = [str(RUNNER), "validate", counter.deck().name]
    code = (
        "import sys, runpy; sys.modules['numba'] = sys.modules['cupy'] = sys.modules['matplotlib'] = None\n"
    )
    code += f"sys.argv = {argv!r}; runpy.run_path({str(RUNNER)!r}, run_name='__main__')"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_schema_of_one_and_of_all(counter, command):
    one = strict_json(command("schema", "counter").stdout)
    assert one["properties"]["count"]
    everything = strict_json(command("schema").stdout)
    assert len(everything["oneOf"]) == len(methods.available())
    references = re.findall(r'"#/\$defs/([^"]+)"', json.dumps(everything))
    assert set(references) <= set(everything["$defs"])


# --- helper commands: results ---------------------------------------------------------------------


@pytest.fixture
def results(counter, command):
    """Return a results file."""
    assert command("counter", counter.deck(extra="run: {seed: 1}\n"), "-q", "--no-figures").exit_code == 0
    return counter.folder / "deck.h5"


def test_show(results, command):
    text = command("show", results).stdout
    assert re.search(r"^final +0\.\d{9,12} au \(no error known\) +last value", text, flags=re.MULTILINE)
    assert re.search(r"^value +20 +step +au +value after the step", text, flags=re.MULTILINE)
    assert re.search(r"^seed +1", text, flags=re.MULTILINE)
    content = strict_json(command("show", results, "--json").stdout)
    assert content["tables"]["value"] == {
        "shape": [20],
        "dims": ["step"],
        "unit": "au",
        "description": "value after the step",
    }
    assert content["scalars"]["converged"]["value"] is True
    assert content["provenance"]["seed"] == 1


def test_show_gives_the_deck_back(counter, results, command):
    assert command("show", results, "--deck").stdout == (counter.folder / "deck.yaml").read_text()


@pytest.mark.parametrize("arguments", [["show"], ["plot"], ["compare", "deck.yaml"]])
def test_files_that_are_no_results(counter, command, arguments):
    reply = command(*arguments, counter.deck())
    assert reply.exit_code == 6
    assert "deck.yaml" in reply.stderr


def test_plot(counter, results, command):
    reply = command("plot", results)
    assert reply.exit_code == 0
    assert [Path(line).name for line in reply.stdout.splitlines()] == ["deck.value.png"]
    assert (counter.folder / "deck.value.png").stat().st_size > 1000
    again = command("plot", results, "value")
    assert again.exit_code == 6
    assert "--force" in again.stderr
    assert command("plot", results, "value", "--force").exit_code == 0
    (counter.folder / "figures").mkdir()
    assert command("plot", results, "-o", "figures").exit_code == 0
    assert (counter.folder / "figures" / "deck.value.png").is_file()
    assert command("plot", results, "-o", "nowhere").exit_code == 6
    unknown = command("plot", results, "vlaue")
    assert unknown.exit_code == 2
    assert "it has value, absent" in unknown.stderr


def test_compare(counter, results, command):
    command("counter", counter.deck(), "-q", "--no-figures", "--set", "run.seed=1", "-o", "same")
    command("counter", counter.deck(), "-q", "--no-figures", "--set", "run.seed=2", "-o", "other")
    same = command("compare", results, "same.h5")
    assert (same.exit_code, same.stdout) == (0, "")
    assert "quantities agree" in same.stderr
    other = command("compare", results, "other.h5")
    assert other.exit_code == 7
    assert re.search(r"^differs +final ", other.stdout, flags=re.MULTILINE)
    assert re.search(r"^differs +value +20 +20 ", other.stdout, flags=re.MULTILINE)
    assert not re.search(r"^differs +mean ", other.stdout, flags=re.MULTILINE)  # within its error
    assert command("compare", results, "other.h5", "--atol", "1").exit_code == 0
    shown = command("compare", results, "same.h5", "--all").stdout
    assert "speed, not compared" in shown


def test_info(command):
    content = strict_json(command("info", "--json").stdout)
    assert content["qsim"] == qsim.__version__
    assert content["threads"] >= 1
    assert {"python", "numpy", "cupy"} <= set(content["versions"])
    text = command("info").stdout
    assert re.search(r"^versions: numpy +\d", text, flags=re.MULTILINE)
    assert re.search(r"^cuda +\S", text, flags=re.MULTILINE)


# --- completion -----------------------------------------------------------------------------------


def complete(counter, words, index):
    """Return what bash would offer for the word at `index`."""
    setting = {"_QSIM_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(index)}
    reply = subprocess.run(
        [sys.executable, RUNNER],
        cwd=counter.folder,
        env={**os.environ, **setting},
        capture_output=True,
        text=True,
    )
    return [line.partition(",")[2] for line in reply.stdout.splitlines()]


def test_completion(counter):
    counter.deck("one")
    counter.deck("two").rename(counter.folder / "two.yml")
    for name in ("notes.txt", "old.h5"):
        (counter.folder / name).write_text("")
    (counter.folder / "inputs").mkdir()
    (counter.folder / "inputs" / "three.yaml").write_text("")
    assert complete(counter, "qsim counter ", 2) == ["inputs/", "one.yaml", "two.yml"]
    assert complete(counter, "qsim counter inputs/t", 2) == ["inputs/three.yaml"]
    assert complete(counter, "qsim validate o", 2) == ["one.yaml"]
    assert complete(counter, "qsim show ", 2) == ["inputs/", "old.h5"]
    assert complete(counter, "qsim init cou", 2) == ["counter"]
    assert {"counter", "compare"} <= set(complete(counter, "qsim co", 1))
    assert complete(counter, "qsim init trotter --task le", 4) == ["levels"]
    assert complete(counter, "qsim examples he_l", 2) == ["he_limit"]
    assert complete(counter, "qsim counter one.yaml --set count.st", 4) == ["count.steps=", "count.start="]
    assert "count." in complete(counter, "qsim counter one.yaml --set c", 4)
    assert complete(counter, "qsim sweep one.yaml --over count.gr", 4) == ["count.growth="]
