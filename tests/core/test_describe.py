"""What is shown of a deck: nothing that is not set, and nothing else left out."""

from pathlib import Path

import pytest
import yaml

from qsim import methods
from qsim.core.deck.fields import Annotation, blocks_below
from qsim.core.deck.load import load_deck, peek_method
from qsim.core.errors import DeckError
from qsim.core.run.stages import stage

ROOT = Path(__file__).resolve().parents[2]
DECKS = sorted((ROOT / "inputs").glob("*/*.yaml"))


@pytest.mark.parametrize("path", DECKS, ids=lambda path: path.stem)
def test_the_deck_that_is_shown_is_the_same_deck(path, tmp_path):
    model = stage(peek_method(path), "deck").DECK
    loaded = load_deck(path, model)
    shown = _read_back(loaded.shown(), model, tmp_path)
    if isinstance(shown, dict):
        assert shown == loaded.resolved()
    else:  # defaults that are filled in where the rules of the method forbid the key
        assert not isinstance(_read_back(loaded.resolved(), model, tmp_path), dict), shown


def _read_back(data, model, folder):
    """Return the resolved deck of some data; what is wrong with it if its rules forbid keys that were filled in."""
    file = folder / "shown.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    try:
        return load_deck(file, model).resolved()
    except DeckError as error:
        return [diagnostic.message for diagnostic in error.diagnostics]


@pytest.mark.parametrize("method", methods.available())
def test_a_key_that_may_be_null_is_null_by_default(method):
    """Else a null that somebody wrote would be left out."""
    for place, block in blocks_below(stage(method, "deck").DECK):
        for name, info in block.model_fields.items():
            assert not Annotation.of_field(info).optional or info.default is None, (place, name)
