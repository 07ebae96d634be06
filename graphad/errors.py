"""Every error graphad raises on purpose.

``TypeError`` and ``ValueError`` keep their Python meaning (a value of the wrong type, a wrong value of
the right type), so the graphad classes derive from them as well.
"""

from __future__ import annotations

HEAD, TAIL = 8000, 2000  # characters of a message
WINDOW = 160  # characters of a line on each side of the one that is pointed at


def shortened(message: str) -> str:
    """The message, or its first and last characters and how many are left out: a rule that diverges makes operators of any size.

    >>> len(shortened("x" * 50_000_000)) < 10_100
    True
    """
    left_out = len(message) - HEAD - TAIL
    if left_out <= 0:
        return message
    return f"{message[:HEAD]}\n... ({left_out:,} characters left out) ...\n{message[-TAIL:]}"


def pointed(text: str, place: int) -> str:
    """The line of a text that a character is in, and below it a mark under the character; of a long line, what is around it.

    >>> print(pointed("a = ?", 4))
      a = ?
          ^
    """
    begin = text.rfind("\n", 0, place) + 1
    # Only what is near the place is cut out: a generated text may be one line of many megabytes.
    line = text[begin : begin + (place - begin) + WINDOW].split("\n", 1)[0]
    left_out = max(place - begin - WINDOW, 0)
    start = "…" if left_out else ""
    end = "…" if begin + len(line) < len(text) and text[begin + len(line)] != "\n" else ""
    return f"  {start}{line[left_out:]}{end}\n  {' ' * (place - begin - left_out + len(start))}^"


class GraphadError(Exception):
    """Base of every error graphad raises on purpose. A long message is shortened in the middle."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(shortened(arg) if isinstance(arg, str) else arg for arg in args))


def add_line(error: Exception, text: str) -> None:
    """Add a line to an error: to graphad's own message, which is one text; to another's as a note."""
    if isinstance(error, GraphadError) and len(error.args) == 1 and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]}\n  {text}",)
    else:
        error.add_note(text)


class InvalidType(GraphadError, TypeError):
    """A value of the wrong Python type was passed in."""


class InvalidValue(GraphadError, ValueError):
    """A value of the right type that makes no sense here."""


class NoValue(InvalidValue):
    """A name has no value because no block that writes it has run."""


class ShapeError(InvalidValue):
    """Shapes or dtypes that do not fit together; the message shows both sides."""


class ParseError(InvalidValue):
    """Text that is not a program or a pipeline; the message points at the character."""


class NoGradient(InvalidValue):
    """Something is to be differentiated and cannot be; the message says what and why.

    A program stays as it was. A graph on which passes run may hold a part of the derivative.
    """


class InvalidGraph(GraphadError):
    """A graph breaks a rule of the verifier; the message names the rule and shows the place."""


class PassError(GraphadError, RuntimeError):
    """A pass or a pipeline cannot run as requested."""


class Refused(PassError):
    """A pass does not work on this graph, and says why; the graph is as it was."""


class ExecutionError(GraphadError, RuntimeError):
    """An operator failed while a program ran; the message shows its inputs and the user's line."""


class CommunicationError(GraphadError, RuntimeError):
    """Ranks that run together cannot go on: they disagree about what comes next, or one has failed; the message shows both sides."""


class TooManyIterations(ExecutionError):
    """The loops of a run took more iterations than ``Executor(max_iterations=...)`` allows; the message names the loop's line."""


class EndOfData(GraphadError, EOFError):
    """A reader that feeds a program by itself has no more values: ``reader.reset()``, then ``reader.start()`` begins again."""


class NotLowered(ExecutionError):
    """A program cannot become an XLA program; the message names the operator, what XLA would have to know, and the user's line."""


class RenderError(GraphadError, RuntimeError):
    """A drawing could not be made; the message says what is missing or went wrong."""
