"""Decides whether a call may run: the policy first, then the user, who may edit the call."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

from ebbtide.agent import calls as agent_calls
from ebbtide.agent.calls.call_resolution import require_tool
from ebbtide.agent.calls.call_secrets import arguments_with_secrets
from ebbtide.agent.calls.permission_request import PermissionRequest, build_permission_request
from ebbtide.agent.calls.policy import Policy, Rule, Ruling, apply_hook_ruling, decide, parse_rule, runs_unsandboxed
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.errors import ConfigError, StoreFailed
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
from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.tools.base import ChangeSelection, SupportsChangeSelection, SupportsPreview, Tool, ToolError, Workspace
from ebbtide.tools.commands.dangers import Danger, find_dangers
from ebbtide.tools.lazy import dataclass

if TYPE_CHECKING:  # imported only for its type, because most runs have no hooks
    from ebbtide.agent.hooks.answers import HookRuling

AskPermission: TypeAlias = Callable[[PermissionAsked], Awaitable[Decision]]
"""Asks the user a permission question and returns the answer."""
AskAboutPlan: TypeAlias = Callable[[PlanSubmitted], Coroutine[Any, Any, PlanDecision]]

NO_USER_TO_ASK = "there is no user to ask"

ALTERNATIVE_ADVICE = "Do it another way, or say in your answer what is left to do"

QUESTION_INTERRUPTED = "the user interrupted the question"


class RuleStore(Protocol):
    """Stores the user's rules for the project."""

    @property
    def path(self) -> str: ...

    def add_rule(self, rule: str) -> None:
        """Store a rule. Raises `ConfigError`."""


async def no_recent_calls() -> Sequence[ToolCall]:
    return ()


def no_sandbox_problem() -> str:
    """Default for `get_sandbox_problem`: report no problem."""
    return ""


async def record_nothing(value: str, arguments: Mapping[str, object] | None = None) -> None:
    """Default callback: record nothing."""


