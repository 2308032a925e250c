"""What is written from a model: decks that load, schemas that tell the truth, pages that name every key."""

import json
import re
from typing import Annotated, Literal

import pytest
from pydantic import Field

from qsim import methods
from qsim.core.deck.blocks import Block, ComplexNumber, Count, Deck, PositiveCount, RunBlock, short_form
from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.fields import tasks_of
from qsim.core.deck.load import load_deck
from qsim.core.deck.reference import deck_reference
from qsim.core.deck.template import schema, template
from qsim.core.deck.units import Angle, Duration, Energy, Length, Time
from qsim.core.deck.yaml_marks import parse_yaml
from qsim.core.errors import DeckError
from qsim.core.run.examine import examine
from qsim.core.run.stages import stage


class Morse(Block):
    """A Morse potential."""

    type: Literal["morse"]
    D: Annotated[Energy, Field(gt=0)] = Field(description="depth", json_schema_extra={"example": "5.4 eV"})
    r0: Length = 1.8


class Formula(Block):
    """A formula."""

    type: Literal["formula"]
    value: Annotated[str, ExpressionText("x")] = "x^2 # no comment"[:3]


class Free(Block):
    """Nothing."""

    type: Literal["free"]


Potential = Annotated[Morse | Formula | Free, Field(discriminator="type"), short_form]


class Grid(Block):
    """The grid."""

    xmin: Length = -10.0
    points: PositiveCount = Field(description="number of points", json_schema_extra={"example": 641})


class Atom(Block):
    """An atom."""

    charge: Annotated[float, Field(ge=0.5, lt=2)]
    weights: Annotated[list[float], Field(min_length=2, max_length=2)]


class Toy(Deck):
    """A toy. It has more to say.

    And more.
    """

    method: Literal["toy"]
    potential: Potential
    other: Potential = Field(default_factory=lambda: Morse(type="morse", D=0.2))
    mask: Potential | None = None
    grid: Grid
    zoom: Grid | None = Field(default=None, description="a finer grid | in a window <x>")
    atoms: list[Atom]
    extra: list[Potential] = Field(default_factory=list, description="more potentials")
    named: dict[str, Grid] = Field(default_factory=dict)
    length: Annotated[Time, Field(gt=0)] = "20 fs"
    limit: Duration = "10 min"
    phase: Annotated[Angle, Field(ge=0, le=7)] = 0.0
    steps: Count | None = Field(default=None, json_schema_extra={"example": 400})
    switch: bool = False
    note: str = 'a "quoted": text, with # and \\ and\ttab'
    weights: list[ComplexNumber] = Field(default_factory=lambda: [1j, 1.0, 1 - 2j])
    pair: tuple[float, int] = (1e-10, 3)
    kind: Literal["one", "no", "10"] = "no"
    words: Literal["all"] | list[str] = Field(default_factory=lambda: ["1e6", "null", "a b", ""])


@pytest.fixture
def load(tmp_path):
    def loader(text, model=Toy):
        path = tmp_path / "toy.yaml"
        path.write_text(text)
        return load_deck(path, model).deck

    return loader


def _uncomment(text):
    return re.sub(r"^(\s*)# ", r"\1", text, flags=re.MULTILINE)


def test_minimal_template_has_the_required_keys_and_the_examples(load):
    text = template(Toy)
    keys = re.findall(r"^(\w+):", text, flags=re.MULTILINE)
    assert keys == ["method", "potential", "grid", "atoms", "steps"]
    deck = load(text)
    assert deck.grid.points == 641
    assert deck.steps == 400
    assert pytest.approx(5.4 / 27.211386, rel=1e-7) == deck.potential.D


def test_full_template_has_every_key_at_its_default(load):
    text = template(Toy, full=True)
    full, minimal = load(text), load(template(Toy))
    assert full == minimal
    for key in Toy.model_fields:
        assert re.search(rf"^(# )?{key}:", text, flags=re.MULTILINE), key
    for key in [*Morse.model_fields, *Formula.model_fields, *Atom.model_fields, *RunBlock.model_fields]:
        assert re.search(rf"^[# -]*{key}: ", text, flags=re.MULTILINE), key


TASKS = [
    (name, task) for name in methods.available() for task in tasks_of(stage(name, "deck").DECK.variants())
]


@pytest.mark.parametrize(("method", "task"), TASKS)
def test_a_template_of_a_task_has_its_keys_alone(method, task):
    model = stage(method, "deck").DECK.model_for({"task": task})
    whole = template(model, full=True)
    for full in (False, True):
        text = template(model, full=full, task=task)
        root, _ = parse_yaml(text, "deck")
        chosen = root.plain()["task"]
        assert (chosen["type"] if isinstance(chosen, dict) else chosen) == task
        assert len(text.splitlines()) <= len(whole.splitlines())
        try:
            load_deck(root.plain(), model)
        except DeckError as error:
            told = [item.message for item in error.diagnostics]
            # what only a user can say, and what goes together only in some ways
            assert not any("task:" in item and "belongs to" in item for item in told), told


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("method", "task"), TASKS)
def test_the_first_deck_of_a_task_needs_no_change(method, task, full, tmp_path):
    """Their keys alone did not make a deck: functions of a collision, a system, the steps of a cycle."""
    model = stage(method, "deck").DECK.model_for({"task": task})
    (tmp_path / "deck.yaml").write_text(template(model, full=full, task=task), encoding="utf-8")
    assert not [item for item in examine(method, tmp_path / "deck.yaml") if item.severity != "note"]


