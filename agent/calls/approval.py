"""Decides whether a call may run: the policy first, then the user, who may edit the call."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from ebbtide.agent.calls.hook_rulings import NO_DECISION, HookDecision, apply_hook_decision
from ebbtide.agent.calls.permission_request import PermissionRequest, request_for
from ebbtide.agent.calls.policy import Policy, Rule, Ruling, decide, parse_rule
from ebbtide.agent.calls.resolve import tool_for
from ebbtide.agent.calls.secret_arguments import with_secrets
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.config.options import Mode
from ebbtide.agent.context.secret_tokens import SecretTokens
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.events.permissions import (
    CallDenied,
    CallEdited,
    Decision,
    PermissionAnswered,
    PermissionAsked,
    RuleTrial,
)
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.agent.events.session import Event, Noticed
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.base import Previews, Tool, ToolError, Workspace
from ebbtide.tools.commands.dangers import Danger, dangers_in
from ebbtide.tools.lazy import dataclass

Ask: TypeAlias = Callable[[PermissionAsked], Awaitable[Decision]]
"""Asks the user and waits for the answer."""
AskAboutPlan: TypeAlias = Callable[[PlanSubmitted], Coroutine[Any, Any, PlanDecision]]

NO_USER_TO_ASK = "there is no user to ask"

ALTERNATIVE_ADVICE = "Do it another way, or say in your answer what is left to do"

QUESTION_INTERRUPTED = "the user interrupted the question"


class RuleStore(Protocol):
    """Stores the user's rules for the project."""

    @property
    def place(self) -> str: ...

    def add_rule(self, rule: str) -> None:
        """Raises `ConfigError`."""


async def no_history() -> Sequence[ToolCall]:
    return ()


def sandbox_problem() -> str:
    """Default where commands are sandboxed, or need not be."""
    return ""


async def ignore_note(what: str, changed: Mapping[str, object] | None = None) -> None:
    """Default callback: do nothing."""


