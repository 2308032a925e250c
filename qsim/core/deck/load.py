"""Decks: YAML files checked against a model, with every mistake reported at its line.

A method describes its deck as a `Deck` subclass made of `Block` classes (pydantic models).  `load_deck`
reads the file, applies ``--set`` overrides, validates, runs the model's own cross-checks, and raises one
`DeckError` that lists everything found::

    bad.yaml:3:3: grid.points: expected a whole number, found 3.5
    bad.yaml:8:5: pulses.0.fwhm: unknown unit 'fz' of time; did you mean 'fs'? allowed units: au, as, fs, ...
    bad.yaml:10:5: pulses.1.cycle: unknown key; did you mean 'cycles'? allowed: type, cycles, cep

Validation is strict: nothing is coerced but whole floats where a count is wanted (``1e6``) and texts with a
unit.
"""

import dataclasses
import difflib
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, cast

from pydantic import ValidationError
from typing_extensions import TypeVar

from qsim.core.deck.blocks import (
    Block,
    ComplexNumber,
    Count,
    Deck,
    DeckPath,
    Finding,
    Integer,
    OutputBlock,
    PositiveCount,
    RunBlock,
    short_form,
)
from qsim.core.deck.describe import without_unset
from qsim.core.deck.fields import Annotation, fields_of, literals
from qsim.core.deck.forgotten import forgotten_units
from qsim.core.deck.mapping import MAPPING, deck_text, read_mapping
from qsim.core.deck.messages import describe, diagnostics_of, did_you_mean, dotted
from qsim.core.deck.reference import deck_reference
from qsim.core.deck.template import schema, template
from qsim.core.deck.yaml_marks import MAX_DEPTH, Mark, Node, Source, override, parse_yaml
from qsim.core.errors import MOST, DeckError, Diagnostic, FileError
from qsim.core.text import shorten

__all__ = [
    "Block",
    "ComplexNumber",
    "Count",
    "Deck",
    "DeckPath",
    "DeckSource",
    "Diagnostic",
    "Finding",
    "Integer",
    "LoadedDeck",
    "OutputBlock",
    "PositiveCount",
    "RunBlock",
    "changed_keys",
    "deck_reference",
    "in_new_names",
    "load_deck",
    "peek_method",
    "schema",
    "short_form",
    "template",
]

#: Largest deck, in bytes.
MAX_BYTES = 4 * 2**20
# A line of a deck that names its method, by a word that is a text in YAML.
METHOD_LINE = re.compile(
    r"^method: *(?!(?:null|true|false|yes|no|on|off)\b)([a-z]+) *(?:#.*)?$", re.MULTILINE
)

# A deck: the path of a YAML file, or its keys and values.
DeckSource = str | Path | Mapping[str, Any]

D = TypeVar("D", bound=Deck, default=Deck)
T = TypeVar("T")


