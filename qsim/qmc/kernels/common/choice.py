"""Functions of compiled code that have several versions: for molecules and crystals, for one determinant and many.

A kernel of walkers is written once.  Where it needs orbitals, distances or potentials it calls a `Choice`, and the compiler
takes the version for the type of the first argument: no branch is left in the machine code, and nothing of the other version is
compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from numba import types
from numba.extending import models, register_model, typeof_impl

from qsim.core.device.jit import Apart, ApartType, Held

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NumbaType: TypeAlias = Any  # numba has no types that a checker could read
Dispatcher: TypeAlias = Any
Signature: TypeAlias = Any
Context: TypeAlias = Any

__all__ = ["Choice"]


class Choice:
    """A function with a version for each kind of tables.

    Parameters
    ----------
    versions
        Compiled function, also one that is compiled apart, for each class of named tuples that the first argument, or its field
        of this name, may have.
    field
        Name of the field.
    """

    def __init__(self, versions: Mapping[type, Dispatcher], field: str = "orbitals") -> None:
        self.versions, self.field = versions, field

    def __call__(self, *arguments: object) -> Any:
        """Refuse a call from Python: compiled code alone can make it."""
        raise TypeError("a Choice is called by compiled functions")

    def version(self, arguments: Sequence[NumbaType]) -> Dispatcher:
        """Return the compiled function for arguments of some numba types."""
        record = _record(arguments[0])
        if self.field in record.fields:
            record = _record(record.types[record.fields.index(self.field)])
        return self.versions[record.instance_class]


def _record(kind: NumbaType) -> NumbaType:
    """Return the type of a named tuple, which may be held by its address."""
    return kind.record if isinstance(kind, Held) else kind


def _type_of_function(version: Dispatcher | Apart) -> NumbaType:
    """Return what numba asks for the calls of a version."""
    return ApartType(version) if isinstance(version, Apart) else types.Dispatcher(version)


class _ChoiceType(types.Callable, types.Dummy):  # type: ignore[misc]  # numba has no types
    """The type of a `Choice`; numba asks it for the signature and the code of each call."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        super().__init__(f"Choice({id(choice)})")

    def get_call_type(
        self, context: Context, args: Sequence[NumbaType], kws: Mapping[str, NumbaType]
    ) -> Signature:
        """Return the signature of a call."""
        return _type_of_function(self.choice.version(args)).get_call_type(context, args, kws)

    def get_call_signatures(self) -> tuple[tuple[Signature, ...], bool]:
        """Return the signatures known before any call: none, and that more may come."""
        return (), True

    def get_impl_key(self, sig: Signature) -> object:
        """Return the code of a call."""
        return _type_of_function(self.choice.version(sig.args)).get_impl_key(sig)


register_model(_ChoiceType)(models.OpaqueModel)


@typeof_impl.register(Choice)
def _type_of(value: Choice, context: object) -> _ChoiceType:
    return _ChoiceType(value)
