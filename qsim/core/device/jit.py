"""Compilation of CPU kernels that are made of many small functions.

Numba optimises every function by itself, makes machine code of it, wraps it for Python, and does all of that again in each
function that calls it.  Of ten kernels that share forty helpers most of the time goes into code that nobody runs.  A function
compiled with `PART` is typed and translated once and then only kept for those that call it: it is optimised and becomes machine
code within each kernel that is called from Python, and nowhere else.

A large part of a kernel can be compiled `apart` instead: it has a file of its own in the cache, its callers hold its address, not
its code, and another process can compile it meanwhile.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
from dataclasses import dataclass
from functools import cache, wraps
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

from llvmlite import binding
from numba import _dynfunc, njit, types
from numba.core import cgutils, compiler, imputils, ir, targetconfig, typed_passes, typing
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import register_pass
from numba.core.registry import cpu_target
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
)

from qsim.core.device.compilers.caches import taken_elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable

    from llvmlite.ir import IRBuilder, Value
    from numba.core.base import BaseContext
    from numba.core.datamodel import DataModelManager
    from numba.core.typing.context import BaseContext as TypingContext
    from numba.core.typing.templates import Signature

__all__ = ["NEVER_RUN", "PART", "Apart", "ApartType", "Held", "apart", "held", "variant"]


Dispatcher: TypeAlias = Any  # numba has no types that a checker could read

#: A call of a part from Python raises a TypeError, since there is no machine code.
_REFUSAL = ctypes.cast(ctypes.pythonapi.PyErr_BadArgument, ctypes.c_void_p).value


def variant(name: str, **options: object) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator of a function that the same lines make several times, with other constants each time.

    Compiled code is linked by names, which are made of the place of a function in the sources, the types of its arguments, and
    how many functions its process had compiled before.  Two variants from two files of the cache may agree in all of that: the
    code that was loaded first then runs for both.  A name of its own tells them apart.

    Parameters
    ----------
    name
        Of this variant, different from all others.
    options
        Of ``numba.njit``.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        function.__qualname__ += f"_{name}"
        return njit(**options)(function)

    return compiled


class _Parts(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """Code that waits for the kernel it becomes a part of."""

    def finalize(self) -> None:
        """Link in what this code calls; nothing is optimised, nothing becomes machine code."""
        # As numba does, but without the two passes of LLVM and without machine code.
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(typed_passes.NativeLowering):  # type: ignore[misc]
    """Translation into the intermediate language, without wrappers for Python and C."""

    _name = "part_lowering"

    def run_pass(self, state: compiler.StateDict) -> Any:
        """Translate a function into a library of parts."""
        flags = state.flags
        # Nobody calls a part from Python or C.
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        state.library = _Parts(state.targetctx.codegen(), state.func_id.func_qualname)
        changed = super().run_pass(state)
        fndesc, call_helper, _, env = state.cr
        # Numba wants something callable as the result; calling it raises.
        stub = _dynfunc.make_function(
            fndesc.lookup_module(), fndesc.qualname, "part of kernels", _REFUSAL, env, (state.library,)
        )
        state.targetctx.insert_user_function(stub, fndesc, [state.library])
        state.reload_init.extend(state.library._reload_init)
        state.cr = compiler._LowerResult(fndesc, call_helper, cfunc=stub, env=env)
        return changed


class _Compiler(compiler.Compiler):  # type: ignore[misc]
    """The ordinary compiler up to the translation."""

    def define_pipelines(self) -> list[Any]:
        """Return the ordinary pipelines with the other translation."""
        pipelines: list[Any] = super().define_pipelines()
        for manager in pipelines:
            manager.passes = [
                (_Lowering if kind is typed_passes.NativeLowering else kind, text)
                for kind, text in manager.passes
            ]
            # Passes of a pipeline cannot be exchanged once it is complete: it is completed anew.
            manager._finalized = False
            manager.finalize()
        return pipelines


#: Options for functions that only compiled functions call; never call them from Python.
PART: dict[str, Any] = {"cache": False, "pipeline_class": _Compiler}


# ----------------------------------------------------------------------------------- parts by address


class Apart:
    """A compiled function that compiled functions call by its address; Python cannot call it.

    Since the type of its result is known, callers do not wait for it: it is compiled, or loaded, when they are linked.

    Parameters
    ----------
    dispatcher
        Of ``numba.njit`` with ``cache``, under the name of the function in its module.
    returns
        Type of the result.
    """

    def __init__(self, dispatcher: Dispatcher, returns: types.Type) -> None:
        self.dispatcher, self.returns = dispatcher, returns
        self.py_func = dispatcher.py_func
        self.__module__, self.__qualname__ = self.py_func.__module__, self.py_func.__qualname__
        self.__doc__ = self.py_func.__doc__

    def __call__(self, *arguments: object) -> Any:
        """Refuse a call from Python: compiled code alone can make it."""
        raise TypeError(f"{self.__qualname__} is called by compiled functions")


_UNWRAPPED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def apart(returns: types.Type, **options: object) -> Callable[[Callable[..., Any]], Apart]:
    """Return the decorator of a function that is compiled apart from its callers, see `Apart`.

    Parameters
    ----------
    returns
        Type of the result; ``types.none`` for none.
    options
        Of ``numba.njit``.
    """

    def compiled(function: Callable[..., Any]) -> Apart:
        # Nobody calls it from Python or C.
        return Apart(njit(**{**options, **_UNWRAPPED})(function), returns)

    return compiled


@dataclass(frozen=True)
class _Provide:
    """Brings a function that is compiled apart to its callers; a caller that comes from the cache calls it first.

    Attributes
    ----------
    module, name
        Where the `Apart` is.
    args
        Types of the arguments.
    """

    module: str
    name: str
    args: tuple[types.Type, ...]

    @property
    def part(self) -> Apart:
        """The function."""
        found: Apart = getattr(sys.modules.get(self.module) or import_module(self.module), self.name)
        return found

    @property
    def symbol(self) -> str:
        """Name for the linker, the same in all processes."""
        text = f"{self.module}.{self.name}{self.args}"
        return f"qsim_{self.name}_{hashlib.sha256(text.encode()).hexdigest()[:32]}"

    def __call__(self) -> None:
        """Load or compile the function, and tell the linker where it is."""
        _provide(self)


#: Whether code is only compiled here, and never run: functions that are compiled apart are not needed then.
NEVER_RUN: list[bool] = []


@cache
def _provide(wanted: _Provide) -> None:
    """Tell the linker where a function is that is compiled apart.

    Raises
    ------
    TypeError
        If it returns another type than it says.
    """
    if NEVER_RUN:
        # Any address: a symbol without one would end the process.
        binding.add_symbol(wanted.symbol, _REFUSAL)
        return
    part = wanted.part
    part.dispatcher.compile(wanted.args)
    compiled = part.dispatcher.overloads[wanted.args]
    if compiled.signature.return_type != part.returns:
        raise TypeError(f"{wanted.name} returns {compiled.signature.return_type}, not {part.returns}")
    binding.add_symbol(
        wanted.symbol, compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    )


def _provide_all(library: JITCodeLibrary) -> None:
    """Provide what the code of a library calls by address, first what no other process is compiling."""
    called = [*library._reload_init]
    for other in library._linking_libraries:
        called += other._reload_init
    left = [each for each in dict.fromkeys(called) if isinstance(each, _Provide)]
    # What is called is collected in sets: without order.
    left.sort(key=lambda each: (each.module, each.name))
    while left:
        free = [each for each in left if not taken_elsewhere(each.part.py_func, each.args)]
        wanted = (free or left)[0]
        left.remove(wanted)
        wanted()


def _finalize(self: JITCodeLibrary) -> None:
    """Make machine code, as numba does, once all that it calls by address is there."""
    _provide_all(self)
    _plain_finalize(self)


_plain_finalize = JITCodeLibrary.finalize
JITCodeLibrary.finalize = _finalize


@cache
def _declare(wanted: _Provide) -> None:
    """Tell numba how the function is called."""
    part = wanted.part
    # What numba asks of the description of a function that it has compiled, but under the other name, and without a library:
    # numba would copy its code into each caller.
    description = SimpleNamespace(
        mangled_name=wanted.symbol,
        restype=part.returns,
        argtypes=wanted.args,
        args=part.py_func.__code__.co_varnames[: part.py_func.__code__.co_argcount],
        noalias=False,
        inline=False,
    )
    call = imputils.user_function(description, ())

    def implementation(
        context: BaseContext, builder: IRBuilder, signature: Signature, arguments: tuple[Value, ...]
    ) -> Value:
        context.active_code_library._reload_init.add(wanted)
        return call(context, builder, signature, arguments)

    implementation.signature = wanted.args  # type: ignore[attr-defined]
    implementation.libs = ()  # type: ignore[attr-defined]
    cpu_target.target_context._defns[wanted.symbol].append(implementation, wanted.args)


class ApartType(types.Callable, types.Dummy):  # type: ignore[misc]
    """The type of an `Apart`; numba asks it for the signature and the code of each call."""

    def __init__(self, part: Apart) -> None:
        self.part = part
        super().__init__(f"Apart({part.__module__}.{part.__qualname__})")

    def get_call_type(
        self, context: TypingContext, args: tuple[types.Type, ...], kws: dict[str, types.Type]
    ) -> Signature:
        """Return the signature of a call; arguments come by their places."""
        # A number that is known to the compiler is passed as any other.
        signature = typing.signature(self.part.returns, *map(types.unliteral, args))
        _declare(self._wanted(signature))
        return signature

    def get_call_signatures(self) -> tuple[tuple[Signature, ...], bool]:
        """Return the signatures known before any call: none, and that more may come."""
        return (), True

    def get_impl_key(self, sig: Signature) -> object:
        """Return the code of a call."""
        return self._wanted(sig).symbol

    def _wanted(self, signature: Signature) -> _Provide:
        return _Provide(self.part.__module__, self.part.__qualname__, tuple(signature.args))


register_model(ApartType)(models.OpaqueModel)


@typeof_impl.register(Apart)  # type: ignore[untyped-decorator]
def _type_of(value: Apart, context: object) -> ApartType:
    return ApartType(value)


# ------------------------------------------------------------------------------------------- records


class Held(types.Type):  # type: ignore[misc]
    """The address of a named tuple.

    Parameters
    ----------
    record
        Type of the tuple.
    """

    def __init__(self, record: types.BaseNamedTuple) -> None:
        # The name makes types of different records different types for numba.
        self.record = record
        super().__init__(f"Held({record})")


@register_model(Held)
class _HeldModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: DataModelManager, kind: Held) -> None:
        super().__init__(manager, kind, manager[kind.record].get_value_type().as_pointer())


@infer_getattr
class _HeldFields(typing.templates.AttributeTemplate):  # type: ignore[misc]
    key = Held

    def generic_resolve(self, kind: Held, field: str) -> Any:
        """Return the type of a field; None if there is none of that name."""
        # Fields by name, as of the tuple itself.
        fields = kind.record.fields
        return kind.record.types[fields.index(field)] if field in fields else None


@lower_getattr_generic(Held)  # type: ignore[untyped-decorator]
def _field(context: BaseContext, builder: IRBuilder, kind: Held, value: Value, field: str) -> Value:
    # An attribute is a load from the address plus the offset of the field: LLVM keeps it in a
    # register where it can.
    number = kind.record.fields.index(field)
    item = builder.load(cgutils.gep_inbounds(builder, value, 0, number))
    return imputils.impl_ret_borrowed(context, builder, kind.record.types[number], item)


@intrinsic  # type: ignore[untyped-decorator]
def held(typingctx: TypingContext, record: types.Type) -> Any:
    """Return a named tuple of arrays by its address: attributes as before, but one argument in a call, and not ten per array.

    It lives as long as the compiled function that holds it runs, and fields cannot be set.
    """
    if isinstance(record, Held):
        return record(record), lambda context, builder, signature, arguments: arguments[0]
    if not isinstance(record, types.BaseNamedTuple):
        return None

    def generate(
        context: BaseContext, builder: IRBuilder, signature: Signature, arguments: tuple[Value, ...]
    ) -> Value:
        # Once per call of the function, at its entry: not in each turn of a loop.
        return cgutils.alloca_once_value(builder, arguments[0])

    return Held(record)(record), generate


# ------------------------------------------------------------------------------------------- types


def _remembering(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``get_call_type`` of functions such as ``+``, which tries some ten templates at each call, with a memory.

    Only what the function itself computes is remembered; implementations that are compiled depend on the options of the caller.
    """
    known: dict[int, tuple[Any, dict[Any, Any]]] = {}

    @wraps(plain)
    def get_call_type(
        self: types.BaseFunction,
        context: TypingContext,
        args: tuple[types.Type, ...],
        kws: dict[str, types.Type],
    ) -> Any:
        # No kernel passes operands by name.
        if kws:
            return plain(self, context, args, kws)
        # The function object is kept beside its results: an id alone could be that of a later
        # object.
        _, signatures = known.setdefault(id(self), (self, {}))
        key = (id(context), args)
        signature = signatures.get(key)
        if signature is None:
            signature = plain(self, context, args, kws)
            # Not a template that compiles an implementation of its own.
            if self.get_impl_key(signature) is self.typing_key:
                signatures[key] = signature
        return signature

    return get_call_type


def _values(self: targetconfig.TargetConfig) -> dict[str, Any]:
    """Return all options, as ``TargetConfig.values`` does through a property for each; compilation reads them all the time."""
    options = self._values
    return {name: options.get(name, option.default) for name, option in self.options.items()}


types.BaseFunction.get_call_type = _remembering(types.BaseFunction.get_call_type)
targetconfig.TargetConfig.values = _values


def _variables(self: ir.Inst, value: Any) -> list[Any]:
    """Return the variables in a part of an instruction, as ``Inst._rec_list_vars``, with the most frequent kinds first."""
    # By the exact type: instructions hold these kinds nearly always, and `isinstance` asks each of them.
    kind = type(value)
    if kind is ir.Var:
        return [value]
    if kind is str or kind is ir.Loc or value is None:
        return []
    if kind is dict:
        return [found for each in value.values() for found in _variables(self, each)]
    if kind is list or kind is tuple:
        return [found for each in value for found in _variables(self, each)]
    return _plain_variables(self, value)  # type: ignore[no-any-return]


_plain_variables = ir.Inst._rec_list_vars
ir.Inst._rec_list_vars = _variables
