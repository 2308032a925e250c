"""Items of the block `observe`: their keys name the observables, see :mod:`qsim.trotter.observables`."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, create_model

from qsim.trotter.observables.base import Item
from qsim.trotter.observables.registry import OBSERVABLES

__all__ = ["ObservableItem"]


def _fields() -> dict[str, Any]:
    """Return the fields of an item: type and description of each key."""
    fields: dict[str, Any] = {}
    for kind in OBSERVABLES.values():
        if kind.form is bool:
            fields[kind.key] = (bool, Field(default=False, description=kind.text))
        else:
            fields[kind.key] = (kind.form | None, Field(default=None, description=kind.text))
        for key, (form, text) in kind.more.items():
            fields[key] = (form | None, Field(default=None, description=text))
    return fields


class _Keys(Item):
    @classmethod
    def observable_keys(cls) -> list[str]:
        """Return the keys of all observables."""
        return list(OBSERVABLES)


Observable = create_model("Observable", __base__=_Keys, __doc__="One thing to observe.", **_fields())
WORDS = {key: kind.word for key, kind in OBSERVABLES.items() if kind.word is not None}


def _form(value: object) -> object:
    """Read ``sz`` as ``{sz: all}`` and ``imbalance`` as ``{imbalance: true}``."""
    return {value: WORDS.get(value, "all")} if isinstance(value, str) else value


if TYPE_CHECKING:
    ObservableItem = Item
else:
    ObservableItem = Annotated[
        Observable,
        BeforeValidator(_form, json_schema_input_type=Literal[tuple(WORDS)] | Observable),
    ]
