"""Connects hooks to a session: sends them events and applies their answers. `runner` runs the hooks, `answers` parses
their answers."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from ebbtide.agent.channel import Channel
from ebbtide.agent.config.hook_tables import HookEvent, McpToolAction, ModelAction
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.config.values import Config
from ebbtide.agent.events.permissions import PermissionAsked, QuestionAsked
from ebbtide.agent.events.plan import PlanSubmitted
from ebbtide.agent.events.session import Event, TurnFinished, TurnStarted
from ebbtide.agent.extensions.session_trust import SessionTrust
from ebbtide.agent.extensions.trust import TrustState, TrustVerdict
from ebbtide.agent.hooks.answers import HookAnswer, HookRuling, merge_answers
from ebbtide.agent.hooks.approval import HookApproval
from ebbtide.agent.hooks.claude_rules import ClaudeRules, load_claude_rules
from ebbtide.agent.hooks.declarations import DeclaredHook, DeclaredHooks, collect_hooks
from ebbtide.agent.hooks.judges import CallClient, HookBackends
from ebbtide.agent.hooks.runner import HookRunner, HookStatistics
from ebbtide.agent.hooks.tool_names import CLAUDE_MODES, ClaudeToolCall, to_claude_calls
from ebbtide.agent.hooks.transcript import HookTranscript, MessageReader
from ebbtide.agent.messages import Message, ToolCall
from ebbtide.tools.base import Workspace

CompactionTrigger: TypeAlias = Literal["manual", "auto"]
StartSource: TypeAlias = Literal["startup", "resume", "clear", "compact"]
EndReason: TypeAlias = Literal["clear", "resume", "prompt_input_exit", "other"]

MAX_STOP_OBJECTIONS_PER_TURN = 10
"""Maximum number of times that `Stop` hooks may make the model continue in one turn."""
IDLE_NOTICE_S = 60.0
"""Seconds after a turn until hooks are notified that the session is idle."""


class CheckpointSaver(Protocol):
    """Saves checkpoints before hooks change files."""

    def __call__(self, *, reads_only: bool) -> AbstractAsyncContextManager[None]:
        """Return a context in which hooks may change files. `reads_only`: no change is expected."""


class SessionHooks:
    """The hooks of one session."""

    def __init__(
        self,
        declared_hooks: DeclaredHooks,
        session_id: str,
        project: Path,
        workspace: Workspace,
        channel: Channel,
        transcript: HookTranscript,
        *,
        get_mode: Callable[[], PermissionMode],
        approval: HookApproval,
        start_source: StartSource | None = "startup",
        save_checkpoint: CheckpointSaver,
        claude_rules: ClaudeRules | None = None,
    ) -> None:
        """`start_source`: how the session begins; None if it continues as if it had never been closed.
        `save_checkpoint` saves a checkpoint before end-of-turn hooks run. `claude_rules` comes from Claude Code's
        settings files."""
        self._runner = HookRunner(
            declared_hooks.hooks,
            project,
            workspace,
            channel,
            approval,
            get_mode,
            self._notice_once,
            self._queue_async_answer,
        )
        self._session_id, self._root = session_id, str(workspace.root)
        self._channel, self._transcript = channel, transcript
        self._get_mode, self._approval, self._save_checkpoint = get_mode, approval, save_checkpoint
        self._project, self._claude_rules = str(project), claude_rules or ClaudeRules()
        self._user_files = tuple(
            dict.fromkeys(hook.hook_file for hook in declared_hooks.hooks if hook.owner == "user" and hook.hook_file)
        )
        self.problems = declared_hooks.problems
        """What was ignored and why, one sentence each."""
        self._reported_problems: set[str] = set(declared_hooks.problems)
        """Problems already shown, so that a broken hook is not reported at every call."""
        self._unreported_problems = list(declared_hooks.problems)
        self._start_source = start_source
        self.has_started = start_source is None
        self.end_reason: EndReason | None = "other"
        """The reason reported to `SessionEnd` hooks. If the session is about to be reopened, it is None and these hooks
        do not run."""
        self._objection_count = 0
        self._pending_context: list[tuple[HookEvent, str]] = []
        """Text to add to the next message to the model, with the event of the hook."""
        self._idle_timer: asyncio.TimerHandle | None = None
        channel.observe_events(self._notify_when_waiting)

    def set_judges(self, judges: HookBackends) -> None:
        """Set the models, agents and MCP servers that hooks can ask."""
        self._runner.judges = judges

    def add_client_hooks(self, hooks: Sequence[DeclaredHook], call_client: CallClient) -> None:
        """Add the client's hooks. `call_client`: calls the client."""
        self._runner.add_client_hooks(hooks, call_client)

    @property
    def needs_judges(self) -> bool:
        """Whether any hook asks a model or an MCP server."""
        return any(
            isinstance(hook.entry.action, ModelAction | McpToolAction) for hook, _, _ in self._runner.hook_states
        )

    @property
    def hook_states(self) -> Sequence[tuple[DeclaredHook, TrustState, HookStatistics]]:
        """All hooks in order of precedence, each with its approval state and statistics."""
        return self._runner.hook_states

    def decide(self, hook: DeclaredHook, verdict: TrustVerdict | None) -> None:
        """Store whether the hooks in this hook's file may run; None removes the decision. Raises `ConfigError` if
        saving fails; the decision then applies to this session only."""
        self._approval.decide(hook, verdict)

    def has_hooks(self, event: HookEvent) -> bool:
        return self._runner.has_hooks(event)

    # Events.

    async def run_session_start(self) -> None:
        """Show problems, and ask about hooks that need approval. Before the first prompt, also run `SessionStart`
        hooks, whose text is added to that prompt."""
        for problem in self._unreported_problems:
            self._channel.show_notice(problem)
        self._unreported_problems.clear()
        await self._channel.interrupt.race(self._approval.ask_about_files(self._user_files))
        if self._start_source is not None and not self.has_started:
            self.has_started = True
            await self._run_session_start(self._start_source)

    async def ask_about_prompt(self, text: str) -> HookAnswer:
        """Ask `UserPromptSubmit` hooks about the user's message. If they object, the message must not be sent."""
        self._objection_count = 0
        return await self.run_hooks("UserPromptSubmit", (), {"prompt": text})

    def rule_ruling(self, call: ToolCall) -> HookRuling | None:
        """Return the ruling of the Claude Code rules about a call; None if no rule matches."""
        if not self._claude_rules.rules:
            return None
        return self._claude_rules.decide_call(to_claude_calls(call, self._root), self._root, self._project)

    async def ask_before_call(self, call: ToolCall, agent_fields: Mapping[str, object]) -> tuple[HookAnswer, str]:
        """Ask `PreToolUse` hooks about a call. Return the answer and the tool's name in Claude Code. `agent_fields`
        describes the sub-agent that made the call, if any."""
        claude_calls = to_claude_calls(call, self._root)
        answer = await self.ask_about_call("PreToolUse", call, agent_fields)
        if answer.arguments is not None and not (len(claude_calls) == 1 and claude_calls[0].is_complete):
            self._notice_once(
                f"a hook changes the input of `{call.name}`, which is not supported here; the change is ignored"
            )
            answer = replace(answer, arguments=None)
        return answer, claude_calls[0].name

    async def ask_about_call(self, event: HookEvent, call: ToolCall, extra_fields: Mapping[str, object]) -> HookAnswer:
        """Ask the hooks of an event about a call. `extra_fields`: additional fields about its output and the sub-agent
        that made it."""
        answers = []
        for claude_call in to_claude_calls(call, self._root):
            payload = {
                "tool_name": claude_call.name,
                "tool_input": dict(claude_call.input),
                "tool_use_id": call.id,
                **extra_fields,
            }
            answers.append(await self.run_hooks(event, claude_call.names, payload, claude_call))
        return merge_answers(answers)

    async def ask_before_stop(self, last_message: str) -> str:
        """Ask `Stop` hooks after the model's answer. Return why the model should continue; empty if the turn may
        end."""
        payload = {"stop_hook_active": self._objection_count > 0, "last_assistant_message": last_message}
        if not self.has_hooks("Stop"):
            return ""
        async with self._save_checkpoint(reads_only=False):
            answer = await self.run_hooks("Stop", (), payload)
        reason = model_feedback(answer)
        if not reason or self._channel.interrupt.is_requested():
            return ""
        self._objection_count += 1
        if self._objection_count > MAX_STOP_OBJECTIONS_PER_TURN:
            self._channel.show_notice(
                f"hooks made the model continue {MAX_STOP_OBJECTIONS_PER_TURN} times in this turn; the turn ends now: "
                f"{reason.splitlines()[0]}"
            )
            return ""
        return reason

    async def run_subagent_start(self, agent_id: str, agent_type: str) -> str:
        """Run `SubagentStart` hooks, and return the context that they add."""
        return (
            await self.run_hooks("SubagentStart", (agent_type,), {"agent_id": agent_id, "agent_type": agent_type})
        ).context

    async def ask_before_subagent_stop(
        self, agent_id: str, agent_type: str, last_message: str, messages: Sequence[Message], *, was_continued: bool
    ) -> str:
        """Ask `SubagentStop` hooks after a sub-agent's answer. Return why it should continue; empty if it may stop.
        `agent_id`: the sub-agent's id; `agent_type`: the name of its definition; `messages`: its whole conversation;
        `was_continued`: whether a hook already made it continue."""
        if not self.has_hooks("SubagentStop"):
            return ""
        transcript_path = await self._transcript.write_agent_transcript(agent_id, messages)
        payload = {
            "stop_hook_active": was_continued,
            "agent_id": agent_id,
            "agent_type": agent_type,
            "agent_transcript_path": transcript_path,
            "last_assistant_message": last_message,
        }
        return model_feedback(await self.run_hooks("SubagentStop", (agent_type,), payload))

    async def ask_before_compaction(self, trigger: CompactionTrigger, focus: str) -> HookAnswer:
        """Ask hooks about a planned compaction. An objection counts only if the user requested the compaction."""
        return await self.run_hooks("PreCompact", (trigger,), {"trigger": trigger, "custom_instructions": focus})

    async def report_compaction(self, trigger: CompactionTrigger, summary: str) -> None:
        """Report a finished compaction to hooks. Context that they add goes into the next message to the model."""
        await self.run_hooks("PostCompact", (trigger,), {"trigger": trigger, "compact_summary": summary})
        await self._run_session_start("compact")

    def take_pending_context(self) -> tuple[tuple[HookEvent, str], ...]:
        """Return the context that hooks added for the next message, each with its event, and clear it."""
        pending_context = tuple(self._pending_context)
        self._pending_context.clear()
        return pending_context

    async def close(self) -> None:
        """Report the end of the session to hooks, and cancel hooks that are still running."""
        self._cancel_idle_notice()
        if self.has_started and self.end_reason is not None:
            self.has_started = False
            await self._run_and_report("SessionEnd", (self.end_reason,), {"reason": self.end_reason})
        await self._runner.close()

    async def _run_session_start(self, source: StartSource) -> None:
        answer = await self.run_hooks("SessionStart", (source,), {"source": source})
        if answer.context:
            self._pending_context.append(("SessionStart", answer.context))

    # Running the hooks.

    async def run_hooks(
        self, event: HookEvent, names: Sequence[str], payload: Mapping[str, object], call: ClaudeToolCall | None = None
    ) -> HookAnswer:
        """Run the matching hooks of an event and return their merged answer. An interrupt cancels them. Their notices
        are shown to the user before this returns."""
        answer = await self._channel.interrupt.race(self._run_and_report(event, names, payload, call))
        if answer is None:
            return HookAnswer()
        if answer.stop_reason is not None:
            self._channel.show_notice(f"a hook ended the turn: {answer.stop_reason}")
            self._channel.interrupt.request()
        return answer

    async def _run_and_report(
        self, event: HookEvent, names: Sequence[str], payload: Mapping[str, object], call: ClaudeToolCall | None = None
    ) -> HookAnswer:
        answer = await self._runner.run_matching(event, names, call, partial(self._hook_input, event, payload))
        self._show_notices(answer)
        return answer

    def _show_notices(self, answer: HookAnswer) -> None:
        for line in answer.problems:
            self._notice_once(line)
        for line in answer.notices:
            self._channel.show_notice(line)

    def _queue_async_answer(self, hook: DeclaredHook, answer: HookAnswer) -> None:
        """Queue the text of an asynchronous hook's answer for the next message to the model."""
        self._show_notices(answer)
        if reason := model_feedback(answer):
            self._pending_context.append((hook.event, "\n".join(filter(None, (hook.entry.output_preface, reason)))))

    async def _hook_input(self, event: HookEvent, payload: Mapping[str, object]) -> bytes:
        """Build the JSON that a hook reads from standard input, with `payload` and the fields common to all events."""
        path = await self._transcript.write_new_messages()
        if self._transcript.problem:
            self._notice_once(self._transcript.problem)
        common_fields = {
            "session_id": self._session_id,
            "transcript_path": path,
            "cwd": self._root,
            "permission_mode": CLAUDE_MODES[self._get_mode()],
            "hook_event_name": event,
        }
        return json.dumps({**common_fields, **payload}).encode() + b"\n"  # the newline is for scripts that use `read`

    def _notice_once(self, line: str) -> None:
        if line not in self._reported_problems:
            self._reported_problems.add(line)
            self._channel.show_notice(line)

    # Notifications that the session is waiting for the user.

    def _notify_when_waiting(self, event: Event) -> None:
        match event:
            case PermissionAsked():
                name = to_claude_calls(ToolCall("", event.name, event.arguments), self._root)[0].name
                self._notify("permission_prompt", f"ebb needs your permission to use {name}")
            case QuestionAsked() | PlanSubmitted():
                self._notify("elicitation_dialog", "ebb needs your answer")
            case TurnStarted():
                self._cancel_idle_notice()
            case TurnFinished() if self._channel.is_interactive and self.has_hooks("Notification"):
                self._cancel_idle_notice()
                call_later = asyncio.get_running_loop().call_later
                self._idle_timer = call_later(
                    IDLE_NOTICE_S, self._notify, "idle_prompt", "ebb is waiting for your input"
                )
            case _:
                pass

    def _cancel_idle_notice(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _notify(self, notification_type: str, message: str) -> None:
        if self.has_hooks("Notification"):
            payload = {"message": message, "title": "ebb", "notification_type": notification_type}
            self._runner.run_in_background(self._send_notification(notification_type, payload))

    async def _send_notification(self, notification_type: str, payload: Mapping[str, object]) -> None:
        await self._run_and_report("Notification", (notification_type,), payload)


def model_feedback(answer: HookAnswer) -> str:
    """Return the text that the model should act on: the hooks' objection and the context that they add."""
    return "\n".join(filter(None, (answer.reason if answer.verdict == "deny" else "", answer.context)))


def create_session_hooks(
    config: Config,
    session_id: str,
    workspace: Workspace,
    channel: Channel,
    read_messages: MessageReader,
    get_mode: Callable[[], PermissionMode],
    start_source: StartSource | None,
    trust: SessionTrust,
    save_checkpoint: CheckpointSaver,
) -> SessionHooks | None:
    """Create the hooks of a session. Return None if hooks are not needed: there are no hooks, Claude Code rules or
    problems, and the client cannot add hooks."""
    declared_hooks, claude_rules = collect_hooks(config), load_claude_rules(config)
    declared_hooks = replace(declared_hooks, problems=(*declared_hooks.problems, *claude_rules.problems))
    if not (declared_hooks.hooks or declared_hooks.problems or claude_rules.rules or config.accepts_client_hooks):
        return None
    transcript = HookTranscript(
        workspace.outputs_folder / "transcript.jsonl", session_id, workspace.root, read_messages
    )
    approval = HookApproval(config, channel, trust)
    project_items = [
        hook.hook_file.trust_item
        for hook in declared_hooks.hooks
        if hook.owner == "project" and hook.hook_file is not None
    ]
    trust.add(tuple(dict.fromkeys(project_items)))
    return SessionHooks(
        declared_hooks,
        session_id,
        config.project_folder,
        workspace,
        channel,
        transcript,
        get_mode=get_mode,
        approval=approval,
        start_source=start_source,
        save_checkpoint=save_checkpoint,
        claude_rules=claude_rules,
    )
