"""What the user's hooks say of an output, and what follows from it. Pure; it runs nothing."""

from dataclasses import dataclass

from tools.listener import Answer
from tools.truncate import plain

MOST_SAID = 10_000
"""Characters of what a hook says that the model is shown."""
MOST_BYTES = 4 * MOST_SAID
OBJECTS = 2
"""The exit code with which a hook gives feedback."""
_PROBLEM = 200

RETRIEVERS = frozenset({"read_result", "tool_output_cache", "tool_output_cache_grep", "recall"})
"""Tools that bring back what hooks have seen already."""


@dataclass(frozen=True, slots=True)
class Heard:
    shown: str = ""
    """For the model, beside the output."""
    told: str = ""
    """For the user, a line."""


def what_follows(match: str, answer: Answer, seconds: float) -> Heard:
    """What an answer of a hook means. Whatever it is, the output goes on as it is."""
    if answer.code is None:
        return Heard(told=_without(match, f"was ended after {seconds:g} s"))
    if answer.code == 0:
        said = _said(answer.out)
        return Heard(f"[A hook of the user for `{match}` notes:]\n{said}") if said else Heard()
    said = _said(answer.err)
    if answer.code == OBJECTS and said:
        return Heard(f"[A hook of the user for `{match}` objects; take it into account:]\n{said}")
    how = f"exited with {answer.code}" if answer.code > 0 else f"was killed by signal {-answer.code}"
    first = said.split("\n", 1)[0][:_PROBLEM]
    return Heard(told=_without(match, f"{how}: {first}" if first else how))


def not_heard(match: str, problem: str) -> Heard:
    """What follows when a hook could not be asked."""
    return Heard(told=_without(match, f"could not be run: {problem}"))


def _without(match: str, what: str) -> str:
    return f"the hook for `{match}` {what}; the output goes on without it"


def _said(data: bytes) -> str:
    text = plain(data.decode("utf-8", "replace")).strip()
    return text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]}… [cut]"
