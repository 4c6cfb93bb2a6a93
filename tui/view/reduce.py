"""The reducer: updates the session view for each event."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from ebbtide.agent.control_calls import PLAN_TOOL, TASK_TOOL
from ebbtide.agent.events.permissions import (
    CallDenied,
    CallEdited,
    NetworkRefused,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
)
from ebbtide.agent.events.plan import PlanAnswered, PlanSubmitted
from ebbtide.agent.events.session import (
    AgentActivity,
    CallDelta,
    CallsRead,
    ContextMeasured,
    Event,
    FinalTurn,
    HookStatus,
    JobEnded,
    ModelSwitched,
    Noticed,
    ReasoningDelta,
    Remembered,
    ReplyFinished,
    Resumed,
    RetryScheduled,
    Steered,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolsFound,
    ToolStarted,
    TurnEnd,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    WindowLearned,
)
from ebbtide.agent.events.subagents import AgentFinished, AgentStarted
from ebbtide.agent.events.view import (
    BroughtBack,
    CacheBroken,
    CompactionFailed,
    CompactionStarted,
    ContextCompacted,
    FilesChanged,
    NothingCompacted,
    PrefixDrifted,
    PrefixRenewed,
    RewriteUndone,
    ViewChanged,
)
from ebbtide.agent.view.sources import sources_text
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.tool_traits import role_of
from ebbtide.tui.text.numbers import format_tokens
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.view.blocks import (
    AnswerText,
    Call,
    CallStatus,
    Failure,
    Notice,
    ReasoningBlock,
    Retry,
    SessionView,
    UserText,
)
from ebbtide.tui.view.call_titles import call_title, with_relative_arguments
from ebbtide.tui.view.outcomes import TURN_END_MESSAGES, tool_search_summary
from ebbtide.tui.view.receipts import (
    Compaction,
    RunningCompaction,
    UndoneCompaction,
    summary_failure_text,
    view_change_text,
)
from ebbtide.tui.view.turn_total import with_file_changes


def agent_line(activity: AgentActivity, tokens: int) -> str:
    """Format what a sub-agent did last; empty if there is nothing to show."""
    match activity.event:
        case ToolStarted(name=name, arguments=arguments):
            activity_text = call_title(name, arguments)
        case CallDenied(name=name, rule=rule):
            activity_text = f"{name} was not run: {rule}"
        case Noticed(text=text):
            activity_text = text
        case TurnFailed(message=message):
            activity_text = f"failed: {message}"
        case _:
            return ""
    return f"{activity.seconds:.0f} s · {format_tokens(tokens)} tokens · {sanitise_line(activity_text)}\n"


MAX_LIVE_OUTPUT_CHARS = 4_000
"""Maximum number of characters kept of a running call's output, for display."""
UNFINISHED_STATUSES: tuple[CallStatus, ...] = ("asking", "running")
"""Statuses of calls that are not finished."""


def with_changed_call(
    view: SessionView,
    default_call: Call,
    change: Callable[[Call], Call],
    statuses: tuple[CallStatus, ...] = UNFINISHED_STATUSES,
) -> SessionView:
    """Find the turn's last call that has the id of `default_call` and one of the statuses, and apply `change` to it. If
    there is none, apply `change` to `default_call` and append the result."""
    view = view.without_streaming()
    for index in range(len(view.turn_blocks) - 1, -1, -1):
        block = view.turn_blocks[index]
        if isinstance(block, Call) and block.call_id == default_call.call_id and block.status in statuses:
            return replace(view, turn_blocks=(*view.turn_blocks[:index], change(block), *view.turn_blocks[index + 1 :]))
    return view.with_blocks(change(default_call))


def as_started(name: str, arguments: Mapping[str, object]) -> Callable[[Call], Call]:
    return lambda call: replace(call, name=name, arguments=arguments, status="running")


def as_edited(arguments: Mapping[str, object]) -> Callable[[Call], Call]:
    return lambda call: replace(call, arguments=arguments, is_edited=True)


