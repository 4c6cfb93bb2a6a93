"""What becomes of the view when something happens in the session."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from agent.context.control_calls import PLAN
from agent.events.plan import PlanAnswered, PlanSubmitted
from agent.events.session import (
    AgentActivity,
    CallDelta,
    CallDenied,
    CallEdited,
    CallsRead,
    ContextMeasured,
    Event,
    FinalTurn,
    HookStatus,
    ModelSwitched,
    NetworkRefused,
    Noticed,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
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
from agent.events.subagents import AgentFinished, AgentStarted
from agent.events.view import (
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
from tui.view.agents import agent_line
from tui.view.blocks import AnswerText, Call, CallStatus, Failure, Notice, Retry, SessionView, Thought, UserText
from tui.view.edit_wording import change_of
from tui.view.outcomes import ENDS, search_told
from tui.view.receipts import Compaction, RunningCompaction, UndoneReceipt, failure_of
from tui.view.titles import within
from tui.view.turn_total import with_files

TAIL = 4_000
"""Characters of a running call's output that are kept for people to watch."""


def placed(event: Event, folder: str) -> Event:
    """An event about a call with its arguments as `within` has them."""
    match event:
        case ToolStarted() | PermissionAsked() | CallEdited() | CallDenied():
            return replace(event, arguments=within(event.arguments, folder))
        case _:
            return event


def advance(view: SessionView, event: Event) -> SessionView:
    """The view after one more event. Any event may follow any other."""
    match event:
        case TurnStarted(model=model, text=text):
            return _turn_started(view, model, text)
        case Steered(text=text):
            return _settle_texts(view).plus(UserText(text))
        case StepStarted():
            settled = _settle_texts(view)
            return replace(settled, busy=True, activity="thinking", step_start=len(settled.turn))
        case ContextMeasured(used=used, effective=room, parts=parts):
            return replace(view, used=used, room=room, parts=parts, is_guess=False)
        case TextDelta(text=text):
            return replace(_add_answer(view, text), activity="writing", streamed=view.streamed + len(text))
        case ReasoningDelta(text=text):
            return replace(_add_thought(view, text), activity="thinking", streamed=view.streamed + len(text))
        case CallDelta(name=name, size=size):
            grown = size - (view.call_size if size >= view.call_size else 0)  # less than before: another call begins
            written = replace(_settle_texts(view), streamed=view.streamed + grown, call_size=size)
            return replace(written, activity=f"writing {name} ({size:,})")
        case CallsRead(text=text):
            return _calls_read(view, text)
        case RetryScheduled():
            return _retry_scheduled(view, event)
        case ReplyFinished():
            return _reply_finished(view, event)
        case ToolStarted(call_id=id, name=name, arguments=arguments):
            started = _change_call(view, Call(id, name), _start_call(name, arguments))
            return replace(started, activity=f"running {name}")
        case ToolProgress(call_id=id, text=text):
            return _add_progress(view, id, text)
        case ToolFinished():
            return _tool_finished(view, event)
        case PermissionAsked():
            return _permission_asked(view, event)
        case PermissionAnswered(id=id, verdict=verdict):
            return _permission_answered(view, id, verdict)
        case CallEdited(call_id=id, name=name, arguments=arguments):
            return _change_call(view, Call(id, name), _edit_call(arguments))
        case CallDenied(call_id=id, name=name, arguments=arguments, rule=rule):
            return _change_call(view, Call(id, name, arguments), _deny_call(arguments, rule))
        case NetworkRefused():
            return view  # the command goes on, and its output says so
        case QuestionAsked():
            return replace(view, asked=(*view.asked, event), activity="waiting for you")
        case QuestionAnswered(id=id, answer=answer):
            return _question_answered(view, id, answer)
        case PlanSubmitted():
            return _plan_submitted(view, event)
        case PlanAnswered():
            return _plan_answered(view, event)
        case CompactionStarted(used=used):
            return replace(_settle_texts(_compaction_over(view)).plus(RunningCompaction(used)), activity="compacting")
        case ContextCompacted():
            return _compacted(view, event)
        case NothingCompacted():
            return replace(_compaction_over(view), activity="thinking")
        case RewriteUndone(after_tokens=used, effective=room):
            return replace(_settle_texts(view).plus(UndoneReceipt(event)), used=used, room=room)
        case PrefixDrifted(where=where):
            text = f"the request's beginning changed ({where}), so the provider's cache is lost; please report this"
            return _settle_texts(view).plus(Notice(text))
        case PrefixRenewed():
            return view  # a session that goes on is read afresh anyway, in most cases; `/context` lists it
        case CacheBroken():
            return view  # nothing to be done about it; `CONTEXT_DEBUG` tells
        case BroughtBack():
            return _brought_back(view, event)
        case ViewChanged():
            return _view_changed(view, event)
        case CompactionFailed():
            return _compaction_failed(view, event)
        case WindowLearned():
            return _window_learned(view, event)
        case ModelSwitched(after=model, why=why):
            return _settle_texts(replace(view, model=model)).plus(Notice(f"the model is now {model}: {why}"))
        case FinalTurn():
            return _settle_texts(view).plus(Notice("the window is full: the model is asked for its report"))
        case ToolsFound(names=names):
            return _settle_texts(view).plus(Notice(search_told(names)))
        case Noticed(text=text):
            return _settle_texts(view).plus(Notice(text))
        case HookStatus(text=text):
            return replace(view, hook_status=text)
        case Remembered(path=path):
            told = f"remembered in `{path}`: this session was told, later ones begin with it. `/undo` takes it back"
            return _settle_texts(view).plus(Notice(told, event))
        case Resumed():
            return view  # shown when the session was opened, before any turn
        case AgentStarted() | AgentFinished():
            return view  # the call that sent it off tells of it
        case AgentActivity():
            return _agent_active(view, event)
        case FilesChanged():
            return with_files(_settle_texts(view), event)
        case TurnFinished(end=end, text=text):
            return _turn_finished(view, end, text)
        case TurnFailed(code=code, message=message, cause=cause):
            return _at_rest(view).plus(Failure(code, message, cause))


