"""The pieces that deck models are built from, and the blocks that all decks share."""

import cmath
import difflib
import hashlib
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError, core_schema

from qsim.core.deck.describe import complex_text
from qsim.core.deck.fields import LARGEST, Annotation, fields_of, tags
from qsim.core.deck.units import Duration
from qsim.core.errors import Severity
from qsim.core.results.reading import unusable
from qsim.core.text import reason, shorten

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core.core_schema import CoreSchema, SerializationInfo, ValidationInfo

__all__ = [
    "Block",
    "ComplexNumber",
    "Count",
    "Deck",
    "DeckPath",
    "Finding",
    "Integer",
    "OutputBlock",
    "PositiveCount",
    "RunBlock",
    "short_form",
]

# Bytes of a file beyond which its digest is remembered in this process, and of a piece in which a file is read.
_LARGE, _PIECE = 64 * 2**20, 2**20
# Of large files: digest by name, identity, size and times of change, of which each write changes one.
_digests: dict[tuple[Path, int, int, int, int], str] = {}


@dataclass(frozen=True)
class Finding:
    """Error or warning of a cross-check, before it has a place in the file.

    Attributes
    ----------
    key
        Dotted path of the key to blame, ``"time.dt"``.
    message
        What is wrong, with the numbers.
    severity
        An ``"error"`` stops the run, a ``"warning"`` is shown and kept, a ``"note"`` is only shown.
    """

    key: str
    message: str
    severity: Severity = "error"


