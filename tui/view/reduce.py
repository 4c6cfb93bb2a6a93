"""The reducer: how each event changes the session view."""

from dataclasses import replace

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
from ebbtide.tui.view.blocks import AnswerText, Call, Failure, Notice, ReasoningBlock, Retry, SessionView, UserText
from ebbtide.tui.view.call_titles import within
from ebbtide.tui.view.edit_wording import change_of
from ebbtide.tui.view.jobs import ended_job
from ebbtide.tui.view.outcomes import ENDS, search_summary
from ebbtide.tui.view.receipts import Compaction, RunningCompaction, UndoneReceipt, failure_of
from ebbtide.tui.view.reduce_calls import (
    OPEN,
    add_progress,
    added_cost,
    agent_active,
    change_call,
    deny_call,
    edit_call,
    permission_answered,
    permission_asked,
    plan_answered,
    plan_submitted,
    question_answered,
    start_call,
    tool_finished,
)
from ebbtide.tui.view.turn_total import with_files


def with_relative_paths(event: Event, folder: str) -> Event:
    """The event with paths in its arguments made relative by `within`."""
    match event:
        case ToolStarted() | PermissionAsked() | CallEdited() | CallDenied():
            return replace(event, arguments=within(event.arguments, folder))
        case _:
            return event


def advance(view: SessionView, event: Event) -> SessionView:
    """Return the view after one more event. Events may come in any order."""
    match event:
        case TurnStarted(model=model, text=text):
            return _turn_started(view, model, text)
        case Steered(text=text):
            return view.without_streaming().plus(UserText(text))
        case StepStarted():
            settled = view.without_streaming()
            return replace(settled, busy=True, activity="thinking", step_start=len(settled.turn))
        case ContextMeasured(used=used, effective=room, parts=parts):
            return replace(view, used=used, room=room, parts=parts, is_guess=False)
        case TextDelta(text=text):
            return replace(_add(view, AnswerText, text), activity="writing", streamed=view.streamed + len(text))
        case ReasoningDelta(text=text):
            return replace(_add(view, ReasoningBlock, text), activity="thinking", streamed=view.streamed + len(text))
        case CallDelta(name=name, size=size):
            grown = size - (view.call_size if size >= view.call_size else 0)  # less than before: another call begins
            written = replace(view.without_streaming(), streamed=view.streamed + grown, call_size=size)
            return replace(written, activity=f"writing {name} ({size:,})")
        case CallsRead(text=text):
            return _calls_read(view, text)
        case RetryScheduled():
            return _retry_scheduled(view, event)
        case ReplyFinished():
            return _reply_finished(view, event)
        case ToolStarted(call_id=id, name=name, arguments=arguments):
            started = change_call(view, Call(id, name), start_call(name, arguments))
            return replace(started, activity=f"running {name}")
        case ToolProgress(call_id=id, text=text):
            return add_progress(view, id, text)
        case ToolFinished():
            return tool_finished(view, event)
        case PermissionAsked():
            return permission_asked(view, event)
        case PermissionAnswered(id=id, verdict=verdict):
            return permission_answered(view, id, verdict)
        case CallEdited(call_id=id, name=name, arguments=arguments):
            return change_call(view, Call(id, name), edit_call(arguments))
        case CallDenied(call_id=id, name=name, arguments=arguments, rule=rule):
            return change_call(view, Call(id, name, arguments), deny_call(arguments, rule))
        case NetworkRefused():
            return view  # the command goes on, and its output says so
        case QuestionAsked():
            return replace(view, asked=(*view.asked, event), activity="waiting for you")
        case QuestionAnswered(id=id, answer=answer):
            return question_answered(view, id, answer)
        case PlanSubmitted():
            return plan_submitted(view, event)
        case PlanAnswered():
            return plan_answered(view, event)
        case CompactionStarted(used=used):
            return replace(
                _compaction_over(view).without_streaming().plus(RunningCompaction(used)), activity="compacting"
            )
        case ContextCompacted():
            return _context_compacted(view, event)
        case NothingCompacted():
            return replace(_compaction_over(view), activity="thinking")
        case RewriteUndone(after_tokens=used, effective=room):
            return replace(view.without_streaming().plus(UndoneReceipt(event)), used=used, room=room)
        case PrefixDrifted(where=where):
            text = f"the request's beginning changed ({where}), so the provider's cache is lost; please report this"
            return view.without_streaming().plus(Notice(text))
        case PrefixRenewed():
            return view  # a session that goes on is read afresh anyway, in most cases; `/context` lists it
        case CacheBroken():
            return view  # nothing to be done about it; `CONTEXT_DEBUG` tells
        case BroughtBack():
            return _content_brought_back(view, event)
        case ViewChanged():
            return _view_changed(view, event)
        case CompactionFailed():
            return _compaction_failed(view, event)
        case WindowLearned():
            return _window_learned(view, event)
        case ModelSwitched(after=model, why=why):
            return replace(view, model=model).without_streaming().plus(Notice(f"the model is now {model}: {why}"))
        case FinalTurn():
            return view.without_streaming().plus(Notice("the window is full: the model is asked for its report"))
        case ToolsFound(names=names):
            return view.without_streaming().plus(Notice(search_summary(names)))
        case Noticed(text=text):
            settled = view.without_streaming()
            return settled if (settled.turn or settled.past)[-1:] == (Notice(text),) else settled.plus(Notice(text))
        case JobEnded():
            return view.without_streaming().plus(Notice(ended_job(event)))
        case HookStatus(text=text):
            return replace(view, hook_status=text)
        case Remembered(path=path):
            told = f"remembered in `{path}`: this session was told, later ones begin with it. `/undo` takes it back"
            return view.without_streaming().plus(Notice(told, event))
        case Resumed():
            return view  # shown when the session was opened, before any turn
        case AgentStarted() | AgentFinished():
            return view  # the call that sent it off tells of it
        case AgentActivity():
            return agent_active(view, event)
        case FilesChanged():
            return with_files(view.without_streaming(), event)
        case TurnFinished(end=end, text=text):
            return _turn_finished(view, end, text)
        case TurnFailed(code=code, message=message, cause=cause, todo=todo):
            return _at_rest(view).plus(Failure(code, message, cause, todo))


