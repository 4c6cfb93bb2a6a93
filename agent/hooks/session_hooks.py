"""The hooks of a session at work: which of them are asked about what happens, with what they are told, side by side and
each in its time. What their answers mean is said in `answers`."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from agent.channel import Channel
from agent.config.hook_tables import HookEvent
from agent.config.options import Mode
from agent.events.plan import PlanSubmitted
from agent.events.session import Event, PermissionAsked, QuestionAsked, TurnFinished, TurnStarted
from agent.hooks.answers import MOST_BYTES, HookAnswer, meaning, not_run, together
from agent.hooks.approval import HookApproval
from agent.hooks.declared import PLUGIN_ROOT, PROJECT_DIR, DeclaredHooks, Hook
from agent.hooks.tool_names import views_of
from agent.hooks.transcript import TranscriptFile
from agent.messages import ToolCall
from tools.base import Workspace
from tools.process.child import answer_of
from tools.process.shell import Launch, argv_of, child_environment

Trigger: TypeAlias = Literal["manual", "auto"]
StartSource: TypeAlias = Literal["startup", "resume", "clear", "compact"]

KeepFiles: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]

SIDE_BY_SIDE = 16
"""Hooks that run at the same time."""
MOST_OBJECTIONS = 10
"""Times that hooks may have the model go on in one turn."""
IDLE = 60.0
"""Seconds after a turn, after which hooks are told that the user is waited for."""

_MODES: Mapping[Mode, str] = {
    "ask": "default", "accept-edits": "acceptEdits", "plan": "plan", "auto": "bypassPermissions",
}  # fmt: skip


class SessionHooks:
    """Those of one session. It runs none that is not approved."""

    def __init__(
        self,
        declared: DeclaredHooks,
        session: str,
        project: Path,
        workspace: Workspace,
        channel: Channel,
        transcript: TranscriptFile,
        *,
        mode: Callable[[], Mode],
        approval: HookApproval,
        source: StartSource = "startup",
        keep_files: KeepFiles = nullcontext,
    ) -> None:
        """`source`: how the session begins. `keep_files`: keeps what is in files before hooks change them that run at
        the end of a turn."""
        self._hooks = declared.hooks
        self._session, self._project, self._workspace = session, project, workspace
        self._channel, self._transcript = channel, transcript
        self._mode, self._approval, self._source, self._keep_files = mode, approval, source, keep_files
        self._of_user = tuple(dict.fromkeys(hook.file for hook in declared.hooks if hook.owner == "user" and hook.file))
        self._told: set[str] = set(declared.problems)
        """Problems that were told before: a hook that is broken is so at every call."""
        self._untold = list(declared.problems)
        self._has_begun = False
        self._objections = 0
        self._pending: list[str] = []
        """What the model is told with what is sent next."""
        self._background: set[asyncio.Task[HookAnswer]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._places = asyncio.Semaphore(SIDE_BY_SIDE)
        channel.note_with(self._note)

    def has(self, event: HookEvent) -> bool:
        return any(hook.event == event for hook in self._hooks)

    # What happens, as hooks are told of it.

    async def session_begins(self) -> None:
        """Once, before the first prompt: what hooks say then, the model is told with it."""
        for problem in self._untold:
            self._channel.notice(problem)
        self._untold.clear()
        await self._channel.interrupt.race(self._approval.settle(self._of_user))
        if not self._has_begun:
            self._has_begun = True
            await self._start(self._source)

    async def prompt(self, text: str) -> HookAnswer:
        """About what the user says; an objection means that it is not sent."""
        self._objections = 0
        return await self.ask("UserPromptSubmit", (), {"prompt": text})

    async def before_call(self, call: ToolCall) -> tuple[HookAnswer, str]:
        """About a call that is to run, and the name that it has there."""
        views = views_of(call, self._root)
        answers = [
            await self.ask(
                "PreToolUse",
                (view.name, *view.aliases),
                {"tool_name": view.name, "tool_input": dict(view.input), "tool_use_id": call.id},
            )
            for view in views
        ]
        answer = together(answers)
        if answer.arguments is not None and not (len(views) == 1 and views[0].is_whole):
            self._tell_once(f"a hook changes the input of `{call.name}`, which cannot be taken over; it is passed over")
            answer = replace(answer, arguments=None)
        return answer, views[0].name

    async def after_call(self, call: ToolCall, told: Mapping[str, object], *, failed: bool) -> HookAnswer:
        """About a call that has run. `told`: what is said of its output."""
        event: HookEvent = "PostToolUseFailure" if failed else "PostToolUse"
        answers = [
            await self.ask(
                event,
                (view.name, *view.aliases),
                {"tool_name": view.name, "tool_input": dict(view.input), "tool_use_id": call.id, **told},
            )
            for view in views_of(call, self._root)
        ]
        return together(answers)

    async def stops(self, last_words: str) -> str:
        """Why the model is to go on although it has answered; empty where it need not."""
        told = {"stop_hook_active": self._objections > 0, "last_assistant_message": last_words}
        if not self.has("Stop"):
            return ""
        async with self._keep_files():
            answer = await self.ask("Stop", (), told)
        if answer.verdict != "deny" or self._channel.interrupt.requested():
            return ""
        self._objections += 1
        if self._objections > MOST_OBJECTIONS:
            self._channel.notice(
                f"hooks wanted the model to go on {MOST_OBJECTIONS} times in this turn; it ends all the same: "
                f"{answer.reason.splitlines()[0]}"
            )
            return ""
        return answer.reason

    async def subagent_stops(
        self, agent: str, kind: str, last_words: str, transcript: str = "", *, is_going_on: bool = False
    ) -> HookAnswer:
        """About an agent that has answered; an objection means that it is to go on, for the reason that is given.
        `agent`: its id; `kind`: the name of its definition; `is_going_on`: it does so because of a hook."""
        told = {
            "stop_hook_active": is_going_on,
            "agent_id": agent,
            "agent_type": kind,
            "agent_transcript_path": transcript,
            "last_assistant_message": last_words,
        }
        return await self.ask("SubagentStop", (kind,), told)

    async def before_compaction(self, trigger: Trigger, focus: str) -> HookAnswer:
        """About a summary that is to be made; an objection is heard where the user wants it."""
        return await self.ask("PreCompact", (trigger,), {"trigger": trigger, "custom_instructions": focus})

    async def after_compaction(self, trigger: Trigger, summary: str) -> None:
        """About one that was made. What hooks say then, the model is told with what is sent next."""
        await self.ask("PostCompact", (trigger,), {"trigger": trigger, "compact_summary": summary})
        await self._start("compact")

    def take_pending(self) -> tuple[str, ...]:
        """What the model has to be told of hooks, with what is sent next."""
        taken = tuple(self._pending)
        self._pending.clear()
        return taken

    async def close(self) -> None:
        """Tells hooks that the session ends, and ends those that still run."""
        self._stop_waiting()
        if self._has_begun:
            self._has_begun = False
            await self._ask_all("SessionEnd", ("other",), {"reason": "other"})
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    async def _start(self, source: StartSource) -> None:
        answer = await self.ask("SessionStart", (source,), {"source": source})
        if answer.context:
            self._pending.append(answer.context)

    # How they are asked.

    async def ask(self, event: HookEvent, names: Sequence[str], told: Mapping[str, object]) -> HookAnswer:
        """What those want that are for such an event, of one of these names. They are ended when the user interrupts.
        What they have to say to the user has been told."""
        answer = await self._channel.interrupt.race(self._ask_all(event, names, told))
        if answer is None:
            return HookAnswer()
        if answer.stop is not None:
            self._channel.notice(f"a hook ends the turn: {answer.stop}")
            self._channel.interrupt.request()
        return answer

    async def _ask_all(self, event: HookEvent, names: Sequence[str], told: Mapping[str, object]) -> HookAnswer:
        found = [hook for hook in self._hooks if hook.event == event and hook.is_for(names)]
        found = [hook for hook in found if await self._is_approved(hook)]
        wanted = {
            (hook.command, hook.plugin, hook.owner): hook for hook in found
        }.values()  # what is the same runs once
        if not wanted:
            return HookAnswer()
        said = await self._said(event, told)
        answers = []
        async with asyncio.TaskGroup() as group:
            for hook in wanted:
                if hook.in_background:
                    self._run_aside(hook, said)
                else:
                    answers.append(group.create_task(self._run(hook, said)))
        answer = together([task.result() for task in answers])
        for line in answer.problems:
            self._tell_once(line)
        for line in answer.told:
            self._channel.notice(line)
        return answer

    async def _is_approved(self, hook: Hook) -> bool:
        if not self._approval.may_run(hook):
            return False
        if hook.file is None or await asyncio.to_thread(hook.file.is_as_it_was):
            return True
        self._tell_once(
            f"the hooks of `{hook.source}` do not run any more: they, or files that they run, have changed since they "
            "were approved; a new session asks about them"
        )
        return False

    async def _said(self, event: HookEvent, told: Mapping[str, object]) -> bytes:
        """What a hook reads on its standard input."""
        path = await self._transcript.catch_up()
        if self._transcript.problem:
            self._tell_once(self._transcript.problem)
        common = {
            "session_id": self._session,
            "transcript_path": path,
            "cwd": self._root,
            "permission_mode": _MODES[self._mode()],
            "hook_event_name": event,
        }
        return json.dumps({**common, **told}).encode()

    async def _run(self, hook: Hook, said: bytes) -> HookAnswer:
        command, root = hook.command, self._workspace.root
        environment = child_environment() | {PROJECT_DIR: str(self._project)}
        if hook.plugin:
            environment[PLUGIN_ROOT] = hook.plugin
        try:
            async with self._places:
                launch = Launch(argv_of(command) if isinstance(command, str) else command, environment)
                if hook.owner == "project" and self._workspace.sandbox is not None:
                    launch = self._workspace.sandbox.around(launch, root)
                answer = await answer_of(launch, said, root, hook.seconds, MOST_BYTES)
        except (OSError, ValueError) as error:  # a command with a NUL byte is a ValueError
            return not_run(hook.named, str(error))
        found = meaning(hook.event, hook.named, answer, hook.seconds)
        return replace(found, is_own=hook.owner != "project")

    def _run_aside(self, hook: Hook, said: bytes) -> None:
        task = asyncio.create_task(self._run(hook, said))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _tell_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._channel.notice(line)

    @property
    def _root(self) -> str:
        return str(self._workspace.root)

    # What the user is waited for with.

    def _note(self, event: Event) -> None:
        match event:
            case PermissionAsked():
                name = views_of(ToolCall("", event.name, event.arguments), self._root)[0].name
                self._notify("permission_prompt", f"ebb needs your permission to use {name}")
            case QuestionAsked() | PlanSubmitted():
                self._notify("elicitation_dialog", "ebb needs an answer of yours")
            case TurnStarted():
                self._stop_waiting()
            case TurnFinished() if self._channel.is_interactive and self.has("Notification"):
                self._stop_waiting()
                wait = asyncio.get_running_loop().call_later
                self._idle = wait(IDLE, self._notify, "idle_prompt", "ebb is waiting for your input")
            case _:
                pass

    def _stop_waiting(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _notify(self, kind: str, message: str) -> None:
        if self.has("Notification"):
            told = {"message": message, "title": "ebb", "notification_type": kind}
            task = asyncio.create_task(self._ask_all("Notification", (kind,), told))
            self._background.add(task)
            task.add_done_callback(self._background.discard)
