"""All mistakes of a system at once: a builder goes on after a mistake wherever the rest can still be judged."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator


class InvalidSystem(InvalidInput):
    """A system is mistaken; key and message are those of the first mistake.

    Attributes
    ----------
    findings : tuple of Finding
        Every mistake, in the order of the deck.
    """

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__(findings[0].key, findings[0].message)
        self.findings = findings


class Faults:
    """The mistakes found so far."""

    def __init__(self) -> None:
        self._found: list[Finding] = []

    @contextmanager
    def catch(self) -> Iterator[None]:
        """Keep what is refused inside, and go on behind it."""
        try:
            yield
        except InvalidSystem as error:
            self._found += error.findings
        except InvalidInput as error:
            self._found.append(Finding(error.key, str(error)))

    def stop(self) -> None:
        """Refuse the system if something was found.

        Raises
        ------
        InvalidSystem
            With every mistake.
        """
        if self._found:
            raise InvalidSystem(tuple(self._found))
