"""Arguments and options that several commands take: decks, results files, methods, devices, sizes of figures."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from qsim import methods

__all__ = [
    "DECK_SUFFIXES",
    "FORMATS",
    "RESULTS_SUFFIXES",
    "DeckFile",
    "DeckKey",
    "ExampleName",
    "FigureSize",
    "MethodName",
    "ResultsFile",
    "TaskName",
    "device_option",
    "formats_option",
    "require_method",
]

DECK_SUFFIXES = (".yaml", ".yml")
RESULTS_SUFFIXES = (".h5", ".hdf5")
FORMATS = ("png", "pdf", "svg")

Command = TypeVar("Command", bound=Callable[..., Any])


class _FileWithSuffix(click.Path):
    """A path that shells complete by its suffix."""

    suffixes: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the files with the right suffix, and the folders on the way to them."""
        # What is typed so far may lead into a folder.
        head, tail = os.path.split(incomplete)
        prefix = incomplete.removesuffix(tail)
        try:
            entries = sorted(os.scandir(head or "."), key=lambda entry: entry.name)
        except OSError:
            return []
        offered = []
        for entry in entries:
            # Hidden files are offered only after a dot has been typed, as shells do.
            if not entry.name.startswith(tail) or (entry.name.startswith(".") and not tail):
                continue
            if entry.is_dir():
                offered.append(CompletionItem(f"{prefix}{entry.name}/"))
            elif entry.name.endswith(self.suffixes):
                offered.append(CompletionItem(f"{prefix}{entry.name}"))
        return offered


class DeckFile(_FileWithSuffix):
    """A deck; that it exists is checked when it is read, with a suggestion if it does not."""

    name = "deck"
    suffixes = DECK_SUFFIXES


class ResultsFile(_FileWithSuffix):
    """A results file."""

    name = "file"
    suffixes = RESULTS_SUFFIXES


class MethodName(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5 only
    """The name of a method that is part of this installation."""

    name = "method"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or fail saying what there is."""
        if not methods.is_available(value):
            self.fail(methods.refusal(value), param, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the methods of this installation."""
        names = [name for name in methods.available() if name.startswith(incomplete)]
        return [CompletionItem(name, help=methods.TABLE[name]) for name in names]


class ExampleName(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5 only
    """The name of a deck that comes with qsim; that there is one is checked by the command, with a suggestion."""

    name = "name"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the decks that come with qsim, of one method if that is given."""
        from qsim.core.examples.check import cases

        method = ctx.params.get("method")
        chosen = [method] if isinstance(method, str) and methods.is_available(method) else methods.available()
        names = [(case.deck.stem, case.method) for case in cases(chosen)]
        return [CompletionItem(name, help=home) for name, home in names if name.startswith(incomplete)]


class TaskName(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5 only
    """The name of a task of the method that is given; checked by the command."""

    name = "task"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the names of the method."""
        from qsim.core.run.stages import stage

        method = _typed(ctx, "method")
        if not isinstance(method, str) or not methods.is_available(method):
            return []
        names = self.names(stage(method, "deck").DECK.variants())
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]

    @staticmethod
    def names(variants: Iterable[type[Any]]) -> Iterable[str]:
        """Return the tasks."""
        from qsim.core.deck.fields import tasks_of

        return tasks_of(variants)


class TypeName(TaskName):
    """The type of the system of the method that is given; checked by the command."""

    name = "type"

    @staticmethod
    def names(variants: Iterable[type[Any]]) -> Iterable[str]:
        """Return the types of system."""
        from qsim.core.deck.fields import types_of

        return types_of(variants)


class DeckKey(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5 only
    """A key of a deck with a value, ``time.T=4000``; read by the command."""

    name = "key"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the keys of the method: of a command of its own, or of the deck that is given."""
        from qsim.core.deck.fields import dotted_keys
        from qsim.core.run.stages import stage

        method = (
            ctx.info_name if methods.is_available(ctx.info_name or "") else _method_of(_typed(ctx, "deck"))
        )
        # Behind the sign stands a value, which has no completion.
        if method is None or "=" in incomplete:
            return []
        level = incomplete.count(".")
        keys = [
            key for key in dotted_keys(stage(method, "deck").DECK.variants()) if key.startswith(incomplete)
        ]
        # One part of a key at a time, as a deck has hundreds of keys.
        parts = dict.fromkeys(".".join(key.split(".")[: level + 1]) for key in keys)
        # A block goes on with a dot, a key with its value.
        blocks = {key.rpartition(".")[0] for key in keys}
        return [CompletionItem(f"{part}." if part in blocks else f"{part}=") for part in parts]


def _typed(ctx: click.Context, name: str) -> object:
    """Return an argument of a line that is being typed: behind an option without its value, click leaves it among the rest."""
    return ctx.params.get(name) or next(iter(ctx.args), None)


def _method_of(deck: object) -> str | None:
    """Return the method of a deck that is being typed; None if it cannot be read."""
    from qsim.core.deck.load import peek_method
    from qsim.core.errors import QsimError

    # Completion is silent: a damaged deck is told about when it is run.
    try:
        method = peek_method(Path(str(deck))) if deck else ""
    except QsimError:
        return None
    return method if methods.is_available(method) else None


class FigureSize(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5 only
    """Width and height in inches, such as ``7x4``."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        """Return width and height."""
        # Click converts a default that is converted already.
        if isinstance(value, tuple):
            return value
        width, cross, height = str(value).lower().partition("x")
        try:
            size = float(width), float(height)
        except ValueError:
            size = 0.0, 0.0
        # 0.5 inch is a thumbnail, 100 inches a poster; beyond, matplotlib would run out of
        # memory.
        if not cross or not all(0.5 <= side <= 100.0 for side in size):
            self.fail(
                f"'{value}' is not WIDTHxHEIGHT in inches, each from 0.5 to 100, such as 7x4", param, ctx
            )
        return size


class Limits(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5 only
    """Ends of an axis, such as ``0:10``; either may be left out."""

    name = "limits"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float | None, float | None]:
        """Return both ends, None for one that is left out."""
        if isinstance(value, tuple):
            return value
        first, colon, second = str(value).partition(":")
        try:
            ends = tuple(float(end) if end.strip() else None for end in (first, second))
        except ValueError:
            colon, ends = "", ()
        finite = all(end is None or math.isfinite(end) for end in ends)
        if not colon or not finite or ends in ((None, None), ()) or ends[0] == ends[1]:
            self.fail(f"'{value}' is not FROM:TO, such as 0:10, 1e-8: or :5", param, ctx)
        return ends[0], ends[1]


def _device_name(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Check the option ``--device``."""
    if value is not None and not re.fullmatch(r"auto|cpu|cuda(:\d+)?", value.strip().lower()):
        raise click.BadParameter(f"'{value}' is not auto, cpu, cuda or cuda:N")
    return value


def device_option(command: Command) -> Command:
    """Add the option ``--device`` to a command."""
    text = "Where to compute: auto, cpu, cuda or cuda:N."
    return click.option("--device", metavar="D", callback=_device_name, help=text)(command)


def formats_option(text: str) -> Callable[[Command], Command]:
    """Return what adds the option ``--format`` to a command, with a help text."""
    return click.option("--format", "formats", multiple=True, type=click.Choice(FORMATS), help=text)


def require_method(name: str) -> None:
    """Raise a usage error if a method is not part of this installation."""
    if not methods.is_available(name):
        raise click.UsageError(methods.refusal(name))
