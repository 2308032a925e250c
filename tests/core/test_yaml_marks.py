"""YAML 1.2 with places: scalars, marks, and everything that a hostile or careless file can hold."""

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from qsim.core.deck.describe import flow
from qsim.core.deck.yaml_marks import MAX_DEPTH, parse_yaml
from qsim.core.errors import DeckError


def read(text):
    root, problems = parse_yaml(text, "a.yaml")
    assert not problems
    return root.plain()


def mistakes(text):
    """Return all mistakes as "line:column: message"."""
    try:
        _, problems = parse_yaml(text, "a.yaml")
    except DeckError as error:
        problems = error.diagnostics
    return [str(problem).removeprefix("a.yaml:") for problem in problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("12:30", "12:30"),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("1e6", 1e6),
        ("1E-3", 1e-3),
        ("-1.5e+3", -1500.0),
        (".5", 0.5),
        ("5.", 5.0),
        (".", "."),
        ("1d-3", "1d-3"),
        ("+3", 3),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("-.inf", -math.inf),
        ("inf", "inf"),
        ("2024-01-01", "2024-01-01"),
        ("'12'", "12"),
        ('"1e6"', "1e6"),
        ("=", "="),
        ("!!str 12", "12"),
        ("!!float 12", 12.0),
        ("! 12", "12"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text, value):
    result = read(f"key: {text}")["key"]
    assert result == value
    assert type(result) is type(value)


def test_nan_is_a_float():
    assert math.isnan(read("a: .nan")["a"])


def test_integer_keys_become_text_and_others_stay_as_written():
    assert read("{0: a, 010: b, 1.5: c, true: d, no: e}") == {
        "0": "a",
        "10": "b",
        "1.5": "c",
        "true": "d",
        "no": "e",
    }


def test_marks_are_counted_from_one():
    root, _ = parse_yaml("# deck\ngrid:\n  points: 3\nlist:\n  - 1\n  - {a: 2}\n", "a.yaml")
    places = {
        path: (root.find(path)[0].mark.line, root.find(path)[0].mark.column)
        for path in [("grid",), ("grid", "points"), ("list", 1), ("list", "1", "a")]
    }
    assert places == {
        ("grid",): (2, 1),
        ("grid", "points"): (3, 3),
        ("list", 1): (6, 5),
        ("list", "1", "a"): (6, 6),
    }


def test_find_stops_at_the_nearest_parent():
    root, _ = parse_yaml("a: {b: [1]}", "a.yaml")
    for path, done in [
        (("a", "x"), 1),
        (("a", "b", 5), 2),
        (("a", "b", "x"), 2),
        (("a", "b", 0, "c"), 3),
        (("q",), 0),
    ]:
        assert root.find(path)[1] == done


def test_aliases_are_written_out_and_placed_where_they_are_used():
    root, problems = parse_yaml("a: &x {p: 1}\nb: *x\n", "a.yaml")
    assert not problems
    assert root.plain() == {"a": {"p": 1}, "b": {"p": 1}}
    assert root.child("b").mark.line == 2
    assert root.child("b").child("p").mark.line == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", "3:1: a: duplicate key (first on line 1)"),
        ("a: {b: 1, b: 2}", "1:11: a.b: duplicate key (first on line 1)"),
        ("1: a\n01: b\n", "2:1: 1: duplicate key (first on line 1)"),
        ("x: {<<: {a: 1}}", "1:5: x: merge keys ('<<') are not supported; write the keys out"),
        ("? [a]\n: 1\n", "1:3: a key must be a word or a number"),
        ("&k a: 1\n*k : 2\n", "2:1: a key must be a word or a number, not an alias"),
        ("?\n: 1\n", "1:2: a key is missing before ':'"),
        ("{: 1}", "1:2: a value is missing, but found ':'"),
        ("a: [1,,2]", "1:7: a value is missing, but found ','"),
        (
            "a: !!python/name:os.system x",
            "1:4: a: the YAML tag '!!python/name:os.system' is not supported; remove it",
        ),
        ("a: !!set {b}", "1:4: a: the YAML tag '!!set' is not supported; remove it"),
        ("a: !!int x", "1:1: a: 'x' is no YAML int"),
        ('a: "\\ud800"', "1:1: a: the text holds half of a surrogate pair"),
        ("a: " + "9" * 5000, "1:1: a: a number with more than 400 digits"),
        ("a: 1\n---\nb: 2\n", "2:1: a second YAML document starts here; a deck is a single one"),
        ("a: *x", "1:4: there is no anchor '&x' above this alias"),
        ("a: &x [*x]", "1:8: the alias '*x' stands inside its own anchor"),
        ("a:\tb", "1:3: a tab; YAML is indented and spaced with spaces only"),
        ("a:\n\tb: 1\n", "2:1: a tab; YAML is indented and spaced with spaces only"),
        ("a: b: c", "1:5: unexpected ':'; check the indentation, and quote text that holds ': '"),
        ("a: 1\nb\n", "3:1: no ':' after the key that starts on line 2"),
        ("a: 'b", "1:6: the quote opened on line 1 is never closed"),
        ("a: @b", "1:4: character '@' cannot start a value; quote it"),
        ("a: x\x07", "1:5: the character U+0007 is not allowed in YAML"),
    ],
)
def test_mistakes_are_placed_and_explained(text, expected):
    assert mistakes(text) == [expected]


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("a: [1, 2\nb: 3\n", 2, "'[' opened on line 1"),
        ("a: {b: 1\n", 2, "'{' opened on line 1"),
        ("a:\n    b: 1\n  c: 2\n", 3, "does not line up"),
        ('a: "\\q"', 1, "unknown escape"),
    ],
)
def test_syntax_errors_say_what_to_look_at(text, line, part):
    (message,) = mistakes(text)
    assert message.startswith(f"{line}:")
    assert part in message


