"""Text on its way to a reader: control characters made visible, long values shortened, errors in one line.

Decks, data files and results come from others.  What they hold is printed only through :func:`printable`, so that
a title cannot clear the screen, rename the window or turn the rest of a line around.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import sys
import unicodedata
from collections.abc import Iterable

__all__ = [
    "NUMBERS",
    "format_bytes",
    "format_scalar",
    "format_seconds",
    "grouped",
    "has_controls",
    "json_text",
    "long_time",
    "multiple_of_pi",
    "plain_number",
    "printable",
    "reason",
    "rough_time",
    "shell_path",
    "shorten",
    "with_error",
]

# Characters of a value that a message repeats.
LONGEST_VALUE = 80
# Characters of the text of a library's error that a message repeats.
LONGEST_REASON = 240

# How decks write numbers, for messages; and what texts of other origin have for a minus sign.
NUMBERS = "numbers have a decimal point, a plain minus and e before a power of ten"
DASHES = "\N{MINUS SIGN}\N{EN DASH}\N{EM DASH}\N{HYPHEN}"

_OS_MESSAGE = re.compile(r"error message = '([^']*)'")
# a product and a quotient around the name of pi, or its letter
_PI = re.compile(r"([-+]?)\s*(\d+(?:\.\d*)?|\.\d+)?\s*\*?\s*(?:pi|\u03c0)\s*(?:/\s*([1-9]\d*))?")
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


def has_controls(text: str) -> bool:
    """Return True for a text with control characters or line breaks, which no name of a file should have."""
    return not text.isprintable() and any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in text)


def _harmless(character: str, newlines: bool) -> bool:
    return (newlines and character == "\n") or unicodedata.category(character) == "Zs"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def json_text(content: object) -> str:
    r"""Return JSON that standard output can hold and a terminal shows as it is.

    Control and format characters are written as ``\uXXXX``, and so is all that is not ASCII where the encoding is not UTF-8.
    """
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "").replace("_", "")
    text = json.dumps(content, indent=2, ensure_ascii=encoding not in ("utf8", "utf8sig"))
    return "".join(c if c.isprintable() or _harmless(c, newlines=True) else _json_escaped(c) for c in text)


def _json_escaped(character: str) -> str:
    code = ord(character)  # json.dumps itself leaves DEL as it is
    return f"\\u{code:04x}" if code < 0x10000 else json.dumps(character)[1:-1]


def shell_path(path: object) -> str:
    """Return a path as a shell takes it, also one that begins like an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def shorten(text: str, limit: int = LONGEST_VALUE) -> str:
    """Return a text of at most `limit` characters; the end of a longer one is replaced by ``...``."""
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."


def reason(error: BaseException) -> str:
    """Return the reason that a library gives for a failure, in one line without the addresses and times that HDF5 adds."""
    if isinstance(error, MemoryError):
        return "it does not fit into memory"
    # str() of a KeyError adds quotes
    message = error.args[0] if isinstance(error, KeyError) and error.args else error
    text = getattr(error, "strerror", None) or str(message)
    # HDF5 quotes the message of the operating system in the middle of its own.
    if quoted := _OS_MESSAGE.search(text):
        return quoted[1].lower()
    text = " ".join(_ADDRESS.sub("", text).split())
    return shorten(printable(text) or type(error).__name__, LONGEST_REASON)


# --------------------------------------------------------------------------------------- quantities


def format_scalar(
    value: object, unit: str = "", error: float | None = None, digits: int = 6, note: str = ""
) -> str:
    """Return a scalar with its unit and error: as many digits as the error leaves, else `digits`; a note in parentheses."""
    if value is None:
        return "none"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    text = str(value) if isinstance(value, int) else f"{value:.{digits}g}"
    if error is not None and math.isfinite(error) and error > 0 and math.isfinite(value):
        # Two digits of the error: as many digits of the value as lie above them.
        leading = math.floor(math.log10(max(abs(value), error))) - math.floor(math.log10(error))
        # An error as large as the number leaves no digits, yet the number is what was found.
        rounded = f"{value:#.{min(12, leading + 2)}g}" if leading else text
        text = f"{rounded} ± {error:.2g}"
    text = f"{text} {unit}".rstrip()
    return f"{text} ({note})" if note else text


def with_error(value: float, error: float) -> str:
    """Return a number with its error in parentheses, two digits of it: ``-2.9024(12)``."""
    if not (math.isfinite(error) and error > 0.0 and math.isfinite(value)):
        return f"{value:.7g}"
    # Decimals that show two digits of the error.
    places = 1 - math.floor(math.log10(error))
    if places <= 0:
        return f"{value:.0f}({error:.0f})"
    return f"{value:.{places}f}({round(error * 10**places)})"


def format_bytes(number: int) -> str:
    """Return a size such as ``17.2 GB`` (powers of 1000)."""
    size = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000.0
    return f"{size:.3g} TB"


def format_seconds(seconds: float) -> str:
    """Return a time such as ``0.31 s``, ``12.3 s`` or ``1:02:03``."""
    if seconds < 99.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"


def rough_time(seconds: float) -> str:
    """Return an estimated time with one or two digits: ``0.3 s``, ``8 s``, ``40 s``, ``12 minutes``."""
    if seconds >= 60.0:
        return long_time(seconds)
    return f"{float(f'{seconds:.1g}'):g} s"


def long_time(seconds: float) -> str:
    """Return a time of minutes or more with two digits: ``7.0 hours``, ``12 days``, ``3.2 years``, ``1e+06 years``."""
    unit, length = "minutes", 60.0
    if seconds >= 365.25 * 86400.0:
        unit, length = "years", 365.25 * 86400.0
    elif seconds >= 86400.0:
        unit, length = "days", 86400.0
    elif seconds >= 3600.0:
        unit, length = "hours", 3600.0
    number = seconds / length
    if number < 9.95:
        return f"{number:.1f} {unit}"
    return f"{number:.0f} {unit}" if number < 9999.5 else f"{number:.1g} {unit}"


def grouped(files: Iterable[str]) -> list[str]:
    """Return names of files with those that differ only in their ending together: ``run.field.{png,pdf}``."""
    endings: dict[str, list[str]] = {}
    for file in files:
        stem, _, ending = file.rpartition(".")
        endings.setdefault(stem, []).append(ending)
    return [
        f"{stem}.{{{','.join(found)}}}" if len(found) > 1 else f"{stem}.{found[0]}"
        for stem, found in endings.items()
    ]


def multiple_of_pi(text: str) -> float | None:
    """Return the number of times pi that a text such as ``pi``, ``-pi/2`` or ``3*pi/4`` stands for; None for other texts."""
    match = _PI.fullmatch(text.strip())
    if match is None:
        return None
    sign, times, over = match.groups()
    value = float(times or 1.0) / float(over or 1.0)
    return -value if sign == "-" else value


def plain_number(text: str) -> str:
    """Return a text with its numbers as decks have them: decimal points, plain minus signs, powers of ten after e."""
    plain = text.translate({ord(dash): "-" for dash in DASHES})
    plain = re.sub(r"(?<=\d),(?=\d)", ".", plain)
    plain = re.sub(r"(?<=[\d.])[dD](?=[-+]?\d)", "e", plain)
    return "" if plain == text else plain
