"""Decks with thousands of mistakes and values of any length: few lines, short ones, in linear time."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from pydantic import Field

from qsim.core.deck import messages, yaml_marks
from qsim.core.deck.blocks import Block, Deck, DeckPath, Finding
from qsim.core.deck.load import load_deck
from qsim.core.errors import MOST, DeckError, Diagnostic, More, at_most

INPUTS = Path(__file__).resolve().parents[2] / "inputs"


class Item(Block):
    size: int = Field(default=1, ge=0, description="a size")


class Model(Deck):
    method: str
    items: list[Item] = Field(default_factory=list, description="items")
    file: DeckPath | None = None

    def check(self):
        for index, item in enumerate(self.items):
            if item.size == 0:
                yield Finding(f"items.{index}.size", "nothing", "warning")


def load(folder, text, *overrides):
    path = folder / "deck.yaml"
    path.write_text("method: test\n" + text)
    return load_deck(path, Model, overrides)


def mistakes(folder, text, *overrides):
    with pytest.raises(DeckError) as caught:
        load(folder, text, *overrides)
    return caught.value


@pytest.mark.parametrize(
    ("line", "count"), [("key{}: 1\n", 999), ("items.{}: 1\n", 777), ("'{}': &a{} x\n", 300)]
)
def test_fifty_lines_and_how_many_more(tmp_path, line, count):
    error = mistakes(tmp_path, "".join(line.replace("{}", str(i)) for i in range(count)))
    lines = str(error).splitlines()
    assert len(lines) == MOST + 1
    assert lines[-1] == f"... and {count - MOST} more"
    assert [int(text.split(":")[1]) for text in lines[:-1]] == list(range(2, MOST + 2))


def test_mistakes_inside_lists_and_of_overrides_count(tmp_path):
    error = mistakes(tmp_path, f"items: [{', '.join(['{size: -1}'] * 400)}]\n", "nonsense")
    assert str(error).splitlines()[-1] == f"... and {401 - MOST} more"


def test_duplicate_keys_are_limited_too(tmp_path):
    error = mistakes(tmp_path, "title: a\n" * 3000)
    assert str(error).splitlines()[-1] == f"... and {2999 - MOST} more"


def test_few_mistakes_are_all_told(tmp_path):
    error = mistakes(tmp_path, "".join(f"k{i}: 1\n" for i in range(MOST)))
    assert len(error.diagnostics) == MOST
    assert not isinstance(error.diagnostics[-1], More)


def lookups(monkeypatch, text, folder):
    """Return how many characters and keys are looked at for a deck, which does not depend on the machine."""
    seen = []
    for module, name in ((messages, "walk"), (messages, "_explain"), (yaml_marks, "Mark")):
        real = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *given, real=real, name=name: seen.append(name) or real(*given)
        )
    error = mistakes(folder, text)
    monkeypatch.undo()
    return str(error), {name: seen.count(name) for name in set(seen)}


def test_a_block_of_very_many_keys_is_read_no_further(tmp_path, monkeypatch):
    said, looked = lookups(monkeypatch, "".join(f"sizes{i}: 1\n" for i in range(100_000)), tmp_path)
    assert said.endswith(":1001:1: more than 1000 keys in one block; the rest is not read")
    assert looked["Mark"] < 6000
    assert "walk" not in looked


def test_of_very_many_wrong_items_few_are_explained(tmp_path, monkeypatch):
    text = "items:\n" + "- {sized: 1}\n" * 5000
    said, looked = lookups(monkeypatch, text, tmp_path)
    assert said.splitlines()[0].endswith("items.0.sized: unknown key; did you mean 'size'? allowed: size")
    assert said.splitlines()[-1] == f"... and {5000 - MOST} more"
    assert looked["walk"] <= messages.WALKED + 2 * messages.EXPLAINED
    assert looked["_explain"] <= messages.EXPLAINED


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML without libyaml")
def test_large_plain_decks_are_read_by_libyaml_to_the_same_nodes_or_words(monkeypatch):
    """Two inputs with some characters changed; 4 848 such texts were read to the same."""
    texts = [(INPUTS / name).read_text() for name in ("sturmian/he_dpi.yaml", "tridiag/hhg_800nm.yaml")]
    random = np.random.default_rng(5)
    for trial in range(150):
        characters = list(texts[trial % 2][:500])
        for _ in range(int(random.integers(0, 4))):
            place = int(random.integers(len(characters)))
            characters[place] = str(
                random.choice([*"{}[]:,-#*|>'\"@ ~=.aA0\\", "\n", "", characters[place - 1]])
            )
        found = []
        for limit in (0, 10**9):
            monkeypatch.setattr(yaml_marks, "LONG", limit)
            try:
                found.append(yaml_marks.parse_yaml("".join(characters), "deck"))
            except DeckError as error:
                found.append(str(error))
        assert found[0] == found[1]


def test_warnings_are_limited_and_told_once(tmp_path):
    loaded = load(tmp_path, f"items: [{', '.join(['{size: 0}'] * 130)}]\n")
    loaded.raise_for(loaded.deck.check())
    assert len(loaded.warnings) == MOST + 1
    assert loaded.warnings[-1] == "... and 80 more warnings"


LONG = "x" * 100_000


@pytest.mark.parametrize(
    "text",
    [
        f"file: {LONG}\n",
        f"title: [{LONG}]\n",
        f"{LONG}: 1\n",
        f"items: {LONG}\n",
        f"items: [{{size: {LONG}}}]\n",
        f"method: {LONG}\n",
        f"title: !{LONG} a\n",
        f"title: *{LONG}\n",
        f"title: !!int {LONG}\n",
        " " * 50_000 + "title: a\n" + " " * 50_000 + "title: b\n",
    ],
)
def test_long_values_are_shortened(tmp_path, text):
    error = mistakes(tmp_path, text)
    assert len(str(error)) < 1500
    assert all(len(problem.excerpt()) < 800 for problem in error.diagnostics)


@pytest.mark.parametrize("item", [LONG, f"{LONG}=1", f"items={LONG}", f"title.{LONG}=1", f"items.{LONG}=1"])
def test_long_overrides_are_shortened(tmp_path, item):
    assert len(str(mistakes(tmp_path, "title: a\n", item))) < 1500


def test_an_override_has_no_place_but_its_name(tmp_path):
    error = mistakes(tmp_path, "", "run.seed=-3")
    assert str(error).startswith(
        "<--set run.seed>: run.seed: expected a whole number of at least 0, found -3"
    )
    assert str(mistakes(tmp_path, "", "title=[a")).startswith("<--set title>:1:")


def test_at_most_counts_what_was_counted_before():
    problems = [Diagnostic("f", k, 1, "", "m") for k in range(MOST + 3)]
    once = at_most(problems, untold=4)
    assert str(once[-1]) == "... and 7 more"
    assert at_most(problems[:3]) == tuple(problems[:3])
    assert str(at_most([*once, *problems])[-1]) == f"... and {7 + len(problems)} more"