@dataclass
class LoadedDeck(Generic[D]):
    """A valid deck together with the text it came from.

    Attributes
    ----------
    deck
        The validated model, in atomic units.
    path
        The file.
    text
        Its content, verbatim.
    overrides
        The ``KEY=VALUE`` texts that were applied.
    root
        The tree of values and places, overrides included.
    warnings
        Formatted warnings of the cross-checks, `MOST` of them at most.
    notes
        Formatted notes: how old names and numbers without units are taken.
    """

    deck: D
    path: Path
    text: str
    root: Node
    overrides: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _warnings: dict[str, None] = field(default_factory=dict, repr=False)  # each once, in order, without limit
    _made: dict[Callable[[D], object], object] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The file's name without its ending, ``deck`` for a mapping; results are named after it."""
        return self.path.stem.strip("<>")

    @property
    def data(self) -> dict[str, Any]:
        """The deck as plain data as it was written, overrides included."""
        plain: dict[str, Any] = self.root.plain()
        return plain

    @property
    def sha256(self) -> str:
        """The hash of the text and the overrides."""
        parts = [self.text, *(f"\n--set {item}" for item in self.overrides)]
        return hashlib.sha256("".join(parts).encode("utf-8", "surrogateescape")).hexdigest()

    def resolved(self) -> dict[str, Any]:
        """Return the deck with all defaults, in atomic units, as JSON-able data."""
        # Paths are written relative to the deck's folder.
        return self.deck.model_dump(mode="json", by_alias=True, context={"base": self.path.parent})

    def shown(self) -> dict[str, Any]:
        """Return the resolved deck without keys that are not set, and blocks that its task does not read: the same, shorter."""
        shown: dict[str, Any] = without_unset(self.deck, self.resolved())
        hidden = set(self.deck.unread()) - self.deck.model_fields_set
        return {key: value for key, value in shown.items() if key not in hidden}

    def physics(self) -> dict[str, Any]:
        """Return the resolved deck without ``run``, ``output`` and ``title``: what a resumed run must share.

        Files are represented by their content, so that an edited table counts as a change and a moved one
        does not.
        """
        context = {"base": self.path.parent, "digest": True}
        data = self.deck.model_dump(mode="json", by_alias=True, context=context)
        return {key: value for key, value in data.items() if key not in ("run", "output", "title")}

    def once(self, make: Callable[[D], T]) -> T:
        """Return ``make(deck)``, computed once: what the plan makes, the build need not make again.

        Parameters
        ----------
        make
            A function at module level. It must not depend on the block ``run``, whose seed is drawn between plan and build.
        """
        if make not in self._made:
            self._made[make] = make(self.deck)
        return cast("T", self._made[make])

    def update_run(self, **changes: object) -> None:
        """Replace keys of the ``run`` block, for instance the seed by the one that was drawn."""
        run = self.deck.run.model_copy(update=changes)
        self.deck = self.deck.model_copy(update={"run": run})

    def diagnostic(self, finding: Finding) -> Diagnostic:
        """Return a finding with the place of its key, or of the nearest block around it that exists."""
        # A key that is not written has the place of the block that it belongs to.
        path = finding.key.split(".") if finding.key else []
        node, _ = self.root.find(path)
        key = dotted(self.root.written(path))
        return dataclasses.replace(node.mark.diagnostic(key, finding.message), severity=finding.severity)

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Give a mistake that shows only in the work its place in the deck, if its text begins with a key: ``sector: ...``."""
        try:
            yield
        except DeckError as error:
            key, _, message = str(error).partition(": ")
            if error.diagnostics or not message or key.split(".")[0] not in type(self.deck).model_fields:
                raise
            raise DeckError(self.diagnostic(Finding(key, message)), hint=error.hint) from error

    def doubts(self) -> list[Finding]:
        """Return warnings about numbers that were probably meant with a unit, and notes about old names of keys."""
        return list(forgotten_units(self.deck, self.root))

    def raise_for(self, findings: Iterable[Finding]) -> None:
        """Keep the warnings and notes among `findings`, and raise the errors.

        Raises
        ------
        DeckError
            If there is an error among them; it holds all of them, and the doubts about units, which they may follow from.
        """
        diagnostics = _in_order([self.diagnostic(finding) for finding in findings], str(self.path))
        for diagnostic in diagnostics:
            if diagnostic.severity == "warning":
                self._warnings.setdefault(str(diagnostic))
            elif diagnostic.severity == "note" and str(diagnostic) not in self.notes:
                self.notes.append(str(diagnostic))
        self.warnings[:] = list(self._warnings)[:MOST]
        if (untold := len(self._warnings) - MOST) > 0:
            self.warnings.append(f"... and {untold} more warnings")
        if errors := [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]:
            raise DeckError(_in_order([*errors, *map(self.diagnostic, self.doubts())], str(self.path)))


def load_deck(source: DeckSource, model: type[D], overrides: Sequence[str] = ()) -> LoadedDeck[D]:
    """Read, override and validate a deck.

    Parameters
    ----------
    source
        The YAML file, or a mapping of its keys.
    model
        The deck class of the method.
    overrides
        Texts ``KEY=VALUE`` with a dotted key and a YAML value, applied in order: ``"grid.points=4096"``.

    Raises
    ------
    FileError
        If the file cannot be read.
    DeckError
        If the deck is mistaken; all mistakes at once, in the order of the file.
    """
    # Mistakes of the text and of the overrides are kept, so that one run shows them together with
    # the mistakes of the values.
    path, text, root, diagnostics = _read(source)
    for item in overrides:
        root, more = _override(root, item)
        diagnostics += more
    # Before validation: every key of another method would be reported as unknown.
    _require_method(path, root, model, diagnostics)
    # A method may have a model per task: the deck itself says which.
    model = cast("type[D]", model.model_for(root.plain()))
    try:
        # As JSON: a strict model takes a list for a tuple there, as YAML has no tuples.
        deck = model.model_validate_json(json.dumps(root.plain()), context={"base": path.parent})
    except ValidationError as error:
        more, untold = diagnostics_of(error, model, root)
        raise DeckError(_in_order([*diagnostics, *more], str(path)), untold=untold) from None
    loaded = LoadedDeck(deck, path, text, root, tuple(overrides))
    # Keys against each other: only of a deck whose keys are right one by one.
    findings = list(deck.check())
    diagnostics += [loaded.diagnostic(finding) for finding in findings if finding.severity == "error"]
    if diagnostics:
        doubts = map(loaded.diagnostic, loaded.doubts())
        raise DeckError(_in_order([*diagnostics, *doubts], str(path)))
    loaded.raise_for([*findings, *loaded.doubts()])
    return loaded


def written_deck(text: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the keys of a deck as they are written, with their units, after the overrides; what cannot be read is left out.

    Parameters
    ----------
    text
        YAML.
    overrides
        As `load_deck` takes them.
    """
    root, _ = parse_yaml(text, MAPPING)
    if root is None or not isinstance(root.value, dict):
        return {}
    for item in overrides:
        root, _ = _override(root, item)
    return dict(root.plain())