def test_several_mistakes_come_together():
    assert len(mistakes("a: 1\na: 2\nb: !x 3\n<<: {c: 1}\n")) == 3


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_deep_nesting_is_refused_without_recursion_error(opening):
    (message,) = mistakes(opening * 20_000)
    assert f"nested deeper than {MAX_DEPTH} levels" in message


def test_deep_indentation_is_refused():
    (message,) = mistakes("".join(" " * level + "a:\n" for level in range(300)))
    assert "nested deeper" in message


def test_nesting_through_aliases_is_refused():
    text = "a0: &a0 1\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}]\n" for n in range(100))
    assert "nested deeper" in mistakes(text)[0]


def test_alias_bombs_are_refused():
    text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    text += "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(30))
    assert "values, aliases written out" in mistakes(text)[0]


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n", "--- # nothing\n"])
def test_empty_documents(text):
    assert parse_yaml(text, "a.yaml") == (None, [])


@given(st.text(alphabet="ab:-[]{},&*!|>'\"%@`#?\t\n 0.1~<=", max_size=60))
def test_any_text_is_read_or_refused(text):
    lines = text.count("\n") + 1
    try:
        root, problems = parse_yaml(text, "a.yaml")
    except DeckError as error:
        problems = error.diagnostics
        assert problems
    else:
        assert root is None or root.height <= MAX_DEPTH
    assert all(1 <= problem.line <= lines + 1 and problem.column >= 1 for problem in problems)


_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**18), 10**18),
        st.floats(allow_nan=False),
        st.text(st.characters(exclude_categories=["Cs"])),
        st.sampled_from(
            ["no", "1e6", "010", "~", "null", "a: b", "- x", "", " x", "#", "20 fs", "W/cm2", "x^2", "<<"]
        ),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(_VALUES)
def test_what_is_written_is_read_back(value):
    def surrogates(item):
        return "\\ud8" in repr(item) or "\\udc" in repr(item)

    if surrogates(value):
        return
    text = f"key: {flow(value)}"
    root, problems = parse_yaml(text, "a.yaml")
    if not problems:  # keys such as "1" and "01" are one key
        assert root.plain()["key"] == value


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9)), max_size=6))
def test_plain_documents_agree_with_pyyaml(pairs):
    text = "".join(f"{key}{number}: [{number}, {{x: {key}}}]\n" for key, number in dict(pairs).items())
    root, _ = parse_yaml(text, "a.yaml")
    assert (root.plain() if root else None) == yaml.safe_load(text)