class Block(BaseModel):
    """A block of keys in a deck: unknown keys, coerced types and non-finite numbers are refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        # so that a default may be written with its unit
        validate_default=True,
        protected_namespaces=(),
    )

    #: Old names of keys, which are accepted beside the new ones with a note for one version: ``{"lmax": "l_max"}``.
    OLD_NAMES: ClassVar[Mapping[str, str]] = {}

    def forgotten(self, name: str) -> tuple[tuple[float, float, str], ...] | None:
        """Return where a bare number was hardly meant in atomic units, as `FORGOTTEN` does, if that depends on other keys.

        Parameters
        ----------
        name
            A field with a `Quantity`; None leaves the ranges to that.
        """
        return None


def _integral(value: object) -> object:
    if isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST:
        return int(value)
    return value


#: A whole number; ``1e6`` counts as one, ``3.5`` does not.
# Days, hours, minutes and seconds.
_CLOCK = re.compile(r"(?:(\d+)-)?(\d{1,3}):(\d\d):(\d\d)")

Integer = Annotated[int, Field(ge=-LARGEST, le=LARGEST), BeforeValidator(_integral)]
#: A whole number from 0.
Count = Annotated[int, Field(ge=0, le=LARGEST), BeforeValidator(_integral)]
#: A whole number from 1.
PositiveCount = Annotated[int, Field(ge=1, le=LARGEST), BeforeValidator(_integral)]


class _ComplexNumber:
    """The validator behind `ComplexNumber`."""

    _number = r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
    _real = re.compile(rf"[-+]?{_number}", re.ASCII)
    _complex = re.compile(
        rf"(?:(?P<re>[-+]?{_number})\s*(?=[-+]))?(?P<im>[-+]?\s*(?:{_number})?)[ij]", re.ASCII
    )

    def _parse(self, value: object) -> complex:
        """Return a complex number from a number or a text such as ``1-0.5i``; NaN if it is neither."""
        # NaN stands for "neither": all failures then share one message at the end.
        result = complex("nan")
        # Truth values are numbers in Python; in a deck they are a mistake.
        if isinstance(value, (int, float, complex)) and not isinstance(value, bool):
            result = complex(value) if abs(value) < sys.float_info.max else result
        elif isinstance(value, str):
            text = value.strip()
            if self._real.fullmatch(text):
                result = complex(float(text), 0.0)
            elif match := self._complex.fullmatch(text):
                # A bare `i` has the factor 1, with or without a sign; blanks may stand between
                # sign and digits.
                imaginary = "".join(match["im"].split())
                if imaginary in ("", "+", "-"):
                    imaginary += "1"
                result = complex(float(match["re"] or 0.0), float(imaginary))
        if not cmath.isfinite(result):
            expected = "a complex number such as 0.5, 0.5i or 1-2i"
            context = {"text": f"expected {expected}", "expected": expected, "specific": False}
            raise PydanticCustomError("quantity", "{text}", context)
        return result

    def _write(self, value: complex) -> float | str:
        return complex_text(value) if value.imag else value.real

    def __get_pydantic_core_schema__(self, source: object, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        """Validate numbers and texts; write back a number or a text, as JSON has no complex numbers."""
        text = core_schema.union_schema([core_schema.float_schema(), core_schema.str_schema()])
        return core_schema.no_info_plain_validator_function(
            self._parse,
            json_schema_input_schema=text,
            serialization=core_schema.plain_serializer_function_ser_schema(
                self._write, return_schema=text, when_used="json"
            ),
        )


#: A complex number: ``0.5``, ``0.5i``, ``1-2i`` (``j`` is accepted as well).
ComplexNumber = Annotated[complex, _ComplexNumber()]


class _DeckPath:
    """The validator behind `DeckPath`; it finds the deck's folder in the validation context."""

    def _resolve(self, value: str | Path, info: "ValidationInfo") -> Path:
        """Return the path of an existing, readable file; relative ones count from the folder of the deck."""
        base, shown = Path((info.context or {}).get("base", ".")), shorten(repr(str(value)))
        try:
            path = base / Path(value).expanduser()
            if not path.name.isprintable():
                problem = f"{shown} cannot be used as a path"
            elif not path.exists():
                problem = (
                    f"file {shown} not found{_near(path)}; looked for {shorten(str(path.absolute()), 300)}"
                )
            elif kind := unusable(path):
                # A pipe or a device may never end.
                problem = f"{shown} is {kind}"
            else:
                return path
        except (OSError, RuntimeError, ValueError) as error:
            # Too long, no permission, unknown ~user, NUL.
            problem = f"{shown} cannot be used as a path ({reason(error)})"
        raise PydanticCustomError("deck_path", "{text}", {"text": problem})

    def _write(self, value: Path, info: "SerializationInfo") -> str | dict[str, str]:
        context: dict[str, Any] = info.context or {}
        # Relative to the deck where that is possible, so that a resolved deck can be moved with
        # its files; by content where two decks are compared.
        base = Path(context.get("base", "."))
        path = value.relative_to(base) if value.is_relative_to(base) else value
        return {"file": path.name, "content": _digest(value)} if context.get("digest") else path.as_posix()

    def __get_pydantic_core_schema__(self, source: object, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        """Validate text as the path of a file that exists."""
        path = core_schema.is_instance_schema(Path)
        text = core_schema.str_schema(min_length=1)
        return core_schema.with_info_after_validator_function(
            self._resolve,
            core_schema.json_or_python_schema(text, core_schema.union_schema([path, text])),
            serialization=core_schema.plain_serializer_function_ser_schema(
                self._write, info_arg=True, when_used="json"
            ),
        )

    def __get_pydantic_json_schema__(self, schema: "CoreSchema", handler: object) -> dict[str, Any]:
        """Describe a non-empty text."""
        return {"type": "string", "format": "path", "minLength": 1}


def _near(path: Path) -> str:
    """Return the file beside a path whose name is most like it, as a question; capitals do not count."""
    try:
        names = {item.name.lower(): item.name for item in path.parent.iterdir()}
    except OSError:
        return ""
    close = difflib.get_close_matches(path.name.lower(), names, n=1, cutoff=0.75)
    return f"; did you mean {names[close[0]]!r}?" if close else ""


#: A file that exists, named relative to the deck's folder.
DeckPath = Annotated[Path, _DeckPath()]


def _digest(path: Path) -> str:
    """Return the SHA-256 of the content of a file."""
    try:
        found = path.stat()
        if unusable(path):
            return "not a file"
        # A sweep asks for the same file at each of its values: gigabytes are read once.
        known = (path, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if known in _digests:
            return _digests[known]
        made = hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                made.update(piece)
        digest = made.hexdigest()
        if found.st_size > _LARGE:
            _digests[known] = digest
        return digest
    except OSError:
        return "missing"


class _ShortForm:
    """The before-validator that reads ``guess: zero`` as ``guess: {type: zero}``.

    It is put beside the discriminator of a union of blocks, and then the JSON Schema knows the short words
    too::

        Guess = Annotated[Zero | Ladder, Field(discriminator="type"), short_form]
    """

    def __call__(self, value: object) -> object:
        """Turn a text into a block of that type; leave anything else as it is."""
        return {"type": value} if isinstance(value, str) else value

    def __get_pydantic_core_schema__(self, source: object, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        """Wrap the schema of the union."""
        inner = handler(source)
        words = [word for word, block in tags(Annotation.of(source)).items() if _needs_only_type(block)]
        options: list[Any] = [inner, core_schema.literal_schema(words)] if words else [inner]
        return core_schema.no_info_before_validator_function(
            self, inner, json_schema_input_schema=core_schema.union_schema(options)
        )


#: See `_ShortForm`: ``short_form("zero")`` is ``{"type": "zero"}``; also usable as metadata of a union.
short_form = _ShortForm()


def _needs_only_type(block: type[BaseModel]) -> bool:
    return all(key == "type" or not info.is_required() for key, info in fields_of(block).items())


def _device(value: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,4})?", value):
        raise ValueError("expected auto, cpu, cuda or cuda:N (N: number of the GPU, from 0)")
    return value


def _clock(value: object) -> object:
    """Read a duration as batch systems write it, ``1-12:00:00``, in seconds."""
    match = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((24 * days + hours) * 60 + minutes) * 60 + seconds)


class RunBlock(Block):
    """Execution of the run; nothing here changes the problem that is solved."""

    device: Annotated[str, AfterValidator(_device)] = Field(
        default="auto",
        description="where to compute: auto, cpu, cuda or cuda:N (overruled by --device and QSIM_DEVICE)",
    )
    precision: Literal["double", "single", "mixed"] = Field(
        default="double", description="floating point numbers of the kernels (mixed: qmc only)"
    )
    seed: Count | None = Field(
        default=None, description="seed of all random numbers; drawn, printed and stored if missing"
    )
    threads: Literal["auto"] | PositiveCount = Field(
        default="auto", description="CPU threads; auto takes all that the process may use"
    )
    checkpoint: Annotated[Duration, Field(gt=0)] = Field(
        default=600.0, description="interval between checkpoints; a request to stop writes one too"
    )
    walltime: Annotated[Duration, Field(gt=0), BeforeValidator(_clock)] | None = Field(
        default=None,
        description="stop with a checkpoint (exit code 75) before this much time has passed; also as batch systems write it, "
        "02:30:00 or 1-12:00:00",
    )


def _home(value: str) -> str:
    """Return a path with ``~`` written out, as shells and the paths of input files do."""
    try:
        return str(Path(value).expanduser())
    except RuntimeError as error:
        raise ValueError(f"{shorten(repr(value))} cannot be used as a path ({reason(error)})") from None


class OutputBlock(Block):
    """Files to write and figures to draw."""

    file: Annotated[str, Field(min_length=1), AfterValidator(_home)] | None = Field(
        default=None, description="results file; by default <deck name>.h5 in the current folder"
    )
    figures: Literal["overview", "all", "none"] | list[str] = Field(
        default="overview", description="figures to draw: overview (one), all, none, or a list of their names"
    )


def _storable(value: str) -> str:
    if "\0" in value:
        raise ValueError("expected a text without the character NUL, which results files cannot hold")
    return value


class Deck(Block):
    """Keys that all decks have in common; a method adds its own blocks and narrows `method` to its name."""

    method: str = Field(description="the method that this deck is for")
    title: Annotated[str, AfterValidator(_storable)] = Field(
        default="", description="one line for figures and tables"
    )
    run: RunBlock = Field(default_factory=RunBlock, description="device, precision, seed, checkpoints")
    output: OutputBlock = Field(default_factory=OutputBlock, description="results file and figures")

    # offered by the method's room `deck`
    #: Remedies for words that users of the field try, by ``key`` or ``key=value``, as patterns of `fnmatch` without indices.
    meant: ClassVar[Mapping[str, str]] = {}
    rules: ClassVar[Callable[[Any], Iterable[Finding]] | None] = None

    @classmethod
    def model_for(cls, data: Mapping[str, Any]) -> type["Deck"]:
        """Return the class that holds the keys of a deck: another one where a task has blocks of its own.

        Parameters
        ----------
        data
            The deck as plain data, not validated yet.
        """
        return cls

    #: Values of a first deck of a task ("": of any), where those of the keys do not suit it; None for a block that it is better
    #: without.
    FIRST_DECKS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def unread(self) -> Collection[str]:
        """Return the blocks that the task of the deck does not read, which a summary of it leaves out."""
        return ()

    @classmethod
    def variants(cls) -> tuple[type["Deck"], ...]:
        """Return the classes that `model_for` chooses from, this one first."""
        return (cls,)

    def check(self) -> Iterable[Finding]:
        """Return errors and warnings about keys that are valid one by one; methods override this or offer `rules`."""
        rules = type(self).rules
        return () if rules is None else rules(self)
