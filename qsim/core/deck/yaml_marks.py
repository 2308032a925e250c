"""YAML read as YAML 1.2, with the place of every key kept.

PyYAML reads YAML 1.1: ``no`` is False, ``12:30`` is 750, ``010`` is 8, ``1e6`` is text, and the last of two
equal keys wins silently.  Decks are read here from PyYAML's *events* (its scanner and parser only), with
the scalars of YAML 1.2, and with duplicate keys, merge keys, tags, deep nesting and alias bombs refused,
each at its line.  The result is a tree of `Node` which knows where everything stands; ``--set`` overrides
are grafted onto it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import yaml

from qsim.core.errors import DeckError, Diagnostic
from qsim.core.text import printable, shorten

__all__ = [
    "MAX_DEPTH",
    "MAX_DIGITS",
    "MAX_NODES",
    "Mark",
    "Node",
    "Source",
    "override",
    "parse_yaml",
    "reads_as_text",
]

#: Deepest nesting of blocks and lists in a deck.
MAX_DEPTH = 50
#: Most values in a deck after its aliases are written out; real data belongs into files beside the deck.
MAX_NODES = 200_000
#: Most keys of one block: more are read no further, since no block has a tenth of them.
MAX_KEYS = 1000
#: Characters of a text that libyaml reads, in a twentieth of the time of PyYAML's own parser, if it is plain: without tabs, tags,
#: anchors, directives and complex keys, in which the two differ. What it finds fault with is read again, for the other's words.
LONG = 20_000
_PLAIN = re.compile(r"[^%?&!\x00-\x09\x0b-\x1f\x7f-\U0010ffff]*")
#: Characters of a key, and of the beginning and the end of a message, that are printed.
LONGEST_KEY, LONGEST_START, LONGEST_END = 160, 800, 200
#: Longest number, in characters.
MAX_DIGITS = 400

_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_OCT_HEX = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INF_NAN = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_CORE_TAG = "tag:yaml.org,2002:"

# PyYAML's type stubs give neither anchors nor tags to its events, so these go unchecked.
Event = Any


@dataclass(frozen=True)
class Source:
    """A text with a name: a deck, or one override.  `shift` moves the columns of its first line."""

    file: str
    lines: tuple[str, ...]
    shift: int = 0


@dataclass(frozen=True)
class Mark:
    """A place in a source, line and column counted from 1."""

    source: Source
    line: int
    column: int

    def diagnostic(self, key: str, message: str) -> Diagnostic:
        """Return an error at this place; it prints as one line, whatever the deck holds."""
        lines = self.source.lines
        text = lines[self.line - 1] if self.line <= len(lines) else ""
        return Diagnostic(
            printable(self.source.file),
            self.line,
            self.column,
            shorten(printable(key), LONGEST_KEY),
            _clipped(printable(message)),
            source=text,
        )


@dataclass(frozen=True)
class Node:
    """A value of the deck with its place.

    Attributes
    ----------
    value
        A dict of nodes, a list of nodes, or a scalar (None, bool, int, float, str).
    mark
        Place of the key that holds the value, or of the value itself in a list.
    text
        A plain (unquoted) scalar as it was written; None for everything else.
    size, height
        Number of values and of levels of nesting in it, aliases written out.
    """

    value: Any
    mark: Mark
    text: str | None = None
    size: int = 1
    height: int = 1

    @classmethod
    def of(cls, value: dict[str, Node] | list[Node], mark: Mark) -> Node:
        """Return a mapping or list node with its size and height counted."""
        children = list(value.values()) if isinstance(value, dict) else value
        # Counted as if aliases were written out: a few lines of nested aliases can stand for
        # billions of values.
        size = 1 + sum(child.size for child in children)
        return cls(value, mark, None, size, 1 + max((child.height for child in children), default=0))

    def plain(self) -> Any:
        """Return the value as plain Python data."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    def child(self, part: str | int) -> Node | None:
        """Return the value under a key, or the item at an index (also given as text), if there is one."""
        if isinstance(self.value, dict):
            child: Node | None = self.value.get(str(part))
            return child
        if isinstance(self.value, list) and re.fullmatch(r"[0-9]{1,9}", str(part)):
            return self.value[int(part)] if int(part) < len(self.value) else None
        return None

    def find(self, path: Sequence[str | int]) -> tuple[Node, int]:
        """Return the deepest node on `path` that exists, and how many parts of the path lead to it.

        A block that stands for a list of one is its own first entry.
        """
        node = self
        for done, part in enumerate(path):
            below = node.child(part)
            if below is None and not node._is_only_entry(part):
                return node, done
            node = below or node
        return node, len(path)

    def written(self, path: Sequence[str | int]) -> list[str | int]:
        """Return a path as the document has it: without the numbers of blocks that stand for a list of one."""
        kept: list[str | int] = []
        for done, part in enumerate(path):
            node, found = self.find(path[:done])
            if found < done or not node._is_only_entry(part):
                kept.append(part)
        return kept

    def _is_only_entry(self, part: str | int) -> bool:
        """Return True if this is a block, and `part` the number of the only entry of a list."""
        return str(part) == "0" and isinstance(self.value, dict) and "0" not in self.value


