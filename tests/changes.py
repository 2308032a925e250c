"""Decks that differ from a base in a few keys, chosen by a test or drawn at random."""

import copy

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

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


#: Settings of tests that plan decks with random numbers.
PLANS = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def some(strategies, most):
    """Draw a few of the keys and a value for each."""
    one = st.sampled_from(sorted(strategies)).flatmap(lambda key: st.tuples(st.just(key), strategies[key]))
    return st.lists(one, max_size=most).map(dict)