def _turn_started(view: SessionView, model: str, text: str) -> SessionView:
    rested = _at_rest(view)
    said = (UserText(text),) if text else ()
    begun = replace(
        rested, turn_cost=0.0, turn_tokens=0, kept=0, kept_cost=0.0, prompted=0, read=0, streamed=0, call_size=0
    )
    return replace(
        begun, past=rested.blocks, turn=said, step_start=len(said), busy=True, activity="thinking", model=model
    )


def _add_answer(view: SessionView, text: str) -> SessionView:
    match view.turn:
        case (*_, AnswerText(text=before, streaming=True)):
            return replace(view, turn=(*view.turn[:-1], AnswerText(before + text, streaming=True)))
        case _:
            return _settle_texts(view).plus(AnswerText(text, streaming=True))


def _add_thought(view: SessionView, text: str) -> SessionView:
    match view.turn:
        case (*_, Thought(text=before, streaming=True)):
            return replace(view, turn=(*view.turn[:-1], Thought(before + text, streaming=True)))
        case _:
            return _settle_texts(view).plus(Thought(text, streaming=True))


def _settle_texts(view: SessionView) -> SessionView:
    """The view with nothing streaming any more."""
    if not any(isinstance(block, AnswerText | Thought) and block.streaming for block in view.turn):
        return view
    settled = tuple(
        replace(block, streaming=False) if isinstance(block, AnswerText | Thought) and block.streaming else block
        for block in view.turn
    )
    return replace(view, turn=settled)


def _calls_read(view: SessionView, text: str) -> SessionView:
    """The view with what of the step's text is no call."""
    before, step = view.turn[: view.step_start], view.turn[view.step_start :]
    kept = tuple(block for block in step if not isinstance(block, AnswerText))
    return replace(view, turn=(*before, *kept, *((AnswerText(text),) if text else ())))


def _retry_scheduled(view: SessionView, event: RetryScheduled) -> SessionView:
    before, step = view.turn[: view.step_start], view.turn[view.step_start :]
    # What failed while a compaction runs is a request for a summary: the answer before it stands.
    gone = AnswerText | Thought | Retry if _running(view) is None else Retry
    kept = tuple(block for block in step if not isinstance(block, gone))
    note = Retry(event.attempt, event.attempts, event.delay, event.reason, event.left)
    return replace(view, turn=(*before, *kept, note), activity=f"waiting for {note.which}")


def _window_learned(view: SessionView, event: WindowLearned) -> SessionView:
    """The view without what the model said of a reply that hit the end of its window: it is asked again."""
    before, step = view.turn[: view.step_start], view.turn[view.step_start :]
    kept = tuple(block for block in step if not isinstance(block, AnswerText | Thought))
    note = Notice(f"the request was too large for the model: from now on its window counts as {event.size:,} tokens")
    return replace(view, turn=(*before, *kept, note), room=event.effective, activity="making room")