def as_denied(arguments: Mapping[str, object], rule: str) -> Callable[[Call], Call]:
    return lambda call: replace(call, arguments=arguments, status="denied", text=rule)


def with_progress(view: SessionView, call_id: str, text: str) -> SessionView:
    return with_changed_call(
        view,
        Call(call_id, "tool"),
        lambda call: replace(call, output_tail=(call.output_tail + text)[-MAX_LIVE_OUTPUT_CHARS:]),
    )


def with_agent_activity(view: SessionView, event: AgentActivity) -> SessionView:
    """Show a sub-agent's activity in the block of its call, and add its usage to the turn's."""
    default_call = Call(event.call_id, TASK_TOOL)
    if isinstance(event.event, ReplyFinished):
        used_tokens, cost = event.event.usage.total, event.event.cost
        view = replace(view, cost=add_costs(view.cost, cost), turn_cost=add_costs(view.turn_cost, cost))
        view = replace(view, turn_tokens=view.turn_tokens + used_tokens)
        if not event.call_id:
            return view  # a hook started the sub-agent, so there is no call to update
        return with_changed_call(
            view, default_call, lambda call: replace(call, agent_tokens=call.agent_tokens + used_tokens)
        )

    def add_activity(call: Call) -> Call:
        line = agent_line(event, call.agent_tokens)
        return replace(call, output_tail=(call.output_tail + line)[-MAX_LIVE_OUTPUT_CHARS:]) if line else call

    return with_changed_call(view, default_call, add_activity)


def finished_call(call: Call, event: ToolFinished) -> Call:
    updated_call = replace(
        call, name=event.name, status=event.status, output_tail="", text=event.text, changed_files=event.changed
    )
    preview = event.diff or call.diff
    updated_call = replace(updated_call, lines=event.lines, inserted=event.inserted, problems=event.problems)
    return replace(updated_call, program=event.program, diff=preview)


def apply_tool_finished(view: SessionView, event: ToolFinished) -> SessionView:
    statuses: tuple[CallStatus, ...] = (
        (*UNFINISHED_STATUSES, "denied") if event.status == "denied" else UNFINISHED_STATUSES
    )
    updated_view = with_changed_call(
        view, Call(event.call_id, event.name), lambda call: finished_call(call, event), statuses
    )
    step = updated_view.turn_blocks[updated_view.step_start_index :]
    running_names = [block.name for block in step if isinstance(block, Call) and block.status == "running"]
    return replace(updated_view, activity=f"running {running_names[-1]}" if running_names else "thinking")


def apply_permission_asked(view: SessionView, event: PermissionAsked) -> SessionView:
    updated_view = view
    if _is_about_block(view, event):
        updated_view = with_changed_call(
            view,
            Call(event.call_id, event.name),
            lambda call: replace(call, arguments=event.arguments, status="asking", diff=event.preview),
        )
    return replace(updated_view, open_questions=(*view.open_questions, event), activity="waiting for you")


def _is_about_block(view: SessionView, question: PermissionAsked) -> bool:
    """Whether the question is about a call in the transcript that is waiting for the answer. A background job, for
    example, may ask for network access after its call has ended."""
    if question.agent:
        return False  # the call belongs to the sub-agent's own session
    open_call_ids = (
        block.call_id for block in view.turn_blocks if isinstance(block, Call) and block.status in UNFINISHED_STATUSES
    )
    return not question.host or question.call_id in open_call_ids


def apply_permission_answered(
    view: SessionView, question_id: str, verdict: Literal["allow", "deny", "edit"]
) -> SessionView:
    question = next((open_question for open_question in view.open_questions if open_question.id == question_id), None)
    view = replace(_without_question(view, question_id), activity="thinking")
    if not isinstance(question, PermissionAsked) or (verdict != "allow" and not question.host):
        return view  # `CallDenied` shows a denial when it takes effect
    if not _is_about_block(view, question):
        return view
    view = replace(view, activity=f"running {question.name}")
    call = Call(question.call_id, question.name, question.arguments)
    return with_changed_call(view, call, lambda block: replace(block, status="running"))