def parse_yaml(text: str, file: str, prefix: str = "") -> tuple[Node | None, list[Diagnostic]]:
    """Read one YAML document.

    Parameters
    ----------
    text
        The document.
    file
        Its name in messages.
    prefix
        What stands before the document on its first line, for one that is the end of a longer text.

    Returns
    -------
    root, diagnostics
        The tree (None for an empty document), and the mistakes after which reading could go on, such as
        duplicate keys.

    Raises
    ------
    DeckError
        If the text is not YAML, or nests too deeply, or is too large.
    """
    # The lines are kept for messages: an excerpt with a caret.
    source = Source(file, tuple(_LINE_BREAK.split(prefix + text)), len(prefix))
    # libyaml is fast, but words its errors in another way: what it refuses is read again by
    # PyYAML.
    if len(text) > LONG and yaml.__with_libyaml__ and _PLAIN.fullmatch(text):
        with suppress(yaml.YAMLError):
            composer = _Composer(text, source, yaml.CSafeLoader)
            return composer.document(), composer.diagnostics
    composer = _Composer(text, source)
    # read again by PyYAML's own parser if libyaml finds fault: its words are translated below
    try:
        root = composer.document()
    except yaml.MarkedYAMLError as error:
        raise DeckError([*composer.diagnostics, _syntax_diagnostic(error, source)]) from None
    except yaml.reader.ReaderError as error:
        raise DeckError(_character_diagnostic(text, error, source)) from None
    return root, composer.diagnostics


def reads_as_text(word: str) -> bool:
    """Return True if a plain scalar is read as text, not as null, a truth value or a number."""
    others = (_NULL, _BOOL, _INT, _OCT_HEX, _FLOAT, _INF_NAN)
    return not any(pattern.fullmatch(word) for pattern in others)


def override(root: Node, path: Sequence[str], value: Node, mark: Mark) -> Node:
    """Return a copy of the tree in which `path` holds `value`; blocks that are missing on the way are made.

    Raises
    ------
    LookupError
        If the path leads through a scalar or out of a list; the text says so.
    """
    part, rest = path[0], path[1:]
    if isinstance(root.value, list):
        count = len(root.value)
        if not re.fullmatch(r"[0-9]{1,9}", part):
            raise LookupError(f"{shorten(repr(part))} is no index; a list is set by number, from 0")
        if int(part) >= count:
            what = f"the list has items 0 to {count - 1}" if count else "the list is empty"
            raise LookupError(f"index {part} is out of range: {what}")
        items = list(root.value)
        items[int(part)] = override(items[int(part)], rest, value, mark) if rest else value
        return Node.of(items, root.mark)
    # `key:` without a value is an empty block.
    if root.value is None:
        children: dict[str, Node] = {}
    elif isinstance(root.value, dict):
        children = dict(root.value)
    else:
        raise LookupError(
            f"there is no block to set {shorten(repr(part))} in, only the value {shorten(repr(root.value))}"
        )
    # A block that is missing on the way is made, at the place of the override.
    below = children.get(part, Node({}, mark))
    children[part] = override(below, rest, value, mark) if rest else value
    return Node.of(children, root.mark)


