"""What README and documentation show: commands parse, decks load, links lead somewhere, tables are complete.

`docs/refresh.py` runs the commands whose output the pages show.
"""

import importlib.util
import inspect
import json
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

import qsim
from qsim import methods
from qsim.cli import cli
from qsim.core import errors
from qsim.core.deck.blocks import Deck
from qsim.core.deck.load import load_deck, peek_method
from qsim.core.run.stages import stage

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if not path.is_relative_to(ROOT / "docs/_build")
    and not path.is_relative_to(ROOT / "docs/reference/decks")
    and not path.is_relative_to(ROOT / "docs/reference/results")
]
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\S+)?(?P<rest>[^\n]*)\n(?P<body>.*?)^(?P=indent)```", re.M | re.S
)


@pytest.mark.checkout
@pytest.mark.parametrize(("method", "letter"), [("qoc", "Q"), ("tridiag", "T")])
def test_equations_that_the_code_names_are_those_of_the_theory_page(method, letter):
    page = (ROOT / "docs" / "theory" / f"{method}.md").read_text(encoding="utf-8")
    labels = re.findall(rf"\({letter}(\d+)[);,]|\\tag\{{{letter}(\d+)\}}", page)
    numbers = [int(a or b) for a, b in labels]
    assert sorted(n for n in numbers) == list(range(1, max(numbers) + 1)), "each label once, none left out"
    code = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "qsim" / method).rglob("*.py"))
    spans = re.findall(rf"Eqs?\. ((?:{letter}\d+(?:, | and | to |, and )?)+)", code)
    named = {int(n) for span in spans for n in re.findall(rf"{letter}(\d+)", span)}
    for first, last in re.findall(rf"{letter}(\d+) to {letter}(\d+)", " ".join(spans)):
        named |= set(range(int(first), int(last)))
    assert named == set(numbers), sorted(named ^ set(numbers))


@dataclass(frozen=True)
class Command:
    """A `qsim` command line as a page shows it."""

    page: Path
    words: tuple[str, ...]
    exit_code: int = 0

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}: {shlex.join(self.words)}"


def blocks(page: Path, *languages: str) -> list[re.Match[str]]:
    return [
        block for block in FENCE.finditer(page.read_text(encoding="utf-8")) if block["language"] in languages
    ]


def lines(page: Path) -> list[tuple[str, int]]:
    """Command lines of a page, with the exit code that the page announces."""
    found = []
    for block in blocks(page, "console"):
        announced = re.search(r"<!-- run[^>]*\bexit=(\d+)[^>]* -->\n$", block.string[: block.start()])
        exit_code = int(announced[1]) if announced else 0
        shown = (line.strip() for line in block["body"].splitlines())
        found += [(line[2:], exit_code) for line in shown if line.startswith("$ ")]
    return found


def commands() -> list[Command]:
    """Every `qsim ...` of every page; redirections and what follows a pipe are cut off."""
    found = []
    for page in PAGES:
        for line, exit_code in lines(page):
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words: list[str] = []
            tokens = iter([*lexer, ";"])
            for word in tokens:
                if not set(word) <= set("();<>|&"):
                    words.append(word)
                elif set(word) <= set("<>"):
                    next(tokens)  # the file
                else:
                    if words and Path(words[0]).name == "qsim":
                        found.append(Command(page, tuple(words[1:]), exit_code))
                    words = []
    return found


COMMANDS = commands()
DECK_COMMANDS = [
    command
    for command in COMMANDS
    if command.exit_code == 0 and any(word.startswith("inputs/") for word in command.words)
]


def test_commands_are_found():
    assert len(COMMANDS) > 15
    assert {command.page.name for command in COMMANDS} >= {"README.md", "tutorial.md", "cluster.md"}


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_commands_parse(command, tmp_path, monkeypatch):
    """Click accepts the command with its options; nothing is run."""
    (tmp_path / "inputs").symlink_to(ROOT / "inputs", target_is_directory=True)
    for word in command.words:
        if re.fullmatch(r"[\w.-]+\.(h5|yaml)", word):
            (tmp_path / word).touch()
    monkeypatch.chdir(tmp_path)
    top = cli.make_context(
        "qsim", list(command.words[:1]) if command.words[0][0] == "-" else [], resilient_parsing=True
    )
    if command.words[0].startswith("-"):
        return
    name, found, arguments = cli.resolve_command(top, list(command.words))
    with suppress(click.exceptions.Exit):  # raised by --help
        found.make_context(name, arguments, parent=top)


@pytest.mark.parametrize("command", DECK_COMMANDS, ids=str)
def test_decks_of_commands_load(command):
    words = list(command.words)
    overrides = [value for flag, value in pairwise(words) if flag == "--set"]
    for word in words:
        if word.startswith("inputs/"):
            path = ROOT / word
            single = overrides if words[0] != "sweep" else []
            loaded = load_deck(path, stage(peek_method(path), "deck").DECK, single)
            assert words[0] not in methods.TABLE or words[0] == loaded.deck.method


def test_the_page_of_changed_keys_is_of_this_version(monkeypatch):
    """`python docs/deck_keys.py` writes it; decks of the version before run as they are or have new names."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    deck_keys = importlib.import_module("deck_keys")
    now = deck_keys.keys_now()
    assert now == deck_keys.recorded(qsim.__version__)
    assert deck_keys.PAGE.read_text(encoding="utf-8") == deck_keys.page(deck_keys.BEFORE, now)
    for method, (gone, _) in deck_keys.changes(deck_keys.recorded(deck_keys.BEFORE), now).items():
        for key in gone:
            assert key.rpartition(".")[2] in deck_keys.old_names(), f"{method}: {key}"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "yaml")], ids=lambda page: page.name)
def test_yaml_of_pages_is_valid(page, tmp_path):
    """A block is either a whole deck, or a part with the keys that all decks share."""
    for block in blocks(page, "yaml"):
        text = block["body"]
        if any(text == deck.read_text(encoding="utf-8") for deck in (ROOT / "inputs").glob("*/*.yaml")):
            continue  # with the files beside it; other tests run it
        keys = set(re.findall(r"^(\w+):", text, re.M))
        path = tmp_path / "shown.yaml"
        path.write_text(text if "method" in keys else f"method: qoc\n{text}")
        load_deck(path, Deck if keys <= set(Deck.model_fields) else stage(peek_method(path), "deck").DECK)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name
)
def test_python_of_pages_compiles(page):
    for block in blocks(page, "python"):
        compile(block["body"], page.name, "exec")


def test_the_page_on_python_runs(tmp_path, monkeypatch):
    """One block after the other, as a reader types them."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(ROOT / "docs/howto/python.md", "python"):
        exec(compile(block["body"], "python.md", "exec"), names)
    assert names["results"].figures[0] == "overview"
    assert {path.name for path in tmp_path.iterdir()} == {"overview.svg", "both.png"}
    for opened in ("results", "other"):
        names[opened].close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:|#", target):
            continue
        path = target.partition("#")[0]
        assert (page.parent / path).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pictures_say_what_they_show(page):
    assert "![](" not in FENCE.sub("", page.read_text(encoding="utf-8"))


def test_pages_are_plain_markdown():
    """A code host shows no directives; what needs one is added by docs/_ext/contents.py."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"^ *(```|:::)\{", text, re.M), page.name
        assert "_build" not in text or page.name in ("README.md", "CONTRIBUTING.md"), page.name


def test_files_that_pages_show_are_those_of_the_repository():
    refresh = _refresh()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert refresh.copied(page, text) == text, f"python docs/refresh.py {page.stem}"


def test_outputs_that_pages_show_were_written():
    refresh = _refresh()
    found = [match for page in PAGES for match in refresh.RUN.finditer(page.read_text(encoding="utf-8"))]
    assert len(found) > 15
    assert all(match["body"].strip() for match in found)


@pytest.mark.checkout
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if "<!-- run" in (text := page.read_text("utf-8")) or "<!-- printed by" in text],
    ids=lambda page: page.stem,
)
def test_commands_of_pages_print_what_the_pages_show(page):
    """Names and lines are compared, numbers are not: `tests/reference` holds those."""
    name = page.stem if page.parent == ROOT else page.relative_to(ROOT / "docs").with_suffix("").as_posix()
    reply = subprocess.run(
        [sys.executable, ROOT / "docs/refresh.py", "--check", name], capture_output=True, text=True
    )
    assert reply.returncode == 0, reply.stderr