@dataclass(slots=True)
class Approver:
    """Holds the policy of a session, asks the user about calls, and adds the rules that the user chooses."""

    policy: Policy
    ask_user: AskPermission | None = None
    """Asks the user about a call; None if there is no user to ask."""
    get_recent_calls: Callable[[], Awaitable[Sequence[ToolCall]]] = no_recent_calls
    """Returns the newest calls of the project's sessions. Rules offered to the user are tried on these calls."""
    project_rules: RuleStore | None = None
    """Stores rules for the project; None if rules can only be added for this session."""
    record_question: Callable[[str, Mapping[str, object] | None], Awaitable[None]] = record_nothing
    """Called with a call's id before the user is asked about it, and with the call's arguments if the user has edited
    them."""
    session_rules: list[Rule] = field(default_factory=list)
    """Rules that the user added for this session only."""
    ask_about_plan: AskAboutPlan | None = None
    """Asks the user about a plan; None if there is no user to decide."""
    can_ask: Callable[[], bool] = lambda: True
    """Returns whether a question can be shown now. Between turns, no question can be shown."""
    record_mode: Callable[[PermissionMode], Awaitable[None]] = record_nothing
    """Called with the new mode after each change of mode."""
    get_sandbox_problem: Callable[[], str] = no_sandbox_problem
    """Returns why commands are not sandboxed although they should be."""
    added_folders: list[Path] = field(default_factory=list)
    """Additional working folders. The list is shared with the sandbox and with sessions that follow this one."""
    _was_auto: bool = False
    _open_questions: dict[str, tuple[PermissionRequest, asyncio.Event]] = field(default_factory=dict)
    """The open questions, each with the event that is set once a rule covers the call."""

    async def change_mode(self, mode: PermissionMode) -> int:
        """Change the permission mode, even during a turn. The next request informs the model. Return the number of open
        questions whose calls the new mode approved. Raises `StoreFailed`."""
        self._was_auto = self._was_auto or self.policy.mode == "auto"
        self.policy = replace(self.policy, mode=mode)
        await self.record_mode(mode)
        return self._approve_covered_questions()

    @property
    def can_change_mode(self) -> bool:
        """Whether the answer to a question may change the mode."""
        return True

    @property
    def modes_after_plan(self) -> tuple[PermissionMode, ...]:
        """The modes in which a plan may be carried out. `auto` is offered only if the user has already used it in
        this session."""
        return ("ask", "accept-edits", "auto") if self._was_auto else ("ask", "accept-edits")

    @property
    def plan_ends_turn(self) -> bool:
        """True in plan mode if no user can accept or reject a plan. A submitted plan is then the turn's final
        answer."""
        return self.policy.mode == "plan" and self.ask_about_plan is None

    def check_for_sandbox(self, request: PermissionRequest) -> bool:
        """At the first command in auto mode, check whether the sandbox is missing. If it is, the policy requires
        approval for commands."""
        if request.effect != "run" or self.policy.mode != "auto" or self.policy.sandbox_problem:
            return False
        self.policy = replace(self.policy, sandbox_problem=self.get_sandbox_problem())
        return bool(self.policy.sandbox_problem)

    def add_rule(self, rule: str) -> None:
        """Add an allow rule, and approve open questions that it covers."""
        self.policy = replace(self.policy, allow_rules=(*self.policy.allow_rules, parse_rule(rule)))
        self._approve_covered_questions()

    def _approve_covered_questions(self) -> int:
        """Approve the open questions whose calls are now allowed, and return their number."""
        approved_count = 0
        for request, covered_event in self._open_questions.values():
            policy = self.policy
            if request.effect == "run" and policy.mode == "auto" and not policy.sandbox_problem:
                policy = replace(
                    policy, sandbox_problem=self.get_sandbox_problem()
                )  # the next command reports the problem
            if not covered_event.is_set() and decide(request, policy).verdict == "allow":
                covered_event.set()
                approved_count += 1
        return approved_count

    async def wait_for_decision(
        self, question: PermissionAsked, request: PermissionRequest | None, emit: Callable[[Event], None]
    ) -> Decision:
        """Ask the user and return the answer. If a new rule or mode allows the call in the meantime, the answer is an
        approval. `request`: None if only the user can answer the question."""
        assert self.ask_user is not None
        covered_event = asyncio.Event()
        if request is not None:
            self._open_questions[question.id] = (request, covered_event)
        answer = asyncio.ensure_future(self.ask_user(question))
        rule_wait = asyncio.ensure_future(covered_event.wait())
        try:
            await asyncio.wait({answer, rule_wait}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
        finally:
            self._open_questions.pop(question.id, None)
            for task in (answer, rule_wait):
                task.cancel()
            await asyncio.gather(answer, rule_wait, return_exceptions=True)
        emit(PermissionAnswered(question.id, "allow"))
        return Decision("allow")


@dataclass(frozen=True, slots=True)
class ReviewedCall:
    """A call, its permission request, and the policy's ruling on it."""

    call: ToolCall
    tool: Tool
    request: PermissionRequest
    ruling: Ruling

    @property
    def effective_request(self) -> PermissionRequest:
        """The request with the access that the call will have when it runs. Access is limited to reading if the ruling
        requires it."""
        return self.request if self.ruling.requires_read_only else replace(self.request, read_only_access=None)


@dataclass(frozen=True, slots=True)
class ApprovalResult:
    """A call that may run, unless `refusal` is set."""

    call: ToolCall
    """The call as it will run."""
    tool: Tool
    request: PermissionRequest
    refusal: str = ""
    """Why the call may not run, worded for the model; empty if it may."""
    is_edited: bool = False
    change_selection: ChangeSelection | None = None
    """Which of the call's file changes the user accepted; None if all."""


class EditedCallError(ToolError):
    """Raised when a call edited by the user cannot run."""

    def __init__(self, call: ToolCall, error: ToolError) -> None:
        super().__init__(str(error))
        self.call = call


@dataclass(frozen=True, slots=True)
class ApprovalContext:
    """The inputs of `approve`, except the call."""

    tools: Mapping[str, Tool]
    workspace: Workspace
    approver: Approver
    interrupt: Interrupt
    emit: Callable[[Event], None]
    secrets: SecretTokens = field(default_factory=SecretTokens)
    """Replaces secrets in calls and their previews with tokens, and tokens with secrets."""
    hook_ruling: "HookRuling | None" = None
    """The hooks' ruling about the call, which does not cover later edits by the user."""
    ask_hooks: "Callable[[ToolCall], Awaitable[HookRuling | None]] | None" = None
    """Asks `PermissionRequest` hooks before the user is asked; None if there are no hooks."""
    edited_arguments: Mapping[str, object] | None = None
    """The arguments as edited by the user before the session was interrupted; None if they were not edited."""
    denied_access: str = ""
    """What the sandbox denied when the call was tried read-only, without approval; empty if it was not tried."""
    is_recorded: bool = True
    """Whether the call belongs to a recorded reply. If so, an open question about it is asked again on resume."""

    @property
    def must_ask_user(self) -> bool:
        """Whether hooks want the user to be asked."""
        return self.hook_ruling is not None and self.hook_ruling.verdict == "ask"


async def approve(call: ToolCall, context: ApprovalContext) -> ApprovalResult:
    """Decide whether a call may run, and in what form. A call edited by the user is checked like one from the model,
    against deny rules and the schema. Raises `ToolError`."""
    reviewed, is_edited, question_count = _review(call, context), False, 0
    if context.edited_arguments is not None:
        reviewed, is_edited = _review_edit(call, context.edited_arguments, context), True
    while True:
        ruling = reviewed.ruling
        if ruling.verdict == "deny":
            return _deny(
                reviewed,
                is_edited,
                ruling.decided_by,
                f"denied: {ruling.reason or ruling.decided_by}. {ALTERNATIVE_ADVICE}",
                context,
            )
        if ruling.verdict == "allow" and not question_count and not is_edited:
            return ApprovalResult(reviewed.call, reviewed.tool, reviewed.effective_request)
        if not question_count and not is_edited and context.ask_hooks is not None:
            hook_ruling = await context.ask_hooks(reviewed.call)
            context = replace(context, ask_hooks=None)
            if hook_ruling is not None:
                context = replace(context, hook_ruling=hook_ruling)
                reviewed = _review(reviewed.call, context)
                continue
        if context.approver.ask_user is None:
            rule = _rule_to_allow(reviewed, context)
            reason = (
                f"denied: {ruling.decided_by}, and "
                f"{NO_USER_TO_ASK}{_allow_advice(reviewed, rule, context)}. {ALTERNATIVE_ADVICE}"
            )
            return _deny(reviewed, is_edited, ruling.decided_by, reason, context, rule)
        question_count += 1
        question = await _build_question(reviewed, is_edited, question_count, context)
        new_ruling = decide(reviewed.request, context.approver.policy)
        if not is_edited and not context.must_ask_user and new_ruling.verdict == "allow":
            # While the question was open, a rule was added in answer to another question, or the mode was changed.
            return ApprovalResult(reviewed.call, reviewed.tool, reviewed.effective_request)
        if context.is_recorded:
            await context.approver.record_question(reviewed.call.id, reviewed.call.arguments if is_edited else None)
        coverable_request = None if context.must_ask_user else reviewed.request
        decision = await context.interrupt.race(
            context.approver.wait_for_decision(question, coverable_request, context.emit)
        )
        if decision is None:
            return ApprovalResult(
                reviewed.call, reviewed.tool, reviewed.effective_request, QUESTION_INTERRUPTED, is_edited
            )
        if decision.verdict == "deny":
            user_note = f": {decision.note}" if decision.note else ""
            reason = (
                f"denied by the user{user_note}. Do not try the same again; ask what to do instead if it is not clear"
            )
            return _deny(reviewed, is_edited, "the user said no", reason, context)
        if decision.arguments is not None and decision.arguments != reviewed.call.arguments:
            reviewed, is_edited = _review_edit(reviewed.call, decision.arguments, context), True
            if reviewed.ruling.verdict == "deny" or decision.verdict == "edit":
                continue
        elif decision.verdict == "edit":
            continue
        elif decision.rule in question.offers:
            add_chosen_rule(decision, context.approver, context.emit)
        if question.mode_offer and decision.mode == question.mode_offer:
            await _change_mode(decision, context)
        selection = await _change_selection(reviewed, decision, question, context) if decision.refused_changes else None
        if is_edited or selection is not None:
            context.emit(CallEdited(reviewed.call.id, reviewed.call.name, reviewed.call.arguments))
        return ApprovalResult(
            reviewed.call,
            reviewed.tool,
            reviewed.effective_request,
            is_edited=is_edited,
            change_selection=selection,
        )


async def _change_mode(decision: Decision, context: ApprovalContext) -> None:
    try:
        await context.approver.change_mode(cast("PermissionMode", decision.mode))
    except StoreFailed as error:
        context.emit(Noticed(str(error)))  # the mode is stored again at the end of the turn


async def _change_selection(
    reviewed: ReviewedCall, decision: Decision, question: PermissionAsked, context: ApprovalContext
) -> ChangeSelection:
    """Return which changes to make. Raises `ToolError` if the preview is no longer the one that the user saw."""
    preview = await _plain_preview(reviewed, context)
    if context.secrets.hide(preview) != question.preview or not question.change_count:
        raise ToolError("a file changed while the user was choosing, so nothing was changed: read it again")
    return ChangeSelection(preview, frozenset(decision.refused_changes))


async def _plain_preview(reviewed: ReviewedCall, context: ApprovalContext) -> str:
    """Return the preview of a call, with secrets; empty if its tool has none. Raises `ToolError`."""
    if not isinstance(reviewed.tool, SupportsPreview):
        return ""
    arguments = arguments_with_secrets(reviewed.call, reviewed.tool, context.secrets)
    return await asyncio.to_thread(reviewed.tool.preview, arguments, context.workspace)


async def _count_selectable_changes(
    reviewed: ReviewedCall, plain_preview: str, preview: str, context: ApprovalContext
) -> int:
    """Count the changes that the user can refuse one by one; 0 if hiding secrets changed the preview's lines."""
    tool = reviewed.tool
    if not isinstance(tool, SupportsChangeSelection) or plain_preview.count("\n") != preview.count("\n"):
        return 0
    arguments = arguments_with_secrets(reviewed.call, tool, context.secrets)
    return await asyncio.to_thread(tool.count_selectable_changes, arguments, context.workspace)


def _mode_offer(reviewed: ReviewedCall, context: ApprovalContext) -> PermissionMode | Literal[""]:
    """Return the mode in which such file changes run without asking; empty if there is none."""
    policy, request = context.approver.policy, reviewed.request
    if policy.mode != "ask" or request.effect != "write" or context.must_ask_user:
        return ""
    if not context.approver.can_change_mode:
        return ""
    return "accept-edits" if decide(request, replace(policy, mode="accept-edits")).verdict == "allow" else ""


def _is_sandboxed(reviewed: ReviewedCall, context: ApprovalContext) -> bool | None:
    """Whether a command would run in the sandbox; None if the call runs no command."""
    if reviewed.tool.effect != "run":
        return None
    return context.workspace.sandbox is not None and not runs_unsandboxed(reviewed.request, context.approver.policy)


def _review(call: ToolCall, context: ApprovalContext) -> ReviewedCall:
    tool, request = _tool_and_request(call, context)
    if context.denied_access and request.runs_in_read_only_sandbox:
        request = replace(request, read_only_access=None)
    if context.approver.check_for_sandbox(request):
        context.emit(Noticed(f"auto mode asks before commands: {context.approver.policy.sandbox_problem}"))
    return ReviewedCall(call, tool, request, apply_hook_ruling(request, context.approver.policy, context.hook_ruling))


def _tool_and_request(call: ToolCall, context: ApprovalContext) -> tuple[Tool, PermissionRequest]:
    tool = require_tool(call, context.tools)
    return tool, build_permission_request(tool, call.arguments, context.workspace, context.approver.policy.mode)


def _review_edit(call: ToolCall, arguments: Mapping[str, object], context: ApprovalContext) -> ReviewedCall:
    edited = replace(call, arguments=dict(arguments), source="", problem="")
    try:
        return _review(edited, replace(context, hook_ruling=None))
    except ToolError as error:
        raise EditedCallError(edited, error) from error


def _rule_to_allow(reviewed: ReviewedCall, context: ApprovalContext) -> str:
    """Return the rule that would allow the call; empty if there is none, or if a hook requires asking regardless of the
    rules."""
    return (
        ""
        if context.must_ask_user
        else agent_calls.rule_suggestions.suggest_allow_rule(reviewed.request, context.approver.policy)
    )


def _allow_advice(reviewed: ReviewedCall, rule: str, context: ApprovalContext) -> str:
    """Return advice on how the user can allow such a call next time; empty if no rule or mode would allow it."""
    auto_ruling = decide(reviewed.request, replace(context.approver.policy, mode="auto"))
    flags = [f"`--allow {shlex.quote(rule)}`"] if rule else []
    flags += ["`--permission-mode auto`"] if auto_ruling.verdict == "allow" and not context.must_ask_user else []
    return f"; the user can start with {' or '.join(flags)}" if flags else ""


def _deny(
    reviewed: ReviewedCall,
    is_edited: bool,
    decided_by: str,
    reason: str,
    context: ApprovalContext,
    suggested_rule: str = "",
) -> ApprovalResult:
    call = reviewed.call
    context.emit(CallDenied(call.id, call.name, call.arguments, decided_by, suggested_rule))
    return ApprovalResult(call, reviewed.tool, reviewed.effective_request, reason, is_edited)


async def _build_question(
    reviewed: ReviewedCall, is_edited: bool, question_number: int, context: ApprovalContext
) -> PermissionAsked:
    call, tool = reviewed.call, reviewed.tool
    try:
        plain_preview = await _plain_preview(reviewed, context)
        preview = context.secrets.hide(plain_preview)
        change_count = await _count_selectable_changes(reviewed, plain_preview, preview, context) if preview else 0
    except ToolError as error:
        if is_edited:
            raise EditedCallError(call, error) from error
        raise
    offers, trials, is_exact = await _offers_with_trials(reviewed, context)
    return PermissionAsked(
        f"permission-{call.id}" if question_number == 1 else f"permission-{call.id}-{question_number}",
        call.id,
        call.name,
        call.arguments,
        f"{reviewed.ruling.decided_by}; it was tried read-only, where {context.denied_access}"
        if context.denied_access
        else reviewed.ruling.decided_by,
        preview,
        offers,
        trials,
        context.approver.project_rules.path if context.approver.project_rules is not None and offers else "",
        is_edited,
        is_exact,
        _command_dangers(call, tool, context.approver.policy.root),
        is_sandboxed=_is_sandboxed(reviewed, context),
        mode_offer=_mode_offer(reviewed, context),
        change_count=change_count,
    )


def _command_dangers(call: ToolCall, tool: Tool, root: str) -> tuple[Danger, ...]:
    command = call.arguments.get("command")
    return find_dangers(command, root) if tool.effect == "run" and isinstance(command, str) else ()


async def _offers_with_trials(
    reviewed: ReviewedCall, context: ApprovalContext
) -> tuple[tuple[str, ...], tuple[RuleTrial, ...], bool]:
    """Return the rules to offer with the question, the past calls that each would have allowed, and whether the first
    rule matches only this call."""
    request, policy = reviewed.request, context.approver.policy
    offers = agent_calls.rule_suggestions.suggest_rules(request, policy)
    is_exact = agent_calls.rule_suggestions.exact_rule(request, policy.root) in offers
    similar_calls = (
        [
            call
            for call in await context.approver.get_recent_calls()
            if agent_calls.rule_suggestions.is_same_tool_or_server(call.name, request.tool)
        ]
        if offers
        else []
    )

    def try_all() -> tuple[RuleTrial, ...]:
        return agent_calls.rule_suggestions.try_rules(
            offers, request, list(_current_requests(similar_calls, context)), policy
        )

    return offers, await asyncio.to_thread(try_all) if similar_calls else (), is_exact


def _current_requests(calls: Sequence[ToolCall], context: ApprovalContext) -> Iterator[PermissionRequest]:
    """Yield the permission requests that the calls would make now. Calls that cannot run are skipped."""
    for call in calls:
        with suppress(ToolError):
            yield _tool_and_request(call, context)[1]


def add_chosen_rule(decision: Decision, approver: Approver, emit: Callable[[Event], None]) -> None:
    """Add the rule chosen by the user. If it cannot be stored for the project, it applies to this session only, and a
    notice is shown."""
    approver.add_rule(decision.rule)
    if decision.scope == "project" and approver.project_rules is not None:
        try:
            approver.project_rules.add_rule(decision.rule)
            return
        except ConfigError as error:
            emit(Noticed(f"the rule applies to this session only: {error}"))
    approver.session_rules.append(parse_rule(decision.rule))
