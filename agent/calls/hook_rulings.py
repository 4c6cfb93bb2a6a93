"""What hooks say of a call, and what follows from that beside what the policy says: they may forbid and ask, and allow
what an allow rule could. Pure."""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import Policy, Rule, Ruling, decide
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize

if TYPE_CHECKING:  # types only: few projects have such rules
    from ebbtide.agent.hooks.claude_rules import ClaudeRuling

_MAX_REASON_CHARS = 200
"""Characters of a reason that people are shown with the call."""


@dataclass(frozen=True, slots=True)
class HookDecision:
    """What hooks say of a call that is to run."""

    verdict: Literal["none", "allow", "ask", "deny"] = "none"
    reason: str = ""
    is_own: bool = True
    """Programs of the user's own say it, not what a project brings."""
    by: str = "a hook"
    """Who says it, as the subject of a sentence."""


NO_DECISION = HookDecision()


@dataclass(frozen=True, slots=True)
class HookedCall:
    """A call as hooks want it."""

    call: ToolCall
    word: HookDecision = NO_DECISION
    is_changed: bool = False


def rule_decision(ruling: "ClaudeRuling | None") -> HookDecision:
    """What a rule of the project says of a call."""
    return NO_DECISION if ruling is None else HookDecision(ruling.verdict, is_own=False, by=ruling.why)


def stricter(one: HookDecision, other: HookDecision) -> HookDecision:
    """The one of two that allows less, the first of two that allow as much."""
    order = ("none", "allow", "ask", "deny")
    return other if order.index(other.verdict) > order.index(one.verdict) else one


def apply_hook_decision(asked: PermissionRequest, policy: Policy, word: HookDecision = NO_DECISION) -> Ruling:
    """Whether the call may run, with what hooks say of it. Where they allow it, it is as if a rule allowed its tool:
    what is denied, in doubt or asked about in spite of such a rule stays so. What a project brings allows nothing."""
    ruling = decide(asked, policy)
    first = ellipsize(" ".join(word.reason.split()), _MAX_REASON_CHARS)
    because = f": {first}" if first else ""
    if ruling.verdict == "deny" or word.verdict == "none":
        return ruling
    if word.verdict == "deny":
        whole = f": {word.reason.rstrip('.')}" if word.reason else ""
        return Ruling("deny", f"{word.by} refuses it{because}", reason=f"{word.by} refuses it{whole}")
    if word.verdict == "ask":
        return Ruling("ask", f"{word.by} wants you to be asked{because}")
    if ruling.verdict == "allow" or not word.is_own:
        return ruling
    allowed = decide(asked, replace(policy, allow=(*policy.allow, Rule(asked.tool))))
    return replace(allowed, rule=f"a hook of yours allows it{because}") if allowed.verdict == "allow" else ruling
