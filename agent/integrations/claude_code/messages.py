"""Converts session events to Claude Code's `stream-json` messages. The differences are listed in docs/scripts.md."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias, cast
from uuid import uuid4

from ebbtide.agent.config.options import PermissionMode
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
from ebbtide.agent.headless.result import RunOutcome, RunStop
from ebbtide.agent.headless.stream_events import (
    ControlDone,
    ControlFailed,
    HookCallCancelled,
    HookCalled,
    InputRefused,
    ModeChanged,
    OutputEvent,
    RunStarted,
)
from ebbtide.agent.hooks.tool_names import CLAUDE_MODES, claude_name_and_arguments, to_claude_calls
from ebbtide.agent.integrations.claude_code.stream_deltas import ReplyStreamConverter
from ebbtide.agent.messages import ToolCall, Usage

ClaudeMessage: TypeAlias = dict[str, Any]

MODES_BY_CLAUDE_NAME: Mapping[str, PermissionMode] = {
    claude_mode: mode for mode, claude_mode in CLAUDE_MODES.items()
} | {"auto": "auto"}
_SERVER_STATES = {"ready": "connected", "starting": "pending", "needs_login": "needs-auth", "disabled": "disabled"}
_RESULT_SUBTYPES: Mapping[RunStop, str] = {
    "answered": "success", "denied": "success", "step_limit": "error_max_turns", "cost_limit": "error_max_budget_usd",
    "schema": "error_max_structured_output_retries",
}  # fmt: skip


def question_input(question: QuestionAsked) -> ClaudeMessage:
    """Return the arguments of `AskUserQuestion` for a question."""
    options = [{"label": option, "description": ""} for option in question.options]
    return {"questions": [
        {"question": question.question, "header": "", "options": options, "multiSelect": question.several}
    ]}  # fmt: skip


def suggested_update(question: PermissionAsked) -> ClaudeMessage | None:
    """Suggest a permission update that the client may send back: the narrowest rule that allows the call for the rest
    of the session."""
    if not question.offers:
        return None
    tool, _, rule_content = question.offers[0].partition("(")
    name = to_claude_calls(ToolCall("", tool, {}), "/")[0].name
    rule = {"toolName": name} | ({"ruleContent": rule_content.removesuffix(")")} if rule_content else {})
    return {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}


class ClaudeMessageConverter:
    """Converts events to messages, with a result for each turn."""

    def __init__(self, clock: Callable[[], float], *, includes_partials: bool = False) -> None:
        """`clock` returns seconds. `includes_partials` adds partial messages."""
        self._partial_converter = ReplyStreamConverter() if includes_partials else None
        self._clock = clock
        self._run_started: RunStarted | None = None
        self._model = ""
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._usage = Usage()
        """Token usage of the latest reply."""
        self._message_id = ""
        """The id of the latest reply."""
        self._running_call_ids: set[str] = set()
        """Ids of the calls already sent."""
        self._denied_calls: list[ClaudeMessage] = []
        self._turn_start = self._step_start = clock()
        self._api_seconds = 0.0
        """Seconds of this turn spent waiting for the provider."""
        self._totals_at_turn_start = (Usage(), 0)
        """Tokens and steps of the run before the current turn."""

    def convert(self, event: OutputEvent) -> Iterator[ClaudeMessage]:
        """Yield the messages for an event."""
        if isinstance(event, StepStarted):
            self._message_id = f"msg_{uuid4().hex[:24]}"
        if self._partial_converter is not None:
            for part in self._partial_converter.convert(event, self._message_id, self._model):
                yield self._with_ids({"type": "stream_event", "event": part, "parent_tool_use_id": None})
        match event:
            case RunStarted():
                self._run_started, self._model = event, event.model
            case ModeChanged(mode=mode) if self._run_started is not None:
                self._run_started = replace(self._run_started, mode=mode)
            case TurnStarted(model=model):
                self._model = model
                self._turn_start, self._api_seconds = self._clock(), 0.0
                yield self._init_message()
            case StepStarted():
                self._step_start = self._clock()
                self._clear_reply()
            case TextDelta(text=text):
                self._texts.append(text)
            case ReasoningDelta(text=text):
                self._thoughts.append(text)
            case CallsRead(text=text):
                self._texts = [text]
            case RetryScheduled():
                self._clear_reply()
            case ReplyFinished(usage=usage, purpose="step", model=model):
                self._usage, self._model = usage, model
                self._api_seconds += self._clock() - self._step_start
                yield from self._reply_messages()
            case ToolStarted() | ToolFinished():
                yield from self._call_messages(event, None)
            case CallDenied(call_id=call_id, name=name, arguments=arguments):
                tool_name, tool_input = self._claude_call(name, arguments)
                self._denied_calls.append({"tool_name": tool_name, "tool_use_id": call_id, "tool_input": tool_input})
            case AgentActivity(call_id=parent, event=ToolStarted() | ToolFinished() as agent_event):
                yield from self._call_messages(agent_event, parent)
            case ContextCompacted(cause=cause, before_tokens=tokens):
                metadata = {"trigger": "manual" if cause == "asked" else "auto", "pre_tokens": tokens}
                yield self._with_ids({"type": "system", "subtype": "compact_boundary", "compact_metadata": metadata})
            case InputRefused(line=line, reason=reason):
                yield self._with_ids({"type": "system", "subtype": "input_refused", "line": line, "reason": reason})
            case PermissionAsked() | PlanSubmitted() | QuestionAsked():
                yield {"type": "control_request", "request_id": event.id, "request": self._permission_request(event)}
            case PermissionAnswered(id=request_id) | PlanAnswered(id=request_id) | QuestionAnswered(id=request_id):
                yield {"type": "control_cancel_request", "request_id": request_id}
            case HookCalled(request_id=request_id, callback=callback, payload=payload):
                request = {"subtype": "hook_callback", "callback_id": callback, "input": payload}
                call_field = {"tool_use_id": payload["tool_use_id"]} if "tool_use_id" in payload else {}
                yield {"type": "control_request", "request_id": request_id, "request": {**request, **call_field}}
            case HookCallCancelled(request_id=request_id):
                yield {"type": "control_cancel_request", "request_id": request_id}
            case ControlDone(request_id=request_id, response=response):
                yield _control_response({"subtype": "success", "request_id": request_id, "response": response})
            case ControlFailed(request_id=request_id, reason=reason):
                yield _control_response({"subtype": "error", "request_id": request_id, "error": reason})
            case _:
                pass

    def end_turn(self, outcome: RunOutcome) -> Iterator[ClaudeMessage]:
        """Yield any text that was streamed but not yet sent as a message, then the result of the turn."""
        yield from self._reply_messages()
        total_usage, (previous_usage, previous_steps) = outcome.usage, self._totals_at_turn_start
        usage = Usage(
            total_usage.input - previous_usage.input,
            total_usage.cache_read - previous_usage.cache_read,
            total_usage.cache_write - previous_usage.cache_write,
            total_usage.output - previous_usage.output,
        )
        subtype = _RESULT_SUBTYPES.get(outcome.stop_reason, "error_during_execution")
        result: ClaudeMessage = {
            "type": "result", "subtype": subtype, "is_error": subtype != "success",
            "duration_ms": round(1_000 * (self._clock() - self._turn_start)),
            "duration_api_ms": round(1_000 * self._api_seconds), "num_turns": outcome.steps - previous_steps,
            "result": outcome.result, "stop_reason": outcome.stop_reason, "session_id": outcome.session or "",
            "total_cost_usd": outcome.cost, "usage": _usage_json(usage),
            "modelUsage": {self._model: _model_usage_json(total_usage, outcome.cost)} if self._model else {},
            "permission_denials": self._denied_calls, "uuid": str(uuid4()),
        }  # fmt: skip
        if outcome.error is not None:
            result["errors"] = [outcome.error.message]
        if outcome.is_json and subtype == "success":
            result["structured_output"] = json.loads(outcome.result)
        self._totals_at_turn_start, self._denied_calls = (total_usage, outcome.steps), []
        yield result

    def _init_message(self) -> ClaudeMessage:
        run_started = self._run_started
        assert run_started is not None, "`RunStarted` is the first event"
        return self._with_ids({
            "type": "system", "subtype": "init", "cwd": run_started.folder, "model": self._model,
            "tools": [self._claude_call(name, {})[0] for name in run_started.tools],
            "mcp_servers": [
                {"name": server.name, "status": _SERVER_STATES.get(server.state, "failed")}
                for server in run_started.servers
            ],
            "permissionMode": CLAUDE_MODES[cast(PermissionMode, run_started.mode)],
            "slash_commands": [*run_started.commands],
            "agents": [*run_started.agents], "apiKeySource": "user", "output_style": "default",
            "claude_code_version": f"ebbtide {run_started.version}",
        })  # fmt: skip

    def _reply_messages(self) -> Iterator[ClaudeMessage]:
        """Yield a message with what the model has written so far, if anything."""
        content: list[ClaudeMessage] = []
        if thoughts := "".join(self._thoughts):
            content.append({"type": "thinking", "thinking": thoughts, "signature": ""})
        if text := "".join(self._texts):
            content.append({"type": "text", "text": text})
        self._clear_reply()
        if content:
            yield self._assistant_message(content, None)

    def _call_messages(self, event: ToolStarted | ToolFinished, parent_call_id: str | None) -> Iterator[ClaudeMessage]:
        if event.call_id not in self._running_call_ids:
            self._running_call_ids.add(event.call_id)
            name, tool_input = self._claude_call(event.name, event.arguments if isinstance(event, ToolStarted) else {})
            yield self._assistant_message(
                [{"type": "tool_use", "id": event.call_id, "name": name, "input": tool_input}], parent_call_id
            )
        if isinstance(event, ToolFinished):
            self._running_call_ids.discard(event.call_id)
            tool_result: ClaudeMessage = {"type": "tool_result", "tool_use_id": event.call_id, "content": event.text}
            if event.status != "done":
                tool_result["is_error"] = True
            message = {"role": "user", "content": [tool_result]}
            yield self._with_ids({"type": "user", "message": message, "parent_tool_use_id": parent_call_id})

    def _assistant_message(self, content: list[ClaudeMessage], parent_call_id: str | None) -> ClaudeMessage:
        message = {
            "id": self._message_id, "type": "message", "role": "assistant", "model": self._model, "content": content,
            "stop_reason": None, "stop_sequence": None, "usage": _usage_json(self._usage),
        }  # fmt: skip
        return self._with_ids({"type": "assistant", "message": message, "parent_tool_use_id": parent_call_id})

    def _permission_request(self, event: PermissionAsked | PlanSubmitted | QuestionAsked) -> ClaudeMessage:
        suggestions: list[ClaudeMessage] = []
        match event:
            case PermissionAsked(name=name, arguments=arguments, call_id=call_id, reason=reason):
                tool_name, tool_input = self._claude_call(name, arguments)
                extra_fields = {"tool_use_id": call_id, "decision_reason": reason}
                suggestions += filter(None, [suggested_update(event)])
            case PlanSubmitted(plan=plan, call_id=call_id):
                tool_name, tool_input, extra_fields = "ExitPlanMode", {"plan": plan}, {"tool_use_id": call_id}
            case QuestionAsked():
                tool_name, tool_input, extra_fields = "AskUserQuestion", question_input(event), {}
        return {
            "subtype": "can_use_tool",
            "tool_name": tool_name,
            "input": tool_input,
            "permission_suggestions": suggestions,
            **extra_fields,
        }

    def _claude_call(self, name: str, arguments: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
        return claude_name_and_arguments(
            ToolCall("", name, arguments), self._run_started.folder if self._run_started is not None else "/"
        )

    def _with_ids(self, message: ClaudeMessage) -> ClaudeMessage:
        session = self._run_started.session if self._run_started is not None else ""
        return {**message, "session_id": session, "uuid": str(uuid4())}

    def _clear_reply(self) -> None:
        self._texts, self._thoughts = [], []


def _control_response(body: ClaudeMessage) -> ClaudeMessage:
    return {"type": "control_response", "response": body}


def _usage_json(usage: Usage) -> ClaudeMessage:
    return {
        "input_tokens": usage.input, "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read, "output_tokens": usage.output,
    }  # fmt: skip


def _model_usage_json(usage: Usage, cost: float | None) -> ClaudeMessage:
    return {
        "inputTokens": usage.input, "outputTokens": usage.output, "cacheReadInputTokens": usage.cache_read,
        "cacheCreationInputTokens": usage.cache_write, "webSearchRequests": 0, "costUSD": cost,
    }  # fmt: skip
