"""Every key of every block that a deck may have can be printed by ``qsim init``."""

from __future__ import annotations

import pytest

from qsim import methods
from qsim.core.deck import template as module
from qsim.core.deck.fields import blocks_below, fields_of, tasks_of, types_of
from qsim.core.run.examine import examine
from qsim.core.run.stages import stage


def printed(method, monkeypatch, command):
    """Return the blocks that are printed for all tasks and types, with all of their keys."""
    shown = {}
    original = module._block

    def recorded(model, given, style, left_out=()):
        lines = original(model, given, style, left_out)
        text = "\n".join(lines)
        shown.setdefault(model, set()).update(k for k in fields_of(model) if f"{k}:" in text)
        return lines

    same = module._same

    def told(model, before, discriminator):
        """Keys that are as those of another member, which the template names."""
        found = same(model, before, discriminator)
        shown.setdefault(model, set()).update(key for keys in found.values() for key in keys)
        return found

    monkeypatch.setattr(module, "_block", recorded)
    monkeypatch.setattr(module, "_same", told)
    variants = stage(method, "deck").DECK.variants()
    for option, names in (("--task", tasks_of(variants)), ("--type", types_of(variants))):
        for name in names:
            result = command("init", method, "--full", option, name)
            assert result.exit_code == 0, result.output
    result = command("init", method, "--full")
    assert result.exit_code == 0
    return shown


@pytest.mark.parametrize("method", methods.available())
def test_every_key_of_every_block_is_printed(method, monkeypatch, command):
    shown = printed(method, monkeypatch, command)
    missing = [
        f"{block.__name__}.{key}"
        for variant in stage(method, "deck").DECK.variants()
        for _, block in blocks_below(variant)
        for key in fields_of(block)
        if key not in shown.get(block, ())
    ]
    assert not missing


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", ["grid", "model", "rotor", "grid2d"])
def test_the_first_deck_of_a_type_needs_no_change(name, full, tmp_path, command):
    """Matrices need a file, which nobody has yet."""
    result = command("init", "qoc", "--type", name, *(["--full"] if full else []))
    (tmp_path / "deck.yaml").write_text(result.stdout, encoding="utf-8")
    assert not [item for item in examine("qoc", tmp_path / "deck.yaml") if item.severity == "error"]


def test_an_unknown_type_lists_those_there_are(command):
    result = command("init", "qoc", "--type", "molecule")
    assert result.exit_code != 0
    assert "its types: grid, model, matrices, rotor, grid2d" in result.stderr


def test_a_block_that_many_terms_share_is_printed_once(command):
    text = command("init", "trotter", "--full", "--task", "evolve").stdout
    assert text.count("type: honeycomb") == 1
    assert "keys as of profile above" in text
