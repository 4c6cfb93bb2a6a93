"""What the user is asked in a session and answers: may a call run, and what the model wants to know."""

from collections.abc import Mapping
from typing import Literal

from ebbtide.tools.commands.dangers import Danger
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """What the user answers to a `PermissionAsked`. Not an event, but plain data all the same."""

    verdict: Literal["allow", "deny", "edit"]
    """`edit`: the question is put again, about the call with `arguments`."""
    rule: str = ""
    """A rule to keep, one of the question's `offers`."""
    note: str = ""
    """A word to the model, told with a denial."""
    kept: Literal["session", "project"] = "session"
    """How long the rule is kept: for the rest of the session, or for every session in the project."""
    arguments: Mapping[str, object] | None = None
    """What the call is to be run with in place of what the model wrote; no rule is kept then."""


@dataclass(frozen=True, slots=True)
class RuleTrial:
    """What a rule would have done, had it been there all along. Not an event, but plain data all the same."""

    rule: str
    allowed: int
    """Earlier calls that it would have allowed."""
    of: int
    """Earlier calls of the tool, or of its server, that are asked about without it."""
    examples: tuple[str, ...] = ()
    """Some of those that it would have allowed, the most frequent first; never what is asked about now."""


@dataclass(frozen=True, slots=True)
class PermissionAsked:
    """The user is asked whether a call may run."""

    id: str
    call_id: str
    name: str
    arguments: Mapping[str, object]
    reason: str
    """Why the question comes up: the rule or the mode that decided."""
    preview: str = ""
    """What the call would do, as a unified diff, when it changes files."""
    offers: tuple[str, ...] = ()
    """Rules that would answer this question for the rest of the session, the narrowest first."""
    tried: tuple[RuleTrial, ...] = ()
    """What each of the offers would have allowed so far."""
    rules_file: str = ""
    """Where rules for the project are kept; empty where none can be."""
    is_edited: bool = False
    """The user has changed the call; `arguments` are what it would be run with."""
    offers_exact: bool = True
    """The first of the offers is for exactly this command line or this file; the others go further."""
    dangers: tuple[Danger, ...] = ()
    """What in the command may do harm that cannot be taken back."""
    host: str = ""
    """What of the network the command wants to reach, which runs and waits; empty where it has not begun."""
    agent: str = ""
    """What the agent is called that wants it, where it is not the session itself."""


@dataclass(frozen=True, slots=True)
class PermissionAnswered:
    """That question is answered."""

    id: str
    verdict: Literal["allow", "deny", "edit"]


@dataclass(frozen=True, slots=True)
class CallEdited:
    """The user, or a hook, changed a call before it ran: this is what runs."""

    call_id: str
    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class CallDenied:
    """A call was not run. Headless runs list these and end with exit code 5."""

    call_id: str
    name: str
    arguments: Mapping[str, object]
    rule: str
    """What decided."""
    allow: str = ""
    """A rule with which this call would have run; empty where a deny rule, a hook or the user refused it."""


@dataclass(frozen=True, slots=True)
class NetworkRefused:
    """A command in the sandbox was kept from a place of the network; it runs on. Headless runs list these."""

    call_id: str
    host: str
    """With its port, where that is not the usual one."""
    rule: str
    """What decided."""


@dataclass(frozen=True, slots=True)
class QuestionAsked:
    """The model asks the user something, with `ask_user`."""

    id: str
    question: str
    options: tuple[str, ...] = ()
    several: bool = False
    """More than one of the options may be the answer; it has a line for each."""
    is_lasting: bool = False
    """An answer may hold beyond this question, as trust in a server does."""
    takes_words: bool = True
    """The answer may be words of one's own; otherwise it is one of the options."""


@dataclass(frozen=True, slots=True)
class QuestionAnswered:
    """The user has answered the model."""

    id: str
    answer: str
