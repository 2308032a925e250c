"""Decks that differ from a base in a few keys."""

import copy

REMOVE = object()


def change(base, changes):
    """Return a base deck with keys replaced: ``a__0__b=value`` for ``a.0.b``, REMOVE to leave one out."""
    deck = copy.deepcopy(base)
    for name, value in changes.items():
        *path, last = (int(key) if key.isdigit() else key for key in name.split("__"))
        block = deck
        for key in path:
            block = block[key] if isinstance(block, list) else block.setdefault(key, {})
        if value is REMOVE:
            del block[last]
        else:
            block[last] = value
    return deck