def test_run_and_output_stand_last():
    keys = re.findall(r"^(\w+):", template(Toy, full=True), flags=re.MULTILINE)
    assert keys[-2:] == ["run", "output"]


def test_comments_give_unit_bounds_and_choices():
    text = template(Toy, full=True)
    assert re.search(r"^title: .*# one line for figures and tables$", text, flags=re.MULTILINE)
    assert re.search(r"^length: 20 fs +# a\.u\. of time \(hbar/Eh\); > 0$", text, flags=re.MULTILINE)
    assert re.search(r"^limit: 10 min +# s$", text, flags=re.MULTILINE)
    assert re.search(r"^phase: 0\.0 +# rad; >= 0, <= 7$", text, flags=re.MULTILINE)
    assert re.search(r'^kind: "no" +# one \| "no" \| "10"$', text, flags=re.MULTILINE)
    assert re.search(r"^potential: +# morse \| formula \| free$", text, flags=re.MULTILINE)
    assert re.search(r"^  points: 641 +# number of points \[>= 1\]$", text, flags=re.MULTILINE)
    assert text.startswith("# A toy. It has more to say.\n")


def test_optional_blocks_load_once_uncommented(load):
    text = template(Toy, full=True)
    block = re.search(r"^# zoom:.*\n(#   .*\n)+", text, flags=re.MULTILINE)
    deck = load(text.replace(block[0], _uncomment(block[0])))
    assert deck.zoom == Grid(points=641)


def test_other_members_of_a_union_load_once_uncommented(load):
    text = template(Toy, full=True)
    head = text.index("potential:")
    body = text[head : text.index("other:")]
    morse, formula, _ = body.split("  # or\n")
    swapped = body.replace(morse.split("\n", 1)[1], "").replace(formula, _uncomment(formula))
    assert load(text.replace(body, swapped)).potential == Formula(type="formula")


class Nothing(Deck):
    """All has a default."""

    method: Literal["nothing"]
    only: RunBlock = Field(default_factory=RunBlock)
    needed: RunBlock


def test_required_blocks_without_required_keys(load):
    assert load(template(Nothing), Nothing).needed == RunBlock()


def test_the_base_deck_itself(load):
    for full in (False, True):
        assert load(template(Deck, full), Deck).run == RunBlock()


def test_schema_speaks_json_schema_only():
    text = json.dumps(schema(Toy))
    document = json.loads(text)
    assert document["$schema"].startswith("https://json-schema.org/")
    assert document["additionalProperties"] is False
    assert not re.search(r'"(ge|gt|le|lt)": ', text)
    assert document["$defs"]["Grid"]["properties"]["points"] == {
        "description": "number of points",
        "examples": [641],
        "minimum": 1,
        "type": "integer",
    }
    assert "9223372036854775807" not in text


def test_schema_knows_the_short_forms():
    options = schema(Toy)["properties"]["potential"]["anyOf"]
    words = [option for option in options if "enum" in option or "const" in option]
    assert words == [{"enum": ["formula", "free"], "type": "string"}]


def test_reference_names_every_key_with_its_type():
    text = deck_reference(Toy)
    for key in Toy.model_fields:
        assert f"| `{key}` |" in text
    assert text.startswith("## The deck\n\nA toy. It has more to say.\n")
    for row in [
        "| `length` | time | a.u. of time (hbar/Eh) | `20 fs` | > 0 |  |",
        "| `limit` | duration | s | `10 min` |  |  |",
        "| `points` | whole number |  | required (e.g. `641`) | >= 1 | number of points |",
        "| `D` | energy | hartree | required (e.g. `5.4 eV`) | > 0 | depth |",
        "| `zoom` | block |  | none |  | a finer grid \\| in a window &lt;x>; keys: [`grid`](#grid) |",
        "| `potential` | block |  | required | `morse`, `formula`, `free` |  |",
        "| `weights` | list of complex numbers |  | `[1.0i, 1.0, 1.0-2.0i]` |  |  |",
        "| `pair` | list of 2: number, whole number |  | `[1e-10, 3]` |  |  |",
        '| `kind` | `one`, `"no"`, `"10"` |  | `"no"` |  |  |',
        "| `value` | formula of `x` |  | `x^2` |  |  |",
        "| `named` | blocks by name |  | `{}` |  | keys: [`grid`](#grid) |",
        "| `switch` | `true`, `false` |  | `false` |  |  |",
        "| `charge` | number |  | required | >= 0.5, &lt; 2 |  |",
        "| `steps` | whole number |  | none | >= 0 |  |",
    ]:
        assert row in text.split("\n"), row


def test_reference_has_a_section_for_every_block_once():
    headings = re.findall(r"^#+ .*$", deck_reference(Toy), flags=re.MULTILINE)
    assert len(headings) == len(set(headings))
    for heading in [
        "## `run`",
        "## `potential`",
        "### `potential`: `morse`",
        "## `grid`",
        "## `atoms[]`",
    ]:
        assert heading in headings
    assert not any("other" in heading or "zoom" in heading or "named" in heading for heading in headings)


def test_reference_shows_an_example_of_a_block_where_it_is_described():
    text = deck_reference(Toy, {Grid: lambda place: f"{place}: {{points: 7}}"})
    assert text.count("```yaml\ngrid: {points: 7}\n```") == 1


def test_tables_have_six_columns():
    rows = [line for line in deck_reference(Toy).split("\n") if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {7}