def _reply_finished(view: SessionView, event: ReplyFinished) -> SessionView:
    view = replace(view, cost=_plus(view.cost, event.cost))
    if event.purpose == "keep-alive":
        return replace(view, kept=view.kept + 1, kept_cost=_plus(view.kept_cost, event.cost))
    view = replace(view, turn_cost=_plus(view.turn_cost, event.cost), turn_tokens=view.turn_tokens + event.usage.total)
    if event.purpose != "step":
        return view
    usage = event.usage
    view = replace(view, prompted=view.prompted + usage.prompt, read=view.read + usage.cache_read)
    # A server that counts only what was new, or nothing at all, says less of the request than what was measured.
    used = usage.total if usage.total > view.used // 2 else view.used
    return replace(_settle_texts(view), used=used, streamed=0, call_size=0)


def _plus(before: float | None, cost: float | None) -> float | None:
    return None if before is None or cost is None else before + cost


_OPEN: tuple[CallStatus, ...] = ("asking", "running")


def _change_call(
    view: SessionView,
    new: Call,
    change: Callable[[Call], Call],
    statuses: tuple[CallStatus, ...] = _OPEN,
) -> SessionView:
    """The view with this turn's last call of that id and one of these statuses changed, or added when there is none."""
    view = _settle_texts(view)
    for index in range(len(view.turn) - 1, -1, -1):
        block = view.turn[index]
        if isinstance(block, Call) and block.call_id == new.call_id and block.status in statuses:
            return replace(view, turn=(*view.turn[:index], change(block), *view.turn[index + 1 :]))
    return view.plus(change(new))


def _start_call(name: str, arguments: Mapping[str, object]) -> Callable[[Call], Call]:
    return lambda call: replace(call, name=name, arguments=arguments, status="running")


def _edit_call(arguments: Mapping[str, object]) -> Callable[[Call], Call]:
    return lambda call: replace(call, arguments=arguments, is_edited=True)


def _deny_call(arguments: Mapping[str, object], rule: str) -> Callable[[Call], Call]:
    return lambda call: replace(call, arguments=arguments, status="denied", text=rule)


def _add_progress(view: SessionView, id: str, text: str) -> SessionView:
    return _change_call(view, Call(id, "tool"), lambda call: replace(call, tail=(call.tail + text)[-TAIL:]))


def _agent_active(view: SessionView, event: AgentActivity) -> SessionView:
    """The view with what an agent does in the block of the call that sent it off; what it takes counts for the turn."""
    new = Call(event.call_id, "task")
    if isinstance(event.event, ReplyFinished):
        used, cost = event.event.usage.total, event.event.cost
        view = replace(view, cost=_plus(view.cost, cost), turn_cost=_plus(view.turn_cost, cost))
        view = replace(view, turn_tokens=view.turn_tokens + used)
        if not event.call_id:
            return view  # a hook has sent it off, and no call
        return _change_call(view, new, lambda call: replace(call, agent_tokens=call.agent_tokens + used))

    def tell(call: Call) -> Call:
        line = agent_line(event, call.agent_tokens)
        return replace(call, tail=(call.tail + line)[-TAIL:]) if line else call

    return _change_call(view, new, tell)


def _tool_finished(view: SessionView, event: ToolFinished) -> SessionView:
    def finish(call: Call) -> Call:
        ended = replace(call, name=event.name, status=event.status, tail="", text=event.text, changed=event.changed)
        preview = event.diff or call.preview
        return replace(ended, lines=event.lines, inserted=event.inserted, program=event.program, preview=preview)

    statuses: tuple[CallStatus, ...] = ("denied",) if event.status == "denied" else ()
    finished = _change_call(view, Call(event.call_id, event.name), finish, ("asking", "running", *statuses))
    step = finished.turn[finished.step_start :]
    others = [block.name for block in step if isinstance(block, Call) and block.status == "running"]
    return replace(finished, activity=f"running {others[-1]}" if others else "thinking")


def _permission_asked(view: SessionView, event: PermissionAsked) -> SessionView:
    asking = view
    if _is_about_block(view, event):
        asking = _change_call(
            view,
            Call(event.call_id, event.name),
            lambda call: replace(call, arguments=event.arguments, status="asking", preview=event.preview),
        )
    return replace(asking, asked=(*view.asked, event), activity="waiting for you")