def apply_plan_submitted(view: SessionView, event: PlanSubmitted) -> SessionView:
    default_call = Call(event.call_id, PLAN_TOOL, {"plan": event.plan})
    updated_view = with_changed_call(view, default_call, lambda call: replace(call, status="asking"))
    return replace(updated_view, open_questions=(*view.open_questions, event), activity="waiting for you")


def apply_plan_answered(view: SessionView, event: PlanAnswered) -> SessionView:
    return replace(_without_question(view, event.id), mode=event.mode or view.mode, activity="thinking")


def apply_answer(view: SessionView, question_id: str, answer: str) -> SessionView:
    """Show the answer as a notice, unless the call that asked is in the transcript. In that case, the call shows the
    answer."""
    question = next((open_question for open_question in view.open_questions if open_question.id == question_id), None)
    view = replace(_without_question(view, question_id), activity="thinking")
    is_in_transcript = any(
        isinstance(block, Call) and role_of(block.name) == "ask_question" and block.status == "running"
        for block in view.turn_blocks
    )
    if is_in_transcript or not isinstance(question, QuestionAsked):
        return view
    answer_text = ", ".join(answer.strip().splitlines()) or "no answer"
    first_line, _, _ = question.question.strip().partition("\n")
    return view.without_streaming().with_blocks(Notice(f"{first_line} → {answer_text}"))


def _without_question(view: SessionView, question_id: str) -> SessionView:
    return replace(
        view, open_questions=tuple(question for question in view.open_questions if question.id != question_id)
    )


def add_costs(previous_cost: float | None, cost: float | None) -> float | None:
    return None if previous_cost is None or cost is None else previous_cost + cost


_MAX_COMMAND_CHARS, _MAX_JOB_OUTPUT_LINES = 120, 3
"""Maximum length of the command in characters, and maximum number of output lines, in the message about a job that has
ended."""


def job_end_text(event: JobEnded) -> str:
    """Build the message about a background job that has ended, with its last output lines."""
    command = sanitise_line(ellipsize(event.command, _MAX_COMMAND_CHARS))
    lines = [f"  {sanitise_line(line)}" for line in event.last_lines[-_MAX_JOB_OUTPUT_LINES:]]
    return "\n".join((f"{event.job} ended, {event.how}: {command}", *lines))


def with_relative_paths(event: Event, folder: str) -> Event:
    """Make paths in the event's arguments relative to the working folder."""
    match event:
        case ToolStarted() | PermissionAsked() | CallEdited() | CallDenied():
            return replace(event, arguments=with_relative_arguments(event.arguments, folder))
        case _:
            return event


_EVENTS_DURING_RETRY = (Noticed, JobEnded, HookStatus, AgentActivity, ToolProgress, NetworkRefused)
"""Events that can come while a request waits to be sent again. Any other event ends the wait."""