@dataclass(slots=True)
class Approver:
    """The policy of a session, extended by the rules that the user adds."""

    policy: Policy
    ask: Ask | None = None
    """None if there is no user to ask."""
    earlier: Callable[[], Awaitable[Sequence[ToolCall]]] = no_history
    """Returns the newest calls of the project's sessions, to try rules on."""
    rules: RuleStore | None = None
    """None if no rules are stored for the project."""
    note_asked: Callable[[str, Mapping[str, object] | None], Awaitable[None]] = ignore_note
    """Called with a call before the user is asked about it, and with its arguments if the user has edited them."""
    session_rules: list[Rule] = field(default_factory=list)
    """Rules that the user added for this session only."""
    ask_about_plan: AskAboutPlan | None = None
    """None if there is no user to decide about plans."""
    can_ask: Callable[[], bool] = lambda: True
    """Whether a question can be shown now; not between two turns."""
    note_mode: Callable[[Mode], Awaitable[None]] = ignore_note
    """Called after each change of mode."""
    why_unsandboxed: Callable[[], str] = sandbox_problem
    """Why commands are not sandboxed, if they should be."""
    roots: list[Path] = field(default_factory=list)
    """The additional folders, shared with the sandbox and with the sessions that follow this one."""
    _was_auto: bool = False
    _open: dict[str, tuple[PermissionRequest, asyncio.Event]] = field(default_factory=dict)
    """The open questions, each with the event that is set once a rule covers the call."""

    async def change_mode(self, mode: Mode) -> int:
        """Change the permission mode, also within a running turn. The model is told with the next request. Return
        how many open questions the new mode answered; those calls run. Raises `StoreFailed`."""
        self._was_auto = self._was_auto or self.policy.mode == "auto"
        self.policy = replace(self.policy, mode=mode)
        await self.note_mode(mode)
        return self._resolve_covered_questions()

    @property
    def modes_after_plan(self) -> tuple[Mode, ...]:
        """The modes in which a plan may be carried out. `auto` is offered only if the user has already used it in
        this session."""
        return ("ask", "accept-edits", "auto") if self._was_auto else ("ask", "accept-edits")

    @property
    def takes_plans(self) -> bool:
        """Whether a plan is accepted as the answer, since there is no user to decide about it."""
        return self.policy.mode == "plan" and self.ask_about_plan is None

    def lacks_sandbox(self, asked: PermissionRequest) -> bool:
        """Whether this call, which auto mode would allow, is the first to show that there is no sandbox."""
        if asked.effect != "run" or self.policy.mode != "auto" or self.policy.sandbox_problem:
            return False
        self.policy = replace(self.policy, sandbox_problem=self.why_unsandboxed())
        return bool(self.policy.sandbox_problem)

    def add_rule(self, rule: str) -> None:
        """Add an allow rule, and answer open questions that it covers."""
        self.policy = replace(self.policy, allow=(*self.policy.allow, parse_rule(rule)))
        self._resolve_covered_questions()

    def _resolve_covered_questions(self) -> int:
        """Answer the open questions that are now allowed. Return how many."""
        answered = 0
        for asked, is_covered in self._open.values():
            policy = self.policy
            if asked.effect == "run" and policy.mode == "auto" and not policy.sandbox_problem:
                policy = replace(policy, sandbox_problem=self.why_unsandboxed())  # reported with the next command
            if not is_covered.is_set() and decide(asked, policy).verdict == "allow":
                is_covered.set()
                answered += 1
        return answered

    async def answer_to(
        self, question: PermissionAsked, asked: PermissionRequest | None, emit: Callable[[Event], None]
    ) -> Decision:
        """The user's answer, or an approval by a rule or mode that was set in the meantime. `asked`: None if no rule
        can answer the question."""
        assert self.ask is not None
        is_covered = asyncio.Event()
        if asked is not None:
            self._open[question.id] = (asked, is_covered)
        answer = asyncio.ensure_future(self.ask(question))
        covered = asyncio.ensure_future(is_covered.wait())
        try:
            await asyncio.wait({answer, covered}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
        finally:
            self._open.pop(question.id, None)
            for waiting in (answer, covered):
                waiting.cancel()
            await asyncio.gather(answer, covered, return_exceptions=True)
        emit(PermissionAnswered(question.id, "allow"))
        return Decision("allow")


@dataclass(frozen=True, slots=True)
class ReviewedCall:
    """A call as the policy sees it."""

    call: ToolCall
    tool: Tool
    asked: PermissionRequest
    ruling: Ruling

    @property
    def as_it_runs(self) -> PermissionRequest:
        """The request with its read-only access only if the call is restricted to that when it runs."""
        return self.asked if self.ruling.is_guarded else replace(self.asked, read_only=None)


@dataclass(frozen=True, slots=True)
class Permit:
    """A call that may run, unless `refusal` is set."""

    call: ToolCall
    """The call as it will run."""
    tool: Tool
    asked: PermissionRequest
    refusal: str = ""
    """Why it may not run, in words for the model."""
    is_edited: bool = False


class EditedCallError(ToolError):
    """The call as edited by the user cannot run."""

    def __init__(self, call: ToolCall, error: ToolError) -> None:
        super().__init__(str(error))
        self.call = call


@dataclass(frozen=True, slots=True)
class ApprovalContext:
    """What `approve` needs."""

    tools: Mapping[str, Tool]
    workspace: Workspace
    approval: Approver
    interrupt: Interrupt
    emit: Callable[[Event], None]
    secrets: SecretTokens = field(default_factory=SecretTokens)
    """The secrets in calls."""
    word: HookDecision = NO_DECISION
    """The decision of hooks about the call, as written by the model or changed by them."""
    in_place_of_user: Callable[[ToolCall], Awaitable[HookDecision]] | None = None
    """Asks hooks where the user would be asked; None if there are none."""
    changed: Mapping[str, object] | None = None
    """The arguments edited by the user, if the session ended at a later question about this call."""
    is_noted: bool = True
    """Whether the call belongs to a reply: an open question about it is then asked again on resume."""


async def approve(call: ToolCall, context: ApprovalContext) -> Permit:
    """Decide whether a call may run, and in what form. An edit by the user is checked like a call of the model:
    against deny rules and the schema. Raises `ToolError`."""
    reviewed, is_edited, count = _review(call, context), False, 0
    if context.changed is not None:
        reviewed, is_edited = _review_edit(call, context.changed, context), True
    while True:
        ruling = reviewed.ruling
        if ruling.verdict == "deny":
            return _deny(
                reviewed,
                is_edited,
                ruling.rule,
                f"denied: {ruling.reason or ruling.rule}. {ALTERNATIVE_ADVICE}",
                context,
            )
        if ruling.verdict == "allow" and not count and not is_edited:
            return Permit(reviewed.call, reviewed.tool, reviewed.as_it_runs)
        if not count and not is_edited and context.in_place_of_user is not None:
            word = await context.in_place_of_user(reviewed.call)
            context = replace(context, in_place_of_user=None)
            if word.verdict != "none":
                context = replace(context, word=word)
                reviewed = _review(reviewed.call, context)
                continue
        if context.approval.ask is None:
            rule = _rule_to_allow(reviewed, context)
            reason = (
                f"denied: {ruling.rule}, and {NO_USER_TO_ASK}{_advice(reviewed, rule, context)}. {ALTERNATIVE_ADVICE}"
            )
            return _deny(reviewed, is_edited, ruling.rule, reason, context, rule)
        count += 1
        question = await _question(reviewed, is_edited, count, context)
        by_hook = context.word.verdict == "ask"
        if not is_edited and not by_hook and decide(reviewed.asked, context.approval.policy).verdict == "allow":
            # a rule was added for another question, or the mode was changed
            return Permit(reviewed.call, reviewed.tool, reviewed.as_it_runs)
        if context.is_noted:
            await context.approval.note_asked(reviewed.call.id, reviewed.call.arguments if is_edited else None)
        asked = None if by_hook else reviewed.asked
        decision = await context.interrupt.race(context.approval.answer_to(question, asked, context.emit))
        if decision is None:
            return Permit(reviewed.call, reviewed.tool, reviewed.as_it_runs, QUESTION_INTERRUPTED, is_edited)
        if decision.verdict == "deny":
            note = f": {decision.note}" if decision.note else ""
            reason = f"denied by the user{note}. Do not try the same again; ask what to do instead if it is not clear"
            return _deny(reviewed, is_edited, "the user said no", reason, context)
        if decision.arguments is not None and decision.arguments != reviewed.call.arguments:
            reviewed, is_edited = _review_edit(reviewed.call, decision.arguments, context), True
            if reviewed.ruling.verdict == "deny" or decision.verdict == "edit":
                continue
        elif decision.verdict == "edit":
            continue
        elif decision.rule in question.offers:
            keep_rule(decision, context.approval, context.emit)
        if is_edited:
            context.emit(CallEdited(reviewed.call.id, reviewed.call.name, reviewed.call.arguments))
        return Permit(reviewed.call, reviewed.tool, reviewed.as_it_runs, is_edited=is_edited)


def _review(call: ToolCall, context: ApprovalContext) -> ReviewedCall:
    tool, asked = _request_of(call, context)
    if context.approval.lacks_sandbox(asked):
        context.emit(Noticed(f"auto mode asks before commands: {context.approval.policy.sandbox_problem}"))
    return ReviewedCall(call, tool, asked, apply_hook_decision(asked, context.approval.policy, context.word))


def _request_of(call: ToolCall, context: ApprovalContext) -> tuple[Tool, PermissionRequest]:
    tool = tool_for(call, context.tools)
    return tool, request_for(tool, call.arguments, context.workspace, context.approval.policy.mode)


def _review_edit(call: ToolCall, arguments: Mapping[str, object], context: ApprovalContext) -> ReviewedCall:
    edited = replace(call, arguments=dict(arguments), source="", problem="")
    try:
        return _review(edited, replace(context, word=NO_DECISION))
    except ToolError as error:
        raise EditedCallError(edited, error) from error


def _rule_to_allow(reviewed: ReviewedCall, context: ApprovalContext) -> str:
    """The rule that would allow the call; empty if a hook or a project rule requires asking regardless of the user's
    rules."""
    from ebbtide.agent.calls.rule_suggestions import rule_to_allow  # noqa: PLC0415  # deferred: few calls are denied

    return "" if context.word.verdict == "ask" else rule_to_allow(reviewed.asked, context.approval.policy)


def _advice(reviewed: ReviewedCall, rule: str, context: ApprovalContext) -> str:
    """How the user can allow such a call the next time."""
    in_auto = decide(reviewed.asked, replace(context.approval.policy, mode="auto"))
    flags = [f"`--allow {shlex.quote(rule)}`"] if rule else []
    flags += ["`--permission-mode auto`"] if in_auto.verdict == "allow" and context.word.verdict != "ask" else []
    return f"; the user can start with {' or '.join(flags)}" if flags else ""


def _deny(
    reviewed: ReviewedCall, is_edited: bool, rule: str, reason: str, context: ApprovalContext, allow: str = ""
) -> Permit:
    call = reviewed.call
    context.emit(CallDenied(call.id, call.name, call.arguments, rule, allow))
    return Permit(call, reviewed.tool, reviewed.as_it_runs, reason, is_edited)


async def _question(reviewed: ReviewedCall, is_edited: bool, count: int, context: ApprovalContext) -> PermissionAsked:
    call, tool = reviewed.call, reviewed.tool
    preview = ""
    if isinstance(tool, Previews):
        try:
            arguments = with_secrets(call, tool, context.secrets)
            preview = context.secrets.hide(await asyncio.to_thread(tool.preview, arguments, context.workspace))
        except ToolError as error:
            if is_edited:
                raise EditedCallError(call, error) from error
            raise
    offers, found, is_exact = await _offers(reviewed, context)
    return PermissionAsked(
        f"permission-{call.id}" if count == 1 else f"permission-{call.id}-{count}",
        call.id,
        call.name,
        call.arguments,
        reviewed.ruling.rule,
        preview,
        offers,
        found,
        context.approval.rules.place if context.approval.rules is not None and offers else "",
        is_edited,
        is_exact,
        _dangers(call, tool, context.approval.policy.root),
    )


def _dangers(call: ToolCall, tool: Tool, root: str) -> tuple[Danger, ...]:
    command = call.arguments.get("command")
    return dangers_in(command, root) if tool.effect == "run" and isinstance(command, str) else ()


async def _offers(
    reviewed: ReviewedCall, context: ApprovalContext
) -> tuple[tuple[str, ...], tuple[RuleTrial, ...], bool]:
    """Rules that would answer the question, what they would have allowed so far, and whether the first one is for
    exactly this call."""
    from ebbtide.agent.calls.rule_suggestions import exact_rule, is_alike, offers_for, try_rules  # noqa: PLC0415  # deferred: few runs have questions

    asked, policy = reviewed.asked, context.approval.policy
    offers = offers_for(asked, policy)
    is_exact = exact_rule(asked, policy.root) in offers
    alike = [call for call in await context.approval.earlier() if is_alike(call.name, asked.tool)] if offers else []

    def try_all() -> tuple[RuleTrial, ...]:
        return try_rules(offers, asked, list(_as_asked(alike, context)), policy)

    return offers, await asyncio.to_thread(try_all) if alike else (), is_exact


def _as_asked(calls: Sequence[ToolCall], context: ApprovalContext) -> Iterator[PermissionRequest]:
    """The calls as the policy would see them now, without those that cannot run."""
    for call in calls:
        with suppress(ToolError):
            yield _request_of(call, context)[1]


def keep_rule(decision: Decision, approval: Approver, emit: Callable[[Event], None]) -> None:
    """Add the rule. If it cannot be stored for the project, it applies to the session only, with a notice."""
    approval.add_rule(decision.rule)
    if decision.kept == "project" and approval.rules is not None:
        try:
            approval.rules.add_rule(decision.rule)
            return
        except ConfigError as error:
            emit(Noticed(f"the rule applies to this session only: {error}"))
    approval.session_rules.append(parse_rule(decision.rule))