def _is_about_block(view: SessionView, question: PermissionAsked) -> bool:
    """Whether a call in the transcript waits for the answer, or is to: what a job wants to reach is asked about when
    its call is over."""
    if question.agent:
        return False  # its call stands in a session of its own
    open_calls = (block.call_id for block in view.turn if isinstance(block, Call) and block.status in _OPEN)
    return not question.host or question.call_id in open_calls


def _permission_answered(view: SessionView, id: str, verdict: Literal["allow", "deny", "edit"]) -> SessionView:
    question = next((asked for asked in view.asked if asked.id == id), None)
    view = replace(_answered(view, id), activity="thinking")
    if not isinstance(question, PermissionAsked) or (verdict != "allow" and not question.host):
        return view  # a denial is shown when `CallDenied` says that it took effect
    if not _is_about_block(view, question):
        return view
    view = replace(view, activity=f"running {question.name}")
    call = Call(question.call_id, question.name, question.arguments)
    return _change_call(view, call, lambda asked: replace(asked, status="running"))


def _plan_submitted(view: SessionView, event: PlanSubmitted) -> SessionView:
    new = Call(event.call_id, PLAN, {"plan": event.plan})
    asking = _change_call(view, new, lambda call: replace(call, status="asking"))
    return replace(asking, asked=(*view.asked, event), activity="waiting for you")


def _plan_answered(view: SessionView, event: PlanAnswered) -> SessionView:
    return replace(_answered(view, event.id), mode=event.mode or view.mode, activity="thinking")


def _question_answered(view: SessionView, id: str, answer: str) -> SessionView:
    """What was chosen stands in the transcript: in the line of the call that asked, or in one of its own."""
    question = next((asked for asked in view.asked if asked.id == id), None)
    view = replace(_answered(view, id), activity="thinking")
    has_line = any(
        isinstance(block, Call) and block.name == "ask_user" and block.status == "running" for block in view.turn
    )
    if has_line or not isinstance(question, QuestionAsked):
        return view
    said = ", ".join(answer.strip().splitlines()) or "no answer"
    first, _, _ = question.question.strip().partition("\n")
    return _settle_texts(view).plus(Notice(f"{first} → {said}"))


def _answered(view: SessionView, id: str) -> SessionView:
    return replace(view, asked=tuple(asked for asked in view.asked if asked.id != id))


def _compacted(view: SessionView, event: ContextCompacted) -> SessionView:
    running = _running(view)
    receipt = Compaction(event, running.failures if running else ())
    view = _without_running(view)
    return replace(_settle_texts(view).plus(receipt), used=event.after_tokens, activity="thinking")


def _brought_back(view: SessionView, event: BroughtBack) -> SessionView:
    part = "" if event.is_whole else ", its beginning only"
    note = Notice(f"the model sees `{event.ref}` again, at the end of the conversation ({event.tokens:,} tokens{part})")
    return replace(_settle_texts(view).plus(note), used=event.used, room=event.effective)


def _view_changed(view: SessionView, event: ViewChanged) -> SessionView:
    return replace(_settle_texts(view).plus(Notice(change_of(event))), used=event.after_tokens, room=event.effective)


def _running(view: SessionView) -> RunningCompaction | None:
    """The compaction that runs."""
    return next((block for block in reversed(view.turn) if isinstance(block, RunningCompaction)), None)


def _without_running(view: SessionView) -> SessionView:
    if _running(view) is None:
        return view
    return replace(view, turn=tuple(block for block in view.turn if not isinstance(block, RunningCompaction)))


def _compaction_failed(view: SessionView, event: CompactionFailed) -> SessionView:
    failure, running = failure_of(event), _running(view)
    if running is None:
        return _settle_texts(view).plus(Notice(failure))
    return _without_running(view).plus(replace(running, failures=(*running.failures, failure)))


def _compaction_over(view: SessionView) -> SessionView:
    """The view after a compaction that left no receipt: only what went wrong is told."""
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
    """The view with nothing going on: texts are whole, calls that still ran are interrupted, questions are gone."""
    settled = _settle_texts(_compaction_over(view))
    turn = tuple(
        replace(block, status="interrupted") if isinstance(block, Call) and block.status in _OPEN else block
        for block in settled.turn
    )
    return replace(settled, turn=turn, busy=False, activity="", hook_status="", asked=(), streamed=0, call_size=0)
