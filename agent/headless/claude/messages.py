"""Converts session events to Claude Code's `stream-json` messages, for programs written for it. docs/scripts.md lists
the differences."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from ebbtide.agent.config.options import Mode
from ebbtide.agent.events.permissions import (
    CallDenied,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
)
from ebbtide.agent.events.plan import PlanAnswered, PlanSubmitted
from ebbtide.agent.events.session import (
    AgentActivity,
    CallsRead,
    ReasoningDelta,
    ReplyFinished,
    RetryScheduled,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from ebbtide.agent.events.view import ContextCompacted
from ebbtide.agent.headless.claude.reply_parts import ReplyParts
from ebbtide.agent.headless.result import RunOutcome, RunStop
from ebbtide.agent.headless.stream_events import (
    ControlDone,
    ControlFailed,
    HookCalled,
    HookLeft,
    InputRefused,
    ModeChanged,
    OutputEvent,
    RunStarted,
)
from ebbtide.agent.hooks.tool_names import views_of
from ebbtide.agent.messages import ToolCall, Usage

Message: TypeAlias = dict[str, Any]
ClaudeMode: TypeAlias = Literal["default", "acceptEdits", "plan", "bypassPermissions"]

MODES: Mapping[str, ClaudeMode] = {
    "ask": "default", "accept-edits": "acceptEdits", "plan": "plan", "auto": "bypassPermissions",
}  # fmt: skip
OUR_MODES: Mapping[str, Mode] = {
    "default": "ask", "acceptEdits": "accept-edits", "plan": "plan", "bypassPermissions": "auto", "auto": "auto",
}  # fmt: skip
_SERVER_STATES = {"ready": "connected", "starting": "pending", "needs_login": "needs-auth", "disabled": "disabled"}
_SUBTYPES: Mapping[RunStop, str] = {
    "answered": "success", "denied": "success", "step_limit": "error_max_turns", "cost_limit": "error_max_budget_usd",
    "schema": "error_max_structured_output_retries",
}  # fmt: skip


def claude_call(name: str, arguments: Mapping[str, object], root: str) -> tuple[str, Mapping[str, object]]:
    """The name and arguments of a call in Claude Code. A patch of several files keeps our format."""
    first, *more = views_of(ToolCall("", name, arguments), root)
    return (first.name, first.input) if first.is_whole and not more else (name, arguments)


def question_input(question: QuestionAsked) -> Message:
    """The arguments of `AskUserQuestion` for a question."""
    options = [{"label": option, "description": ""} for option in question.options]
    return {"questions": [
        {"question": question.question, "header": "", "options": options, "multiSelect": question.several}
    ]}  # fmt: skip


def suggestion_of(question: PermissionAsked) -> Message | None:
    """The narrowest rule that would answer the question for the rest of the session, as a permission update that the
    client may send back."""
    if not question.offers:
        return None
    tool, _, rest = question.offers[0].partition("(")
    name = views_of(ToolCall("", tool, {}), "/")[0].name
    rule = {"toolName": name} | ({"ruleContent": rest.removesuffix(")")} if rest else {})
    return {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}


class ClaudeMessages:
    """Converts events to messages, with a result for each turn."""

    def __init__(self, clock: Callable[[], float], *, tells_parts: bool = False) -> None:
        """`clock` returns seconds. With `tells_parts`, partial messages are included."""
        self._parts = ReplyParts() if tells_parts else None
        self._clock = clock
        self._started: RunStarted | None = None
        self._model = ""
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._usage = Usage()
        """Usage of the latest reply."""
        self._message = ""
        """The id of the latest reply."""
        self._shown: set[str] = set()
        """Ids of the calls already sent."""
        self._denied: list[Message] = []
        self._turn_began = self._step_began = clock()
        self._asking = 0.0
        """Time spent waiting for the provider in this turn, in seconds."""
        self._before = (Usage(), 0)
        """Tokens and steps of the run before this turn."""

    def take(self, event: OutputEvent) -> Iterator[Message]:
        """Yield the messages for an event."""
        if isinstance(event, StepStarted):
            self._message = f"msg_{uuid4().hex[:24]}"
        if self._parts is not None:
            for part in self._parts.take(event, self._message, self._model):
                yield self._with_ids({"type": "stream_event", "event": part, "parent_tool_use_id": None})
        match event:
            case RunStarted():
                self._started, self._model = event, event.model
            case ModeChanged(mode=mode) if self._started is not None:
                self._started = replace(self._started, mode=mode)
            case TurnStarted(model=model):
                self._model = model
                self._turn_began, self._asking = self._clock(), 0.0
                yield self._init()
            case StepStarted():
                self._step_began = self._clock()
                self._forget_reply()
            case TextDelta(text=text):
                self._texts.append(text)
            case ReasoningDelta(text=text):
                self._thoughts.append(text)
            case CallsRead(text=text):
                self._texts = [text]
            case RetryScheduled():
                self._forget_reply()
            case ReplyFinished(usage=usage, purpose="step", model=model):
                self._usage, self._model = usage, model
                self._asking += self._clock() - self._step_began
                yield from self._reply()
            case ToolStarted() | ToolFinished():
                yield from self._of_call(event, None)
            case CallDenied(call_id=id, name=name, arguments=arguments):
                theirs, made = self._call(name, arguments)
                self._denied.append({"tool_name": theirs, "tool_use_id": id, "tool_input": made})
            case AgentActivity(call_id=parent, event=ToolStarted() | ToolFinished() as inner):
                yield from self._of_call(inner, parent)
            case ContextCompacted(cause=cause, before_tokens=tokens):
                about = {"trigger": "manual" if cause == "asked" else "auto", "pre_tokens": tokens}
                yield self._with_ids({"type": "system", "subtype": "compact_boundary", "compact_metadata": about})
            case InputRefused(line=line, reason=reason):
                yield self._with_ids({"type": "system", "subtype": "input_refused", "line": line, "reason": reason})
            case PermissionAsked() | PlanSubmitted() | QuestionAsked():
                yield {"type": "control_request", "request_id": event.id, "request": self._question(event)}
            case PermissionAnswered(id=id) | PlanAnswered(id=id) | QuestionAnswered(id=id):
                yield {"type": "control_cancel_request", "request_id": id}
            case HookCalled(request_id=id, callback=callback, payload=told):
                asked = {"subtype": "hook_callback", "callback_id": callback, "input": told}
                call = {"tool_use_id": told["tool_use_id"]} if "tool_use_id" in told else {}
                yield {"type": "control_request", "request_id": id, "request": {**asked, **call}}
            case HookLeft(request_id=id):
                yield {"type": "control_cancel_request", "request_id": id}
            case ControlDone(request_id=id, response=response):
                yield _response({"subtype": "success", "request_id": id, "response": response})
            case ControlFailed(request_id=id, reason=reason):
                yield _response({"subtype": "error", "request_id": id, "error": reason})
            case _:
                pass

    def end_turn(self, outcome: RunOutcome) -> Iterator[Message]:
        """Yield text that was streamed but not sent yet, and the result of the turn."""
        yield from self._reply()
        spent, (before, steps) = outcome.usage, self._before
        usage = Usage(
            spent.input - before.input, spent.cache_read - before.cache_read, spent.cache_write - before.cache_write,
            spent.output - before.output,
        )  # fmt: skip
        subtype = _SUBTYPES.get(outcome.stop_reason, "error_during_execution")
        result: Message = {
            "type": "result", "subtype": subtype, "is_error": subtype != "success",
            "duration_ms": round(1_000 * (self._clock() - self._turn_began)),
            "duration_api_ms": round(1_000 * self._asking), "num_turns": outcome.steps - steps,
            "result": outcome.result, "stop_reason": outcome.stop_reason, "session_id": outcome.session or "",
            "total_cost_usd": outcome.cost, "usage": _tokens(usage),
            "modelUsage": {self._model: _model_usage(spent, outcome.cost)} if self._model else {},
            "permission_denials": self._denied, "uuid": str(uuid4()),
        }  # fmt: skip
        if outcome.error is not None:
            result["errors"] = [outcome.error.message]
        if outcome.is_json and subtype == "success":
            result["structured_output"] = json.loads(outcome.result)
        self._before, self._denied = (spent, outcome.steps), []
        yield result

    def _init(self) -> Message:
        started = self._started
        assert started is not None, "a session that has turns was opened"
        return self._with_ids({
            "type": "system", "subtype": "init", "cwd": started.folder, "model": self._model,
            "tools": [self._call(name, {})[0] for name in started.tools],
            "mcp_servers": [
                {"name": server.name, "status": _SERVER_STATES.get(server.state, "failed")}
                for server in started.servers
            ],
            "permissionMode": MODES.get(started.mode, started.mode), "slash_commands": [*started.commands],
            "agents": [*started.agents], "apiKeySource": "user", "output_style": "default",
            "claude_code_version": f"ebbtide {started.version}",
        })  # fmt: skip

    def _reply(self) -> Iterator[Message]:
        """Yield what the model has written so far, if anything."""
        content: list[Message] = []
        if thoughts := "".join(self._thoughts):
            content.append({"type": "thinking", "thinking": thoughts, "signature": ""})
        if text := "".join(self._texts):
            content.append({"type": "text", "text": text})
        self._forget_reply()
        if content:
            yield self._assistant(content, None)

    def _of_call(self, event: ToolStarted | ToolFinished, parent: str | None) -> Iterator[Message]:
        if event.call_id not in self._shown:
            self._shown.add(event.call_id)
            name, made = self._call(event.name, event.arguments if isinstance(event, ToolStarted) else {})
            yield self._assistant([{"type": "tool_use", "id": event.call_id, "name": name, "input": made}], parent)
        if isinstance(event, ToolFinished):
            self._shown.discard(event.call_id)
            given: Message = {"type": "tool_result", "tool_use_id": event.call_id, "content": event.text}
            if event.status != "done":
                given["is_error"] = True
            said = {"role": "user", "content": [given]}
            yield self._with_ids({"type": "user", "message": said, "parent_tool_use_id": parent})

    def _assistant(self, content: list[Message], parent: str | None) -> Message:
        message = {
            "id": self._message, "type": "message", "role": "assistant", "model": self._model, "content": content,
            "stop_reason": None, "stop_sequence": None, "usage": _tokens(self._usage),
        }  # fmt: skip
        return self._with_ids({"type": "assistant", "message": message, "parent_tool_use_id": parent})

    def _question(self, event: PermissionAsked | PlanSubmitted | QuestionAsked) -> Message:
        suggested: list[Message] = []
        match event:
            case PermissionAsked(name=name, arguments=arguments, call_id=id, reason=reason):
                theirs, made = self._call(name, arguments)
                more = {"tool_use_id": id, "decision_reason": reason}
                suggested += filter(None, [suggestion_of(event)])
            case PlanSubmitted(plan=plan, call_id=id):
                theirs, made, more = "ExitPlanMode", {"plan": plan}, {"tool_use_id": id}
            case QuestionAsked():
                theirs, made, more = "AskUserQuestion", question_input(event), {}
        return {
            "subtype": "can_use_tool",
            "tool_name": theirs,
            "input": made,
            "permission_suggestions": suggested,
            **more,
        }

    def _call(self, name: str, arguments: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
        return claude_call(name, arguments, self._started.folder if self._started is not None else "/")

    def _with_ids(self, message: Message) -> Message:
        session = self._started.session if self._started is not None else ""
        return {**message, "session_id": session, "uuid": str(uuid4())}

    def _forget_reply(self) -> None:
        self._texts, self._thoughts = [], []


def _response(response: Message) -> Message:
    return {"type": "control_response", "response": response}


def _tokens(usage: Usage) -> Message:
    return {
        "input_tokens": usage.input, "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read, "output_tokens": usage.output,
    }  # fmt: skip


def _model_usage(usage: Usage, cost: float | None) -> Message:
    return {
        "inputTokens": usage.input, "outputTokens": usage.output, "cacheReadInputTokens": usage.cache_read,
        "cacheCreationInputTokens": usage.cache_write, "webSearchRequests": 0, "costUSD": cost,
    }  # fmt: skip