def _turn_started(view: SessionView, model: str, text: str) -> SessionView:
    rested = _at_rest(view)
    said = (UserText(text),) if text else ()
    begun = replace(
        rested,
        turn_cost=0.0,
        turn_tokens=0,
        keep_alive_count=0,
        keep_alive_cost=0.0,
        prompted=0,
        read=0,
        streamed=0,
        call_size=0,
    )
    return replace(
        begun, past=rested.blocks, turn=said, step_start=len(said), busy=True, activity="thinking", model=model
    )


def _add(view: SessionView, kind: type[AnswerText] | type[ReasoningBlock], text: str) -> SessionView:
    """Append a piece of an answer or of reasoning to its block."""
    match view.turn:
        case (*_, AnswerText(before, streaming=True) | ReasoningBlock(before, streaming=True) as last) if (
            type(last) is kind
        ):
            return replace(view, turn=(*view.turn[:-1], kind(before + text, streaming=True)))
        case _:
            return view.without_streaming().plus(kind(text, streaming=True))


def _calls_read(view: SessionView, text: str) -> SessionView:
    """The view without the text that turned out to be calls."""
    before, step = view.turn[: view.step_start], view.turn[view.step_start :]
    kept = tuple(block for block in step if not isinstance(block, AnswerText))
    return replace(view, turn=(*before, *kept, *((AnswerText(text),) if text else ())))


def _retry_scheduled(view: SessionView, event: RetryScheduled) -> SessionView:
    before, step = view.turn[: view.step_start], view.turn[view.step_start :]
    # What failed while a compaction runs is a request for a summary: the answer before it stands.
    gone = AnswerText | ReasoningBlock | Retry if _running(view) is None else Retry
    kept = tuple(block for block in step if not isinstance(block, gone))
    note = Retry(event.attempt, event.attempts, event.delay, event.reason, event.left)
    return replace(view, turn=(*before, *kept, note), activity=f"waiting for {note.which}")


