"""Combines the decisions of hooks with the policy: hooks may deny or ask, and may allow what an allow rule could.
Pure."""

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
"""Longest reason shown to people with a call, in characters."""


@dataclass(frozen=True, slots=True)
class HookDecision:
    """The decision of hooks about a call."""

    verdict: Literal["none", "allow", "ask", "deny"] = "none"
    reason: str = ""
    is_own: bool = True
    """Whether it comes from the user's own hooks rather than the project's."""
    by: str = "a hook"
    """Who decided, as the subject of a sentence."""


NO_DECISION = HookDecision()


@dataclass(frozen=True, slots=True)
class HookedCall:
    """A call as changed by hooks, and their decision."""

    call: ToolCall
    word: HookDecision = NO_DECISION
    is_changed: bool = False


def rule_decision(ruling: "ClaudeRuling | None") -> HookDecision:
    """The decision of a project's rule."""
    return NO_DECISION if ruling is None else HookDecision(ruling.verdict, is_own=False, by=ruling.why)


def stricter(one: HookDecision, other: HookDecision) -> HookDecision:
    """The stricter of two decisions; the first if they are equal."""
    order = ("none", "allow", "ask", "deny")
    return other if order.index(other.verdict) > order.index(one.verdict) else one


def apply_hook_decision(asked: PermissionRequest, policy: Policy, word: HookDecision = NO_DECISION) -> Ruling:
    """Decide whether the call may run, given the hooks' decision. An approval by hooks counts like an allow rule for
    the tool: anything denied, doubtful or asked about despite such a rule stays so. Hooks of a project cannot
    allow anything."""
    ruling = decide(asked, policy)
    first = ellipsize(" ".join(word.reason.split()), _MAX_REASON_CHARS)
    because = f": {first}" if first else ""
    if ruling.verdict == "deny" or word.verdict == "none":
        return ruling
    if word.verdict == "deny":
        whole = f": {word.reason.rstrip('.')}" if word.reason else ""
        return Ruling("deny", f"{word.by} denied it{because}", reason=f"{word.by} denied it{whole}")
    if word.verdict == "ask":
        return Ruling("ask", f"{word.by} asks for your approval{because}")
    if ruling.verdict == "allow" or not word.is_own:
        return ruling
    allowed = decide(asked, replace(policy, allow=(*policy.allow, Rule(asked.tool))))
    return replace(allowed, rule=f"your hook allowed it{because}") if allowed.verdict == "allow" else ruling
