"""Events about questions to the user: permission for a call, and the model's own questions."""

from collections.abc import Mapping
from typing import Literal

from ebbtide.tools.commands.dangers import Danger
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """The user's answer to a `PermissionAsked`. Plain data, not an event."""

    verdict: Literal["allow", "deny", "edit"]
    """`edit`: the question is asked again for the call with these `arguments`."""
    rule: str = ""
    """A rule to add, one of the question's `offers`."""
    note: str = ""
    """A message to the model, sent with a denial."""
    scope: Literal["session", "project"] = "session"
    """Scope of the rule: the rest of the session, or every session in the project."""
    arguments: Mapping[str, object] | None = None
    """Arguments that replace the model's. No rule is added then."""
    mode: str = ""
    """The permission mode from now on, the question's `mode_offer`; empty if it stays as it is."""
    refused_changes: tuple[int, ...] = ()
    """Indexes of the changes in the question's `preview` that are not made. The others are."""


@dataclass(frozen=True, slots=True)
class RuleTrial:
    """How a rule would have applied to past calls. Plain data, not an event."""

    rule: str
    allowed: int
    """Number of earlier calls that the rule would have allowed."""
    of: int
    """Number of earlier calls to the same tool or MCP server that need permission without this rule."""
    examples: tuple[str, ...] = ()
    """Some of the calls that the rule would have allowed, most frequent first, without the current call."""


@dataclass(frozen=True, slots=True)
class PermissionAsked:
    """The user is asked whether a call may run."""

    id: str
    call_id: str
    name: str
    arguments: Mapping[str, object]
    reason: str
    """Why the question is asked: the rule or mode that requires it."""
    preview: str = ""
    """The effect of the call as a unified diff, if it changes files."""
    offers: tuple[str, ...] = ()
    """Rules that would allow such calls for the rest of the session, narrowest first."""
    tried: tuple[RuleTrial, ...] = ()
    """For each offer, the past calls that it would have allowed."""
    rules_file: str = ""
    """The file for the project's rules; empty if there is none."""
    is_edited: bool = False
    """Whether the user has edited the call; `arguments` are then the edited ones."""
    offers_exact: bool = True
    """Whether the first offer is for exactly this command line or file; the others are broader."""
    dangers: tuple[Danger, ...] = ()
    """Parts of the command that can do irreversible harm."""
    host: str = ""
    """The network host that a command wants to reach while it runs; otherwise empty."""
    agent: str = ""
    """Name of the sub-agent that makes the call; empty for the session itself."""
    is_sandboxed: bool | None = None
    """Whether the command would run in the sandbox; None if the call runs no command."""
    mode_offer: str = ""
    """The permission mode in which such calls run without asking; empty if there is none."""
    change_count: int = 0
    """Number of changes in `preview` that can be refused one by one; 0 if they cannot."""


@dataclass(frozen=True, slots=True)
class PermissionAnswered:
    """The user has answered a `PermissionAsked`."""

    id: str
    verdict: Literal["allow", "deny", "edit"]
    mode: str = ""
    """The permission mode from now on, if the answer changes it."""


@dataclass(frozen=True, slots=True)
class CallEdited:
    """The user or a hook has edited a call, which will run as edited."""

    call_id: str
    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class CallDenied:
    """A call was denied. Headless runs list these and exit with code 5."""

    call_id: str
    name: str
    arguments: Mapping[str, object]
    rule: str
    """The rule or mode that denied it."""
    allow: str = ""
    """A rule that would have allowed this call; empty if a deny rule, a hook or the user denied it."""


@dataclass(frozen=True, slots=True)
class NetworkRefused:
    """The sandbox blocked a command's access to a network host; the command continues. Headless runs list these."""

    call_id: str
    host: str
    """The host, with its port if that is not the default one."""
    rule: str
    """The rule or mode that denied it."""


@dataclass(frozen=True, slots=True)
class QuestionAsked:
    """The model asks the user a question, with `ask_user`."""

    id: str
    question: str
    options: tuple[str, ...] = ()
    several: bool = False
    """Whether several options may be chosen; the answer then has one line for each."""
    is_lasting: bool = False
    """Whether the answer can have a lasting effect, such as trusting a server."""
    takes_words: bool = True
    """Whether the answer may be free text; if not, it is one of the options."""


@dataclass(frozen=True, slots=True)
class QuestionAnswered:
    """The user has answered the model's question."""

    id: str
    answer: str
