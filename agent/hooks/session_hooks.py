"""Connects hooks to a session: sends them events and applies their answers. `runner` runs them, `answers` parses their
answers."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.agent.channel import Channel
from ebbtide.agent.config.hook_tables import HookEvent, ModelQuestion, ServerCall
from ebbtide.agent.config.options import Mode
from ebbtide.agent.events.permissions import PermissionAsked, QuestionAsked
from ebbtide.agent.events.plan import PlanSubmitted
from ebbtide.agent.events.session import Event, TurnFinished, TurnStarted
from ebbtide.agent.extensions.trust import Standing, Verdict
from ebbtide.agent.hooks.answers import HookAnswer, merge_answers
from ebbtide.agent.hooks.approval import HookApproval
from ebbtide.agent.hooks.claude_rules import ClaudeRules, ClaudeRuling
from ebbtide.agent.hooks.declarations import DeclaredHook, DeclaredHooks
from ebbtide.agent.hooks.judges import Judges
from ebbtide.agent.hooks.program_calls import AskProgram
from ebbtide.agent.hooks.runner import HookRecord, HookRunner
from ebbtide.agent.hooks.tool_names import ToolView, views_of
from ebbtide.agent.hooks.transcript import HookTranscript
from ebbtide.agent.messages import Message, ToolCall
from ebbtide.tools.base import Workspace

Trigger: TypeAlias = Literal["manual", "auto"]
StartSource: TypeAlias = Literal["startup", "resume", "clear", "compact"]
EndReason: TypeAlias = Literal["clear", "resume", "prompt_input_exit", "other"]

KeepFiles: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]

MAX_STOP_OBJECTIONS = 10
"""How often hooks may make the model continue in one turn."""
IDLE_NOTICE_S = 60.0
"""Delay after a turn before hooks are notified that the session is idle, in seconds."""

_MODES: Mapping[Mode, str] = {
    "ask": "default", "accept-edits": "acceptEdits", "plan": "plan", "auto": "bypassPermissions",
}  # fmt: skip


class SessionHooks:
    """The hooks of one session."""

    def __init__(
        self,
        declared: DeclaredHooks,
        session: str,
        project: Path,
        workspace: Workspace,
        channel: Channel,
        transcript: HookTranscript,
        *,
        mode: Callable[[], Mode],
        approval: HookApproval,
        source: StartSource | None = "startup",
        keep_files: KeepFiles = nullcontext,
        rules: ClaudeRules | None = None,
    ) -> None:
        """`source` is how the session begins; None if it continues as if never closed. `keep_files` saves checkpoints
        before end-of-turn hooks change files. `rules` come from the project's Claude Code files."""
        self._runner = HookRunner(
            declared.hooks, project, workspace, channel, approval, mode, self._notice_once, self._queue_late_answer
        )
        self._session, self._root = session, str(workspace.root)
        self._channel, self._transcript = channel, transcript
        self._mode, self._approval, self._keep_files = mode, approval, keep_files
        self._project, self._rules = str(project), rules or ClaudeRules()
        self._of_user = tuple(dict.fromkeys(hook.file for hook in declared.hooks if hook.owner == "user" and hook.file))
        self.problems = declared.problems
        """What was ignored and why, one sentence each."""
        self._told: set[str] = set(declared.problems)
        """Problems already shown; a broken hook fails at every call."""
        self._untold = list(declared.problems)
        self._source = source
        self.has_begun = source is None
        self.ends: EndReason | None = "other"
        """Why the session will end; None if it is reopened at once."""
        self._objections = 0
        self._pending: list[tuple[HookEvent, str]] = []
        """Text to add to the next message to the model."""
        self._idle: asyncio.TimerHandle | None = None
        channel.on_note(self._note)

    def ask_through(self, judges: Judges) -> None:
        """Set the models and servers that hooks may ask."""
        self._runner.judges = judges

    def add(self, hooks: Sequence[DeclaredHook], program: AskProgram) -> None:
        """Add hooks of the client program, which answers them itself."""
        self._runner.add(hooks, program)

    @property
    def asks_others(self) -> bool:
        """Whether any hook asks a model or a server."""
        return any(isinstance(hook.entry.action, ModelQuestion | ServerCall) for hook, _, _ in self._runner.records)

    @property
    def records(self) -> Sequence[tuple[DeclaredHook, Standing, HookRecord]]:
        """All hooks in order of precedence, with their approval and statistics."""
        return self._runner.records

    def decide(self, hook: DeclaredHook, verdict: Verdict | None) -> None:
        """Store whether the hooks of this hook's file may run; None removes the decision. Raises `ConfigError` if it
        could not be saved and applies to this session only."""
        self._approval.decide(hook, verdict)

    def has(self, event: HookEvent) -> bool:
        return self._runner.has(event)

    # Events.

    async def session_begins(self) -> None:
        """Run `SessionStart` hooks, once before the first prompt. Their text is added to that prompt."""
        for problem in self._untold:
            self._channel.notice(problem)
        self._untold.clear()
        await self._channel.interrupt.race(self._approval.settle(self._of_user))
        if self._source is not None and not self.has_begun:
            self.has_begun = True
            await self._start(self._source)

    async def prompt(self, text: str) -> HookAnswer:
        """Ask about the user's message; after an objection it is not sent."""
        self._objections = 0
        return await self.ask("UserPromptSubmit", (), {"prompt": text})

    def ruling(self, call: ToolCall) -> ClaudeRuling | None:
        """The ruling of the project's Claude Code rules on a call."""
        if not self._rules.rules:
            return None
        return self._rules.ruling(views_of(call, self._root), self._root, self._project)

    async def before_call(self, call: ToolCall, agent: Mapping[str, object]) -> tuple[HookAnswer, str]:
        """Ask about a call before it runs; return the answer and the tool's name in Claude Code. `agent` describes the
        sub-agent that made the call, if any."""
        views = views_of(call, self._root)
        answer = await self._about_call("PreToolUse", call.id, views, agent)
        if answer.arguments is not None and not (len(views) == 1 and views[0].is_whole):
            self._notice_once(
                f"a hook changes the input of `{call.name}`, which is not supported here; the change is ignored"
            )
            answer = replace(answer, arguments=None)
        return answer, views[0].name

    async def after_call(self, call: ToolCall, told: Mapping[str, object], *, failed: bool) -> HookAnswer:
        """Ask about a finished call. `told` describes its output and the sub-agent that made the call, if any."""
        event: HookEvent = "PostToolUseFailure" if failed else "PostToolUse"
        return await self._about_call(event, call.id, views_of(call, self._root), told)

    async def _about_call(
        self, event: HookEvent, id: str, views: Sequence[ToolView], besides: Mapping[str, object]
    ) -> HookAnswer:
        answers = []
        for view in views:
            told = {"tool_name": view.name, "tool_input": dict(view.input), "tool_use_id": id, **besides}
            answers.append(await self.ask(event, view.names, told, view))
        return merge_answers(answers)

    async def stops(self, last_words: str) -> str:
        """Ask `Stop` hooks after the model's answer; return why the model should continue, or an empty string."""
        told = {"stop_hook_active": self._objections > 0, "last_assistant_message": last_words}
        if not self.has("Stop"):
            return ""
        async with self._keep_files():
            answer = await self.ask("Stop", (), told)
        reason = objection(answer)
        if not reason or self._channel.interrupt.is_requested():
            return ""
        self._objections += 1
        if self._objections > MAX_STOP_OBJECTIONS:
            self._channel.notice(
                f"hooks made the model continue {MAX_STOP_OBJECTIONS} times in this turn; the turn ends now: "
                f"{reason.splitlines()[0]}"
            )
            return ""
        return reason

    async def permission(self, call: ToolCall, agent: Mapping[str, object]) -> tuple[HookAnswer, str]:
        """Ask about a call that needs the user's permission; return the answer and the tool's name in Claude Code."""
        views = views_of(call, self._root)
        return await self._about_call("PermissionRequest", call.id, views, agent), views[0].name

    async def subagent_starts(self, agent: str, kind: str) -> str:
        """Return the context that hooks add for a starting sub-agent."""
        return (await self.ask("SubagentStart", (kind,), {"agent_id": agent, "agent_type": kind})).context

    async def subagent_stops(
        self, agent: str, kind: str, last_words: str, said: Sequence[Message], *, is_going_on: bool
    ) -> str:
        """Ask after a sub-agent's answer; return why it should continue, or an empty string. `agent` is its id, `kind`
        its definition's name, `said` its whole conversation; `is_going_on` is true if a hook already made it
        continue."""
        if not self.has("SubagentStop"):
            return ""
        transcript = await self._transcript.of_agent(agent, said)
        told = {
            "stop_hook_active": is_going_on,
            "agent_id": agent,
            "agent_type": kind,
            "agent_transcript_path": transcript,
            "last_assistant_message": last_words,
        }
        return objection(await self.ask("SubagentStop", (kind,), told))

    async def before_compaction(self, trigger: Trigger, focus: str) -> HookAnswer:
        """Ask about a planned compaction. An objection counts only if the user requested the compaction."""
        return await self.ask("PreCompact", (trigger,), {"trigger": trigger, "custom_instructions": focus})

    async def after_compaction(self, trigger: Trigger, summary: str) -> None:
        """Report a finished compaction. Context that hooks add goes into the next message to the model."""
        await self.ask("PostCompact", (trigger,), {"trigger": trigger, "compact_summary": summary})
        await self._start("compact")

    def take_pending(self) -> tuple[tuple[HookEvent, str], ...]:
        """Return and clear the context that hooks added for the next message, with the events."""
        taken = tuple(self._pending)
        self._pending.clear()
        return taken

    async def close(self) -> None:
        """Report the end of the session, and cancel hooks that still run."""
        self._stop_waiting()
        if self.has_begun and self.ends is not None:
            self.has_begun = False
            await self._ask("SessionEnd", (self.ends,), {"reason": self.ends})
        await self._runner.close()

    async def _start(self, source: StartSource) -> None:
        answer = await self.ask("SessionStart", (source,), {"source": source})
        if answer.context:
            self._pending.append(("SessionStart", answer.context))

    # Running the hooks.

    async def ask(
        self, event: HookEvent, names: Sequence[str], told: Mapping[str, object], call: ToolView | None = None
    ) -> HookAnswer:
        """Run the matching hooks of an event and return their merged answer. An interrupt cancels them. Their notices
        have been shown to the user when this returns."""
        answer = await self._channel.interrupt.race(self._ask(event, names, told, call))
        if answer is None:
            return HookAnswer()
        if answer.stop is not None:
            self._channel.notice(f"a hook ended the turn: {answer.stop}")
            self._channel.interrupt.request()
        return answer

    async def _ask(
        self, event: HookEvent, names: Sequence[str], told: Mapping[str, object], call: ToolView | None = None
    ) -> HookAnswer:
        answer = await self._runner.ask(event, names, call, partial(self._hook_input, event, told))
        self._show_notices(answer)
        return answer

    def _show_notices(self, answer: HookAnswer) -> None:
        for line in answer.problems:
            self._notice_once(line)
        for line in answer.notices:
            self._channel.notice(line)

    def _queue_late_answer(self, hook: DeclaredHook, answer: HookAnswer) -> None:
        """Queue the answer of an asynchronous hook for the next message to the model."""
        self._show_notices(answer)
        if said := objection(answer):
            self._pending.append((hook.event, "\n".join(filter(None, (hook.entry.preface, said)))))

    async def _hook_input(self, event: HookEvent, told: Mapping[str, object]) -> bytes:
        """The JSON that a hook reads from standard input."""
        path = await self._transcript.catch_up()
        if self._transcript.problem:
            self._notice_once(self._transcript.problem)
        common = {
            "session_id": self._session,
            "transcript_path": path,
            "cwd": self._root,
            "permission_mode": _MODES[self._mode()],
            "hook_event_name": event,
        }
        return json.dumps({**common, **told}).encode() + b"\n"  # scripts that `read` a line need its end

    def _notice_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._channel.notice(line)

    # Notifications that the session is waiting for the user.

    def _note(self, event: Event) -> None:
        match event:
            case PermissionAsked():
                name = views_of(ToolCall("", event.name, event.arguments), self._root)[0].name
                self._notify("permission_prompt", f"ebb needs your permission to use {name}")
            case QuestionAsked() | PlanSubmitted():
                self._notify("elicitation_dialog", "ebb needs your answer")
            case TurnStarted():
                self._stop_waiting()
            case TurnFinished() if self._channel.is_interactive and self.has("Notification"):
                self._stop_waiting()
                wait = asyncio.get_running_loop().call_later
                self._idle = wait(IDLE_NOTICE_S, self._notify, "idle_prompt", "ebb is waiting for your input")
            case _:
                pass

    def _stop_waiting(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _notify(self, kind: str, message: str) -> None:
        if self.has("Notification"):
            told = {"message": message, "title": "ebb", "notification_type": kind}
            self._runner.run_in_background(self._send_notification(kind, told))

    async def _send_notification(self, kind: str, told: Mapping[str, object]) -> None:
        await self._ask("Notification", (kind,), told)


def objection(answer: HookAnswer) -> str:
    """Return what hooks want the model to act on; empty if they have no objection."""
    return "\n".join(filter(None, (answer.reason if answer.verdict == "deny" else "", answer.context)))