def _refresh():
    spec = importlib.util.spec_from_file_location("refresh", ROOT / "docs/refresh.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- completeness ---------------------------------------------------------------------------------


def test_the_gate_runs_the_commands_of_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    gate = (ROOT / ".ci/run").read_text(encoding="utf-8")
    shown = re.findall(r"^\$ (.*)$", readme, re.M)
    run = re.findall(r"^readonly README_\w+='(.*)'$", gate, re.M)
    assert len(run) == 2
    assert set(run) <= set(shown)


def test_the_readme_is_short_and_begins_with_what_counts():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    prose = re.sub(r"\]\([^)]*\)", "]", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    assert len(re.findall(r"[\w'.-]+", prose)) < 750
    first = text[: text.index("## A deck")]
    assert first.count("(docs/images/gallery/") == len(methods.available())
    assert all(f"| `qsim {method}` |" in first for method in methods.available())
    assert "| does not |" in first


def test_the_deck_of_the_readme_is_the_one_that_it_runs():
    (block,) = blocks(ROOT / "README.md", "yaml")
    assert block["body"] == (ROOT / "inputs/qoc/morse.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("method", "model"),
    [(method, model) for method in methods.available() for model in stage(method, "deck").DECK.variants()],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_reference_of_decks_describes_every_block_once_with_an_example(method, model, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs/_ext")
    from decks import decks_of, reference
    from samples import samples

    text = reference(method, model)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    tables = text.count("| key | type |")
    blocks_of = samples(model, decks_of(method, model))
    assert len(headings) == len(set(headings)) <= tables + 8
    assert tables <= len(blocks_of), "a block stands twice"
    assert tables - 1 <= text.count("```yaml") <= tables, "the whole deck alone has none"
    anchors = {re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-")) for heading in headings}
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= anchors
    monkeypatch.chdir(tmp_path)
    for block, data in blocks_of.items():
        if block is not model and isinstance(data, dict):
            for name in (value for key, value in data.items() if key in ("file", "rhs")):
                Path(str(name)).touch()
            block.model_validate_json(json.dumps(data))


def test_formulas_get_the_files_that_they_load(tmp_path, monkeypatch):
    """Macros that MathJax knows only after a request are found in pages, and asked for."""
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(ROOT / "docs/_ext")
    import offline_math

    if offline_math.found() is None:
        pytest.skip("sphinx-mathjax-offline is not installed")
    static = tmp_path / "_static"
    (static / offline_math.EXTENSIONS).mkdir(parents=True)
    (static / offline_math.SCRIPT).write_text(offline_math.found().read_text())
    loads = offline_math.autoloaded((static / offline_math.SCRIPT).read_text())
    assert {loads[r"\boldsymbol"], loads[r"\cancel"], loads["CD"], loads["prooftree"]} == {
        "boldsymbol",
        "cancel",
        "amscd",
        "bussproofs",
    }
    (tmp_path / "a.html").write_text(
        r'<p>\cancel</p><div class="math notranslate">\[\boldsymbol{r} &lt; \mathrm{d}\]</div><span class="math">'
        r"\(\begin{CD}\end{CD} \require{mhchem}\)</span>"
    )
    assert offline_math.requests((tmp_path / "a.html").read_text(), loads) == {
        "boldsymbol",
        "amscd",
        "mhchem",
    }
    assert list(offline_math.missing(tmp_path)) == [
        f"a.html: {offline_math.EXTENSIONS}/{name}.js" for name in ("amscd", "boldsymbol", "mhchem")
    ]
    application = SimpleNamespace(outdir=tmp_path, builder=SimpleNamespace(format="html"))
    offline_math.copy(application, None)
    assert list(offline_math.missing(tmp_path)) == []
    # what MathJax does not have is told
    (tmp_path / "b.html").write_text(r'<span class="math">\(\require{nothing}\)</span>')
    with pytest.raises(Exception, match=r"b.html: mathjax/input/tex/extensions/nothing.js"):
        offline_math.copy(application, None)


def test_every_exit_code_is_documented():
    page = (ROOT / "docs/reference/exit-codes.md").read_text(encoding="utf-8")
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.M)}
    kinds = [
        kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.QsimError)
    ]
    assert documented == {0, 1, 2} | {kind.exit_code for kind in kinds}


def test_every_method_has_its_theory_page():
    for method in methods.available():
        assert (ROOT / f"docs/theory/{method}.md").exists()
        assert f"theory/{method}" in (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert all(
        f"theory/{method}" in (ROOT / "README.md").read_text("utf-8") for method in methods.available()
    )


def test_theory_pages_have_four_parts_and_no_misprints():
    parts = ["Physics", "Implementation", "Validation", "Performance", "Limits", "References"]
    for page in (ROOT / "docs/theory").glob("*.md"):
        headings = re.findall(r"^## (.*)$", page.read_text(encoding="utf-8"), re.M)
        if page.stem == "misprints":
            assert set(headings) == {f"`{method}`" for method in methods.available()}
        else:
            assert [heading for heading in headings if heading in parts] == parts, page.name
            assert not any("isprint" in heading for heading in headings), page.name


def test_the_job_template_is_valid_shell():
    for script in ("job.sbatch", "ranks.sbatch"):
        subprocess.run(["bash", "-n", ROOT / "docs/howto" / script], check=True)
