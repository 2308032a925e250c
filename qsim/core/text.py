"""Text on its way to a reader: control characters made visible, long values shortened, errors in one line.

Decks, data files and results come from others.  What they hold is printed only through :func:`printable`, so that
a title cannot clear the screen, rename the window or turn the rest of a line around.
"""

from __future__ import annotations

import json
import re
import unicodedata

__all__ = ["json_text", "printable", "reason", "shorten"]

LONGEST_VALUE = 80
"""Characters of a value that a message repeats."""
LONGEST_REASON = 240
"""Characters of the text of a library's error that a message repeats."""

_OS_MESSAGE = re.compile(r"error message = '([^']*)'")
_ADDRESS = re.compile(r",? ?(?:buf|buffer|addr) ?= ?0x[0-9a-fA-F]+")


def printable(text: str, *, newlines: bool = False) -> str:
    r"""Return a text without control characters: each is written as its escape, ``\x1b``.

    Controls (C0, C1), directions and other invisible formats, halves of surrogate pairs, line and paragraph separators, private
    and unassigned characters are escaped; letters of any script and spaces of any width stay.

    Parameters
    ----------
    text
        What is going to be printed.
    newlines
        Keep line breaks, for a text of several lines; otherwise the result is one line.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or _harmless(c, newlines) else _escaped(c) for c in text)


def _harmless(character: str, newlines: bool) -> bool:
    return (newlines and character == "\n") or unicodedata.category(character) == "Zs"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def json_text(content: object) -> str:
    r"""Return JSON that a terminal shows as it is: control and format characters are written as ``\uXXXX``."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    return "".join(c if c.isprintable() or _harmless(c, newlines=True) else _json_escaped(c) for c in text)


def _json_escaped(character: str) -> str:
    code = ord(character)  # json.dumps itself leaves DEL as it is
    return f"\\u{code:04x}" if code < 0x10000 else json.dumps(character)[1:-1]


def shorten(text: str, limit: int = LONGEST_VALUE) -> str:
    """Return a text of at most `limit` characters; the end of a longer one is replaced by ``...``."""
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."


def reason(error: BaseException) -> str:
    """Return what a library says went wrong, in one line without the addresses and times that HDF5 adds."""
    if isinstance(error, MemoryError):
        return "it does not fit into memory"
    told = (
        error.args[0] if isinstance(error, KeyError) and error.args else error
    )  # str() of a KeyError adds quotes
    text = getattr(error, "strerror", None) or str(told)
    if found := _OS_MESSAGE.search(text):
        return found[1].lower()
    text = " ".join(_ADDRESS.sub("", text).split())
    return shorten(printable(text) or type(error).__name__, LONGEST_REASON)