class _Composer:
    """Turns PyYAML's events into nodes; one instance per document."""

    def __init__(self, text: str, source: Source, loader: Any = yaml.SafeLoader) -> None:
        # PyYAML resolves scalars by YAML 1.1, where `no` is false and 1e3 is text: only its events are
        # used here
        self.source = source
        self.diagnostics: list[Diagnostic] = []
        self.anchors: dict[str, Node | None] = {}
        self.events: Iterator[Event] = iter(yaml.parse(text, Loader=loader))

    def mark(self, mark: Any) -> Mark:
        # an override is parsed behind its key: columns of its first line count from the start of the
        # argument
        shift = self.source.shift if mark.line == 0 else 0
        return Mark(self.source, mark.line + 1, mark.column + 1 + shift)

    def fail(self, event: Event, message: str) -> DeckError:
        return DeckError([*self.diagnostics, self.mark(event.start_mark).diagnostic("", message)])

    def document(self) -> Node | None:
        """Read the stream, which must hold one document at most."""
        root: Node | None = None
        started = False
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if started:
                    raise self.fail(event, "a second YAML document starts here; a deck is a single one")
                started = True
                first = next(self.events)
                root = self.node(first, (), self.mark(first.start_mark))
        # Blanks and comments alone make a null without text.
        empty = root is not None and root.value is None and root.text in ("", None)
        return None if empty else root

    def node(self, event: Event, path: tuple[str, ...], mark: Mark) -> Node:
        """Read the value that starts with `event` and stands at `mark`."""
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, mark)
        # a limit before the recursion of Python, which a deck of brackets would reach
        if len(path) > MAX_DEPTH:
            raise self.fail(event, f"nested deeper than {MAX_DEPTH} levels")
        # Now complete: aliases below may use it.
        if event.anchor:
            # known, but not complete: an alias inside itself is an error
            self.anchors[event.anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            node = self.scalar(event, path, mark)
        else:
            self.check_tag(event, path)
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            node = self.mapping(path, mark) if is_mapping else self.sequence(path, mark)
        if event.anchor:
            self.anchors[event.anchor] = node
        self.check_size(event, node)
        return node

    def alias(self, event: Event, mark: Mark) -> Node:
        if event.anchor not in self.anchors:
            raise self.fail(event, f"there is no anchor '&{event.anchor}' above this alias")
        node = self.anchors[event.anchor]
        if node is None:
            raise self.fail(event, f"the alias '*{event.anchor}' stands inside its own anchor")
        # aliases share the value of their anchor, at their own place
        return dataclasses.replace(node, mark=mark)

    def check_size(self, event: Event, node: Node) -> None:
        if node.size > MAX_NODES:
            raise self.fail(
                event, f"more than {MAX_NODES} values, aliases written out; keep large data in files"
            )
        if node.height > MAX_DEPTH:
            raise self.fail(event, f"nested deeper than {MAX_DEPTH} levels")

    def mapping(self, path: tuple[str, ...], mark: Mark) -> Node:
        """Build the node of a mapping; duplicate keys are reported, and the first one counts."""
        children: dict[str, Node] = {}
        # sizes are added up while the block is read: aliases of aliases grow exponentially in a few lines
        total = 0
        for event in self.events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            if len(children) == MAX_KEYS:
                raise self.fail(event, f"more than {MAX_KEYS} keys in one block; the rest is not read")
            place = self.mark(event.start_mark)
            key = self.key(event, path)
            child = self.node(next(self.events), (*path, key or "?"), place)
            # The sum is watched while the block is read, so that a bomb of aliases stops before
            # it is unfolded.
            total += child.size
            if total > MAX_NODES:
                self.check_size(event, dataclasses.replace(child, size=total))
            # a mistaken key has been reported, and its value read past
            if key is None:
                continue
            if key in children:
                message = f"duplicate key (first on line {children[key].mark.line})"
                self.diagnostics.append(place.diagnostic(_dotted((*path, key)), message))
            else:
                children[key] = child
        return Node.of(children, mark)

    def sequence(self, path: tuple[str, ...], mark: Mark) -> Node:
        items: list[Node] = []
        total = 0
        for event in self.events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self.node(event, (*path, str(len(items))), self.mark(event.start_mark)))
            total += items[-1].size
            if total > MAX_NODES:
                self.check_size(event, dataclasses.replace(items[-1], size=total))
        return Node.of(items, mark)

    def key(self, event: Event, path: tuple[str, ...]) -> str | None:
        """Return a key as text, or None (and a diagnostic) for one that a deck cannot have."""
        place = self.mark(event.start_mark)
        # Mistakes in keys are collected, and reading goes on: the value below is read and
        # dropped.
        if not isinstance(event, yaml.ScalarEvent):
            message = "a key must be a word or a number"
            if isinstance(event, yaml.AliasEvent):
                message += ", not an alias"
            else:
                # read past it
                self.node(event, (*path, "?"), place)
            self.diagnostics.append(place.diagnostic(_dotted(path), message))
            return None
        if event.implicit[0] and event.value == "<<":
            message = "merge keys ('<<') are not supported; write the keys out"
            self.diagnostics.append(place.diagnostic(_dotted(path), message))
            return None
        if event.implicit[0] and event.value == "":
            self.diagnostics.append(place.diagnostic(_dotted(path), "a key is missing before ':'"))
            return None
        node = self.scalar(event, path, place)
        if event.anchor:
            self.anchors[event.anchor] = node
        # numbers as keys in their plain spelling, so that `0x10` and `16` are one key
        return str(node.value) if type(node.value) is int else str(event.value)

    def scalar(self, event: Event, path: tuple[str, ...], mark: Mark) -> Node:
        value: str = event.value
        if any("\ud800" <= character <= "\udfff" for character in value):
            self.diagnostics.append(mark.diagnostic(_dotted(path), "the text holds half of a surrogate pair"))
            return Node("", mark)
        # A quoted scalar is text, whatever it looks like.
        # plain: None, of libyaml an empty text
        quoted = event.style and event.tag is None
        if quoted or event.tag in ("!", _CORE_TAG + "str"):
            return Node(value, mark)
        resolved = self.resolve(value, path, mark)
        if event.tag is not None:
            resolved = self.tagged(event, resolved, path, mark)
        return Node(resolved, mark, value)

    def tagged(self, event: Event, value: object, path: tuple[str, ...], mark: Mark) -> Any:
        """Return a scalar that has an explicit tag such as ``!!float`` as that type."""
        kind = event.tag.removeprefix(_CORE_TAG)
        types = {"null": type(None), "bool": bool, "int": int, "float": float}
        if kind == "float" and type(value) is int:
            return float(value)
        if kind not in types:
            self.check_tag(event, path)
        elif type(value) is not types[kind]:
            self.diagnostics.append(
                mark.diagnostic(_dotted(path), f"{shorten(repr(event.value))} is no YAML {kind}")
            )
        return value

    def resolve(self, text: str, path: tuple[str, ...], mark: Mark) -> bool | float | str | None:
        """Return a plain scalar by the core schema of YAML 1.2."""
        # the order matters: `1` is an integer before it is a float
        if _NULL.fullmatch(text):
            return None
        if _BOOL.fullmatch(text):
            return text[0] in "tT"
        # Octal and hexadecimal numbers need their prefix in YAML 1.2: 010 is ten.
        integer, based = _INT.fullmatch(text), _OCT_HEX.fullmatch(text)
        if (integer or based) and len(text) > MAX_DIGITS:
            self.diagnostics.append(
                mark.diagnostic(_dotted(path), f"a number with more than {MAX_DIGITS} digits")
            )
            return 0
        if integer:
            return int(text)
        if based:
            return int(text, 0)
        if _FLOAT.fullmatch(text):
            return float(text)
        if _INF_NAN.fullmatch(text):
            return float(text.lower().replace(".", ""))
        return text

    def check_tag(self, event: Event, path: tuple[str, ...]) -> None:
        kind = "map" if isinstance(event, yaml.MappingStartEvent) else "seq"
        if event.tag in (None, "!", _CORE_TAG + kind):
            return
        name = event.tag.replace(_CORE_TAG, "!!")
        message = f"the YAML tag {shorten(repr(name))} is not supported; remove it"
        self.diagnostics.append(self.mark(event.start_mark).diagnostic(_dotted(path), message))