def apply_event(view: SessionView, event: Event) -> SessionView:
    """Update the view with an event. Events may come in any order."""
    if view.retry is not None and not isinstance(event, _EVENTS_DURING_RETRY):
        view = replace(view, retry=None)
    match event:
        case TurnStarted(model=model, text=text):
            return _apply_turn_started(view, model, text)
        case Steered(text=text):
            return view.without_streaming().with_blocks(UserText(text))
        case StepStarted():
            settled_view = view.without_streaming()
            return replace(
                settled_view, is_busy=True, activity="thinking", step_start_index=len(settled_view.turn_blocks)
            )
        case ContextMeasured(used=used, effective=available_tokens, parts=parts):
            return replace(
                view, used_tokens=used, available_tokens=available_tokens, component_tokens=parts, is_estimate=False
            )
        case TextDelta(text=text):
            return replace(
                _append_text(view, AnswerText, text), activity="writing", streamed_chars=view.streamed_chars + len(text)
            )
        case ReasoningDelta(text=text):
            return replace(
                _append_text(view, ReasoningBlock, text),
                activity="thinking",
                streamed_chars=view.streamed_chars + len(text),
            )
        case CallDelta(name=name, size=size):
            added_chars = size - (
                view.call_argument_chars if size >= view.call_argument_chars else 0
            )  # a smaller size means another call
            updated_view = replace(
                view.without_streaming(), streamed_chars=view.streamed_chars + added_chars, call_argument_chars=size
            )
            return replace(updated_view, activity=f"writing {name} ({size:,})")
        case CallsRead(text=text):
            return _remove_call_text(view, text)
        case RetryScheduled():
            return _apply_retry(view, event)
        case ReplyFinished():
            return _apply_reply_finished(view, event)
        case ToolStarted(call_id=call_id, name=name, arguments=arguments):
            started_view = with_changed_call(view, Call(call_id, name), as_started(name, arguments))
            return replace(started_view, activity=f"running {name}")
        case ToolProgress(call_id=call_id, text=text):
            return with_progress(view, call_id, text)
        case ToolFinished():
            return apply_tool_finished(view, event)
        case PermissionAsked():
            return apply_permission_asked(view, event)
        case PermissionAnswered(id=question_id, verdict=verdict, mode=mode):
            return apply_permission_answered(replace(view, mode=mode or view.mode), question_id, verdict)
        case CallEdited(call_id=call_id, name=name, arguments=arguments):
            return with_changed_call(view, Call(call_id, name), as_edited(arguments))
        case CallDenied(call_id=call_id, name=name, arguments=arguments, rule=rule):
            return with_changed_call(view, Call(call_id, name, arguments), as_denied(arguments, rule))
        case NetworkRefused():
            return view  # the command continues, and its output reports it
        case QuestionAsked():
            return replace(view, open_questions=(*view.open_questions, event), activity="waiting for you")
        case QuestionAnswered(id=question_id, answer=answer):
            return apply_answer(view, question_id, answer)
        case PlanSubmitted():
            return apply_plan_submitted(view, event)
        case PlanAnswered():
            return apply_plan_answered(view, event)
        case CompactionStarted(used=used):
            return replace(
                _end_compaction(view).without_streaming().with_blocks(RunningCompaction(used)), activity="compacting"
            )
        case ContextCompacted():
            return _apply_compaction(view, event)
        case NothingCompacted():
            return replace(_end_compaction(view), activity="thinking")
        case RewriteUndone(after_tokens=used, effective=available_tokens):
            return replace(
                view.without_streaming().with_blocks(UndoneCompaction(event)),
                used_tokens=used,
                available_tokens=available_tokens,
            )
        case PrefixDrifted(where=where):
            text = f"the start of the request changed ({where}) and the provider's cache is lost; please report this"
            return view.without_streaming().with_blocks(Notice(text))
        case PrefixRenewed():
            return view  # normal after a resume; `/context` lists it
        case CacheBroken():
            return view  # the user cannot do anything about it; see `CONTEXT_DEBUG`
        case BroughtBack():
            return _apply_brought_back(view, event)
        case ViewChanged():
            return _apply_view_change(view, event)
        case CompactionFailed():
            return _apply_compaction_failure(view, event)
        case WindowLearned():
            return _apply_learned_window(view, event)
        case ModelSwitched(after=model, why=why):
            return (
                replace(view, model=model).without_streaming().with_blocks(Notice(f"the model is now {model}: {why}"))
            )
        case FinalTurn():
            return view.without_streaming().with_blocks(
                Notice("the window is full: asking the model for a final report")
            )
        case ToolsFound(names=names):
            return view.without_streaming().with_blocks(Notice(tool_search_summary(names)))
        case Noticed(text=text):
            settled_view = view.without_streaming()
            return (
                settled_view
                if (settled_view.turn_blocks or settled_view.past_blocks)[-1:] == (Notice(text),)
                else settled_view.with_blocks(Notice(text))
            )
        case JobEnded():
            return view.without_streaming().with_blocks(Notice(job_end_text(event)))
        case HookStatus(text=text):
            return replace(view, hook_status=text)
        case Remembered(path=path):
            notice_text = f"saved in `{path}` for this and later sessions · `/undo` to revert"
            return view.without_streaming().with_blocks(Notice(notice_text, event))
        case Resumed():
            return view  # the session's opening already showed it
        case AgentStarted() | AgentFinished():
            return view  # the call that started the agent shows it
        case AgentActivity():
            return with_agent_activity(view, event)
        case FilesChanged():
            return with_file_changes(view.without_streaming(), event)
        case TurnFinished(end=end, text=text):
            return _apply_turn_finished(view, end, text)
        case TurnFailed(code=code, message=message, cause=cause, todo=todo):
            return _idle_view(view).with_blocks(Failure(code, message, cause, todo))