def _window_learned(view: SessionView, event: WindowLearned) -> SessionView:
    """The view without a reply that hit the end of the window: it is requested again."""
    before, step = view.turn[: view.step_start], view.turn[view.step_start :]
    kept = tuple(block for block in step if not isinstance(block, AnswerText | ReasoningBlock))
    note = Notice(f"the request was too large for the model: from now on its window counts as {event.size:,} tokens")
    return replace(view, turn=(*before, *kept, note), room=event.effective, activity="making room")


def _reply_finished(view: SessionView, event: ReplyFinished) -> SessionView:
    view = replace(view, cost=added_cost(view.cost, event.cost))
    if event.purpose == "keep-alive":
        return replace(
            view,
            keep_alive_count=view.keep_alive_count + 1,
            keep_alive_cost=added_cost(view.keep_alive_cost, event.cost),
        )
    view = replace(
        view, turn_cost=added_cost(view.turn_cost, event.cost), turn_tokens=view.turn_tokens + event.usage.total
    )
    if event.purpose != "step":
        return view
    usage = event.usage
    view = replace(view, prompted=view.prompted + usage.prompt, read=view.read + usage.cache_read)
    # A server that counts only what was new, or nothing at all, says less of the request than what was measured.
    used = usage.total if usage.total > view.used // 2 else view.used
    return replace(view.without_streaming(), used=used, streamed=0, call_size=0)


def _context_compacted(view: SessionView, event: ContextCompacted) -> SessionView:
    running = _running(view)
    receipt = Compaction(event, running.failures if running else ())
    view = _without_running(view)
    return replace(view.without_streaming().plus(receipt), used=event.after_tokens, activity="thinking")


def _content_brought_back(view: SessionView, event: BroughtBack) -> SessionView:
    part = "" if event.is_whole else ", its beginning only"
    note = Notice(f"the model sees `{event.ref}` again, at the end of the conversation ({event.tokens:,} tokens{part})")
    return replace(view.without_streaming().plus(note), used=event.used, room=event.effective)


def _view_changed(view: SessionView, event: ViewChanged) -> SessionView:
    return replace(
        view.without_streaming().plus(Notice(change_of(event))), used=event.after_tokens, room=event.effective
    )


def _running(view: SessionView) -> RunningCompaction | None:
    """The running compaction."""
    return next((block for block in reversed(view.turn) if isinstance(block, RunningCompaction)), None)


def _without_running(view: SessionView) -> SessionView:
    if _running(view) is None:
        return view
    return replace(view, turn=tuple(block for block in view.turn if not isinstance(block, RunningCompaction)))


def _compaction_failed(view: SessionView, event: CompactionFailed) -> SessionView:
    failure, running = failure_of(event), _running(view)
    if running is None:
        return view.without_streaming().plus(Notice(failure))
    return _without_running(view).plus(replace(running, failures=(*running.failures, failure)))


def _compaction_over(view: SessionView) -> SessionView:
    """The view after a compaction without receipt: only failures are shown."""
    running = _running(view)
    if running is None:
        return view
    return _without_running(view).plus(*(Notice(failure) for failure in running.failures))


def _turn_finished(view: SessionView, end: TurnEnd, text: str) -> SessionView:
    if text and not any(isinstance(block, AnswerText) for block in view.turn):
        view = view.plus(AnswerText(text))
    rested = _at_rest(view)
    return rested.plus(Notice(ENDS[end])) if end in ENDS else rested


def _at_rest(view: SessionView) -> SessionView:
    """The view at rest: texts are complete, running calls are interrupted, questions are removed."""
    settled = _compaction_over(view).without_streaming()
    turn = tuple(
        replace(block, status="interrupted") if isinstance(block, Call) and block.status in OPEN else block
        for block in settled.turn
    )
    return replace(settled, turn=turn, busy=False, activity="", hook_status="", asked=(), streamed=0, call_size=0)