def peek_method(source: DeckSource) -> str:
    """Return the method that a deck names, without validating anything else.

    Raises
    ------
    FileError
        If the file cannot be read.
    DeckError
        If it is no YAML mapping or has no ``method``.
    """
    if not isinstance(source, Mapping):
        # A line that says it needs no parser; whatever else is in the file is judged when the deck is read.
        named = METHOD_LINE.findall(_read_text(Path(source)))
        if len(named) == 1:
            return str(named[0])
    _, _, root, _ = _read(source)
    node = root.child("method")
    if node is None:
        guess = did_you_mean("method", root.value)
        hint = f"; is {guess!r} meant?" if guess else ""
        raise DeckError(
            root.mark.diagnostic("method", f"required key is missing (the method that the deck is for){hint}")
        )
    # A method that is a number or a list is a mistake of the deck, not of the command line.
    if not isinstance(node.value, str) or not node.value:
        raise DeckError(
            node.mark.diagnostic("method", f"expected the name of a method, found {describe(node)}")
        )
    return node.value


def changed_keys(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Return the dotted keys in which two resolved decks differ.

    A list of another length counts as one key.
    """
    changed: list[str] = []
    _compare(a, b, "", changed)
    return changed


def in_new_names(block: object, stored: object) -> object:
    """Return what an older version stored of a block with the present names of its keys, and without keys that are null.

    Parameters
    ----------
    block
        The block of the present deck, or a list of blocks.
    stored
        The same as it was written then.
    """
    if isinstance(block, (list, tuple)) and isinstance(stored, (list, tuple)) and len(block) == len(stored):
        return [in_new_names(one, other) for one, other in zip(block, stored, strict=True)]
    if not isinstance(stored, Mapping):
        return stored
    old = block.OLD_NAMES if isinstance(block, Block) else {}
    named = {old.get(key, key): value for key, value in stored.items()}
    # a key that there was not is as good as one that is not given
    return {
        key: in_new_names(getattr(block, key, None), value)
        for key, value in named.items()
        if value is not None
    }


def _compare(a: object, b: object, key: str, changed: list[str]) -> None:
    prefix = f"{key}." if key else ""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for part in dict.fromkeys([*a, *b]):
            if part in a and part in b:
                _compare(a[part], b[part], f"{prefix}{part}", changed)
            else:
                changed.append(f"{prefix}{part}")
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        for index, (one, other) in enumerate(zip(a, b, strict=True)):
            _compare(one, other, f"{prefix}{index}", changed)
    # True equals 1 in Python, but not in a deck.
    elif isinstance(a, bool) != isinstance(b, bool) or a != b:
        changed.append(key)


def _read(source: DeckSource) -> tuple[Path, str, Node, list[Diagnostic]]:
    """Return the path of a deck, its text, its tree, and the mistakes found so far."""
    if isinstance(source, Mapping):
        return _read_mapping(source)
    path = Path(source)
    text, file = _read_text(path), str(path)
    root, diagnostics = parse_yaml(text, file)
    if root is None:
        start = Mark(Source(file, (text.split("\n")[0],)), 1, 1)
        raise DeckError(
            start.diagnostic("", "the deck is empty; 'qsim init METHOD' writes one to start from")
        )
    if not isinstance(root.value, dict):
        message = f"a deck is a block of 'key: value' lines, found {describe(root)}"
        raise DeckError([*diagnostics, root.mark.diagnostic("", message)])
    return path, text, root, diagnostics


def _read_mapping(deck: Mapping[str, Any]) -> tuple[Path, str, Node, list[Diagnostic]]:
    """Return what `_read` does, of a deck that is no file; its text is only for the record of the run."""
    root, diagnostics = read_mapping(deck)
    if not root.value:
        raise DeckError(root.mark.diagnostic("", "the deck is empty"))
    return Path(MAPPING), deck_text(deck), root, diagnostics


def _read_text(path: Path) -> str:
    """Return the text of a deck file, which must be UTF-8 and not too large."""
    try:
        with path.open("rb") as file:
            # One byte more than allowed is enough to notice.
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise FileError(f"deck {str(path)!r} not found", hint=_similar_file(path)) from None
    except IsADirectoryError:
        raise FileError(f"{str(path)!r} is a folder, not a deck") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(f"deck {str(path)!r} cannot be read: {reason}") from None
    if len(data) > MAX_BYTES:
        limit = f"{MAX_BYTES // 2**20} MiB"
        raise FileError(
            f"{str(path)!r} is larger than {limit}, too large for a deck; keep large data in separate files"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DeckError(_encoding_diagnostic(path, data, error.start)) from None


def _similar_file(path: Path) -> str | None:
    try:
        names = [item.name for item in path.parent.iterdir() if item.suffix in (".yaml", ".yml")]
    except OSError:
        return None
    close = difflib.get_close_matches(path.name, names, n=1)
    return f"did you mean {str(path.with_name(close[0]))!r}?" if close else None


def _encoding_diagnostic(path: Path, data: bytes, position: int) -> Diagnostic:
    before = data[:position].decode("utf-8-sig", "replace").split("\n")
    message = f"byte 0x{data[position]:02x} is not UTF-8; save the deck as UTF-8 text"
    return Diagnostic(str(path), len(before), len(before[-1]) + 1, "", message)


def _override(root: Node, item: str) -> tuple[Node, list[Diagnostic]]:
    """Apply one ``KEY=VALUE``; return the new tree and what is wrong with the override."""
    key, equals, text = item.partition("=")
    name = key.strip()
    file = f"<--set {name if len(name) <= 80 else name[:76] + ' ...'}>"
    mark = Mark(Source(file, (item.split("\n")[0],)), 1, 1)
    parts = name.split(".")
    if not equals:
        return root, [mark.diagnostic("", f"expected KEY=VALUE, found {shorten(repr(item))}")]
    if not all(parts):
        return root, [mark.diagnostic(name, "expected a key such as grid.points before '='")]
    try:
        value, diagnostics = parse_yaml(text, file, prefix=f"{key}=")
        diagnostics = [dataclasses.replace(p, key=".".join(filter(None, (name, p.key)))) for p in diagnostics]
        value = Node(None, mark) if value is None else dataclasses.replace(value, mark=mark)
        # The limit of nesting holds for the tree after the override.
        if len(parts) + value.height > MAX_DEPTH:
            return root, [mark.diagnostic(name, f"nested deeper than {MAX_DEPTH} levels")]
        return override(root, parts, value, mark), diagnostics
    except DeckError as error:
        return root, [dataclasses.replace(diagnostic, key=name) for diagnostic in error.diagnostics]
    except LookupError as error:
        return root, [mark.diagnostic(name, f"cannot be set: {error.args[0]}")]


def _require_method(path: Path, root: Node, model: type[Deck], diagnostics: list[Diagnostic]) -> None:
    """Refuse a deck of another method before its keys, all foreign, are found fault with."""
    names = literals(Annotation.of_field(fields_of(model)["method"]))
    node = root.child("method")
    if not names or node is None or node.value in names or not isinstance(node.value, str):
        return
    guess = did_you_mean(node.value, names)
    hint = f"did you mean {guess!r}?" if guess else f"run it with 'qsim {shorten(node.value)} {path}'"
    message = f"the deck is for method {shorten(repr(node.value))}, not for {names[0]!r}; {hint}"
    others = [diagnostic for diagnostic in diagnostics if not diagnostic.key]
    raise DeckError(_in_order([*others, node.mark.diagnostic("method", message)], str(path)))


def _in_order(diagnostics: Iterable[Diagnostic], file: str) -> list[Diagnostic]:
    """Sort diagnostics by their place: the deck first, then the overrides."""
    return sorted(
        diagnostics, key=lambda diagnostic: (diagnostic.file != file, diagnostic.line, diagnostic.column)
    )