def _apply_turn_started(view: SessionView, model: str, text: str) -> SessionView:
    idle_view = _idle_view(view)
    user_blocks = (UserText(text),) if text else ()
    reset_view = replace(
        idle_view,
        turn_cost=0.0,
        turn_tokens=0,
        keep_alive_count=0,
        keep_alive_cost=0.0,
        prompt_tokens=0,
        cached_tokens=0,
        streamed_chars=0,
        call_argument_chars=0,
    )
    return replace(
        reset_view,
        past_blocks=idle_view.blocks,
        turn_blocks=user_blocks,
        step_start_index=len(user_blocks),
        is_busy=True,
        activity="thinking",
        model=model,
    )


def _append_text(view: SessionView, block_type: type[AnswerText] | type[ReasoningBlock], text: str) -> SessionView:
    """Append text to the current block of an answer or of reasoning."""
    match view.turn_blocks:
        case (
            *_,
            AnswerText(previous_text, is_streaming=True)
            | ReasoningBlock(previous_text, is_streaming=True) as last_block,
        ) if type(last_block) is block_type:
            return replace(
                view, turn_blocks=(*view.turn_blocks[:-1], block_type(previous_text + text, is_streaming=True))
            )
        case _:
            return view.without_streaming().with_blocks(block_type(text, is_streaming=True))


def _remove_call_text(view: SessionView, text: str) -> SessionView:
    """Remove text that turned out to be tool calls. `text`: what remains."""
    earlier_blocks, step_blocks = view.turn_blocks[: view.step_start_index], view.turn_blocks[view.step_start_index :]
    remaining_blocks = tuple(block for block in step_blocks if not isinstance(block, AnswerText))
    return replace(view, turn_blocks=(*earlier_blocks, *remaining_blocks, *((AnswerText(text),) if text else ())))


def _apply_retry(view: SessionView, event: RetryScheduled) -> SessionView:
    earlier_blocks, step_blocks = view.turn_blocks[: view.step_start_index], view.turn_blocks[view.step_start_index :]
    # During a compaction, it was the summary request that failed, so the answer before it stays.
    is_summary = _running_compaction(view) is not None
    remaining_blocks = tuple(
        block for block in step_blocks if is_summary or not isinstance(block, AnswerText | ReasoningBlock)
    )
    retry = Retry(event.attempt, event.attempts, event.delay, event.short_reason or event.reason, event.left)
    return replace(
        view,
        turn_blocks=(*earlier_blocks, *remaining_blocks),
        retry=retry,
        activity=f"waiting for attempt {retry.attempt}",
    )


def _apply_learned_window(view: SessionView, event: WindowLearned) -> SessionView:
    """Remove the reply that reached the end of the context window. It will be requested again."""
    earlier_blocks, step_blocks = view.turn_blocks[: view.step_start_index], view.turn_blocks[view.step_start_index :]
    remaining_blocks = tuple(block for block in step_blocks if not isinstance(block, AnswerText | ReasoningBlock))
    notice = Notice(f"the request was too large for the model: its window is now taken as {event.size:,} tokens")
    return replace(
        view,
        turn_blocks=(*earlier_blocks, *remaining_blocks, notice),
        available_tokens=event.effective,
        activity="compacting",
    )


