"""All initial states: the subclasses of :class:`InitialState` with a type in the files of this folder."""

import importlib
import pkgutil
import sys

from qsim.trotter.initial.base import InitialState


def _all_states() -> tuple[type[InitialState], ...]:
    """Return the initial states, in the order of their files."""
    # A class is known once its file is imported.
    for module in pkgutil.iter_modules(sys.modules[__package__].__path__):
        name = f"{__package__}.{module.name}"
        if name != __name__:
            importlib.import_module(name)
    kinds: list[type[InitialState]] = []
    waiting = list(InitialState.__subclasses__())
    while waiting:
        kind = waiting.pop(0)
        waiting = kind.__subclasses__() + waiting
        # Base classes of several states have no type of their own.
        if "type" in kind.model_fields:
            kinds.append(kind)
    return tuple(kinds)


STATES = _all_states()