def _clipped(message: str) -> str:
    """Return a message without its middle, if it is very long: what it repeats of the deck has no limit."""
    # the beginning names the mistake, the end what is allowed
    if len(message) <= LONGEST_START + LONGEST_END:
        return message
    return f"{message[:LONGEST_START]} ... {message[-LONGEST_END:]}"


def _dotted(path: Sequence[str | int]) -> str:
    return ".".join(map(str, path))


def _syntax_diagnostic(error: yaml.MarkedYAMLError, source: Source) -> Diagnostic:
    place: Any = error.problem_mark or error.context_mark
    line, column = place.line + 1, place.column + 1 + (source.shift if place.line == 0 else 0)
    return Mark(source, line, column).diagnostic("", _syntax_message(error))


def _syntax_message(error: yaml.MarkedYAMLError) -> str:
    """Translate an error of PyYAML's scanner or parser into the words of a deck's author."""
    problem, context = error.problem or "", error.context or ""
    # PyYAML's texts are matched piece by piece; one that a later version words differently is shown as it
    # is
    opened = f"line {error.context_mark.line + 1}" if error.context_mark else "a line above"
    # PyYAML's texts name grammar rules; these say what an author has to change. The commonest
    # slips come first.
    if "'\\t'" in problem:
        return "a tab; YAML is indented and spaced with spaces only"
    if "mapping values are not allowed" in problem:
        return "unexpected ':'; check the indentation, and quote text that holds ': '"
    if "could not find expected ':'" in problem:
        return f"no ':' after the key that starts on {opened}"
    if "quoted scalar" in context and "end of stream" in problem:
        return f"the quote opened on {opened} is never closed"
    if "expected the node content" in problem:
        return f"a value is missing{problem.removeprefix('expected the node content')}"
    if "flow mapping" in context:
        return f"the '{{' opened on {opened} is not closed, or a ',' is missing: {problem}"
    if "flow sequence" in context:
        return f"the '[' opened on {opened} is not closed, or a ',' is missing: {problem}"
    if "expected <block end>" in problem:
        return f"this does not line up with the block that starts on {opened}; check indentation and quotes"
    if "cannot start any token" in problem:
        return problem.removeprefix("found ").replace(
            "that cannot start any token", "cannot start a value; quote it"
        )
    return f"{context}: {problem}" if context else problem


def _character_diagnostic(text: str, error: yaml.reader.ReaderError, source: Source) -> Diagnostic:
    before = _LINE_BREAK.split(text[: error.position])
    code = error.character if isinstance(error.character, int) else ord(error.character)
    shift = source.shift if len(before) == 1 else 0
    mark = Mark(source, len(before), len(before[-1]) + 1 + shift)
    return mark.diagnostic("", f"the character U+{code:04X} is not allowed in YAML")