def _apply_reply_finished(view: SessionView, event: ReplyFinished) -> SessionView:
    view = replace(view, cost=add_costs(view.cost, event.cost))
    if event.purpose == "keep-alive":
        return replace(
            view,
            keep_alive_count=view.keep_alive_count + 1,
            keep_alive_cost=add_costs(view.keep_alive_cost, event.cost),
        )
    view = replace(
        view, turn_cost=add_costs(view.turn_cost, event.cost), turn_tokens=view.turn_tokens + event.usage.total
    )
    if event.purpose != "step":
        return view
    usage = event.usage
    view = replace(
        view, prompt_tokens=view.prompt_tokens + usage.prompt, cached_tokens=view.cached_tokens + usage.cache_read
    )
    # Some servers report only new tokens, or none at all. The measured number is more accurate then.
    used = usage.total if usage.total > view.used_tokens // 2 else view.used_tokens
    view = replace(view.without_streaming(), used_tokens=used, streamed_chars=0, call_argument_chars=0)
    return view.with_blocks(Notice(sources_text(event.sources))) if event.sources else view


def _apply_compaction(view: SessionView, event: ContextCompacted) -> SessionView:
    running_compaction = _running_compaction(view)
    receipt = Compaction(event, running_compaction.failures if running_compaction else ())
    view = _without_running_compaction(view)
    return replace(view.without_streaming().with_blocks(receipt), used_tokens=event.after_tokens, activity="thinking")


def _apply_brought_back(view: SessionView, event: BroughtBack) -> SessionView:
    extent_note = "" if event.is_whole else ", first part only"
    note = Notice(
        f"`{event.ref}` is back in context, at the end of the conversation ({event.tokens:,} tokens{extent_note})"
    )
    return replace(view.without_streaming().with_blocks(note), used_tokens=event.used, available_tokens=event.effective)


def _apply_view_change(view: SessionView, event: ViewChanged) -> SessionView:
    return replace(
        view.without_streaming().with_blocks(Notice(view_change_text(event))),
        used_tokens=event.after_tokens,
        available_tokens=event.effective,
    )


def _running_compaction(view: SessionView) -> RunningCompaction | None:
    """Find the running compaction, if any."""
    return next((block for block in reversed(view.turn_blocks) if isinstance(block, RunningCompaction)), None)


def _without_running_compaction(view: SessionView) -> SessionView:
    if _running_compaction(view) is None:
        return view
    return replace(
        view, turn_blocks=tuple(block for block in view.turn_blocks if not isinstance(block, RunningCompaction))
    )


def _apply_compaction_failure(view: SessionView, event: CompactionFailed) -> SessionView:
    failure, running_compaction = summary_failure_text(event), _running_compaction(view)
    if running_compaction is None:
        return view.without_streaming().with_blocks(Notice(failure))
    return _without_running_compaction(view).with_blocks(
        replace(running_compaction, failures=(*running_compaction.failures, failure))
    )


def _end_compaction(view: SessionView) -> SessionView:
    """End a compaction that has no receipt. Only its failures are shown."""
    running_compaction = _running_compaction(view)
    if running_compaction is None:
        return view
    return _without_running_compaction(view).with_blocks(*(Notice(failure) for failure in running_compaction.failures))


def _apply_turn_finished(view: SessionView, end: TurnEnd, text: str) -> SessionView:
    if text and not any(isinstance(block, AnswerText) for block in view.turn_blocks):
        view = view.with_blocks(AnswerText(text))
    idle_view = _idle_view(view)
    return idle_view.with_blocks(Notice(TURN_END_MESSAGES[end])) if end in TURN_END_MESSAGES else idle_view


def _idle_view(view: SessionView) -> SessionView:
    """End all work: text is complete, running calls count as interrupted, and questions are removed."""
    settled_view = _end_compaction(view).without_streaming()
    turn_blocks = tuple(
        replace(block, status="interrupted")
        if isinstance(block, Call) and block.status in UNFINISHED_STATUSES
        else block
        for block in settled_view.turn_blocks
    )
    return replace(
        settled_view,
        turn_blocks=turn_blocks,
        is_busy=False,
        activity="",
        hook_status="",
        open_questions=(),
        streamed_chars=0,
        call_argument_chars=0,
    )
