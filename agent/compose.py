"""The composition root: creates the parts of a session and connects them."""

import shutil
import tempfile
import time
from collections import ChainMap
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.agent.archive.session_archive import SessionArchive
from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.execute import CallRunner, SaveOpenFiles, no_checkpoint, no_open_editors
from ebbtide.agent.calls.git_secrets import learn_git_passwords
from ebbtide.agent.calls.loop_guard import LoopGuard
from ebbtide.agent.calls.output_reader import OutputReader
from ebbtide.agent.calls.output_view import OutputIntake, around_calls, hooks_of
from ebbtide.agent.calls.policy import Policy, Rule, parse_rule
from ebbtide.agent.calls.project_rules import ProjectRules
from ebbtide.agent.channel import Channel
from ebbtide.agent.checkpoints.checkpoint_thread import CheckpointThread
from ebbtide.agent.checkpoints.session_checkpoints import SessionCheckpoints, open_project
from ebbtide.agent.compose_project import (
    AgentsOnDemand,
    apply_skill_limits,
    extensions_of,
    hooks_in,
    let_hooks_ask,
    servers_of,
    skill_folders,
    trust_in,
    unknown_tools_of,
)
from ebbtide.agent.config.values import Config
from ebbtide.agent.context.control_calls import PLAN
from ebbtide.agent.context.estimate import decode_estimator, server_in
from ebbtide.agent.context.secret_tokens import SecretTokens
from ebbtide.agent.input.instruction_updates import FileInstructionUpdates
from ebbtide.agent.lsp.session_languages import SessionLanguages
from ebbtide.agent.messages import Conversation
from ebbtide.agent.providers.factory import build_provider, build_summarisers, make_meter, targets_for
from ebbtide.agent.providers.fallbacks import ConnectedModel
from ebbtide.agent.providers.learned_limits import LearnedLimits, learned_window
from ebbtide.agent.providers.stream import Retries
from ebbtide.agent.providers.usage import counted_for
from ebbtide.agent.records.call_progress import CallProgress
from ebbtide.agent.records.job_log import JobPortsOnDemand, job_listener
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.resume import restore
from ebbtide.agent.records.session_reader import earlier_calls
from ebbtide.agent.records.session_state import workspace_state
from ebbtide.agent.records.store_access import lock_session, outputs_folder
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.records.write_queue import WriteQueue
from ebbtide.agent.session import Session
from ebbtide.agent.session_settings import (
    compacting_of,
    debug_of,
    effort_for,
    hooks_for_calls,
    is_in_cache,
    limits_of,
    mode_of,
    no_sandbox_reason,
    offered_tools,
    offloading_of,
    persistence_of,
    policy_of,
    surroundings_of,
    system_text_going_on,
    tools_for,
)
from ebbtide.agent.window.deferral import Deferral, specs_of
from ebbtide.agent.window.prefix_watch import PrefixWatch
from ebbtide.agent.window.reminders import Reminders, surroundings_now
from ebbtide.agent.window.server_tools import ServerTools, searchable_tools
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.agent.window.turn_limits import Allowance
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import ReadLimits, Tool, Workspace, no_user
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.recalled import no_progress
from ebbtide.tools.sandbox.network import SessionNetwork
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.submit_plan import SubmitPlan
from ebbtide.tools.task import Task
from ebbtide.tools.tool_output_cache import unlisted_tools

if TYPE_CHECKING:  # types only: few sessions have hooks, agents or telemetry
    from ebbtide.agent.hooks.session_hooks import StartSource
    from ebbtide.agent.subagents.definitions import AgentDefinition
    from ebbtide.agent.subagents.role import AgentRole
    from ebbtide.agent.telemetry.export import Telemetry


@dataclass(frozen=True, slots=True)
class SessionGrants:
    """What the user has allowed for a single session since the program was started."""

    rules: list[Rule]
    roots: list[Path]
    """Additional working folders."""
    was_open: bool
    """Whether the program had the session open before."""


@dataclass(frozen=True, slots=True)
class Composer:
    """Creates the sessions of one project."""

    config: Config
    root: Path
    environment: Mapping[str, str]
    thread: StoreThread
    store: SessionStore
    interactive: bool
    """Whether the user is present to answer."""
    ephemeral: bool
    """Whether nothing is stored."""
    secrets: SecretTokens = field(default_factory=SecretTokens)
    """Replaces secrets in what models see."""
    extra_tools: tuple[Tool, ...] = ()
    """Tools in addition to the built-in ones."""
    save_open_files: SaveOpenFiles = no_open_editors
    telemetry: "Telemetry | None" = None
    progress: Callable[[int, int], None] = no_progress
    """Called with the number of messages read so far and in total, while a session is resumed."""

    async def connect(self, model: str) -> ConnectedModel:
        """Connect a model and create its token meter. Raises `UsageError` and `ProviderError`."""
        config = self.config
        estimator = decode_estimator(learned := await self.thread.run(self.store.calibration, model))
        sure = estimator.is_precise
        provider = await build_provider(config, model, self.environment, is_precise=sure, secrets=self.secrets)
        return ConnectedModel(
            provider, make_meter(config, model, estimator, interactive=self.interactive), server_in(learned)
        )

    async def assemble(
        self,
        row: SessionRow,
        model: str,
        connected: ConnectedModel,
        closing: AsyncExitStack,
        allowed: SessionGrants,
        *,
        source: "StartSource | None",
        role: "AgentRole | None" = None,
    ) -> tuple[Session, SessionContext]:
        """Create a session and its parts; each part is a field of `SessionContext`. What has to be closed with the
        session is pushed onto `closing`. `source`: how the session starts, or None if it is reopened right after
        closing. `role`: the definition and parent of a sub-agent. Raises `AgentError`."""
        is_new = source in ("startup", "clear")
        config, there, provider = self.config, self.interactive and role is None, connected.provider
        channel, outputs = Channel(interactive=there), self._outputs(row.id, closing)
        if self.telemetry is not None:
            self.telemetry.follow(channel)
        limit = config.archive_max_output_bytes
        sandbox = self._sandbox(outputs, allowed.roots, closing)
        workspace = Workspace(self.root, outputs, sandbox=sandbox, max_output_bytes=limit)
        logs = outputs / "language-servers" if self.ephemeral else None
        if role is not None:
            workspace = role.workspace(workspace)
        languages = role.parent.languages if role is not None else None
        if languages is None:
            languages = SessionLanguages(config, self.root, workspace.sandbox, self.environment, logs)
            closing.push_async_callback(languages.close)
        recorder = self._recorder(row, channel, workspace, is_new=is_new)
        await learn_git_passwords(self.secrets, self.root)  # the user may mention some before any call does
        workspace.jobs.on_end = job_listener(channel, recorder, self.secrets)
        port_rule = "off" if config.sandbox_ports == "ask" and not there else config.sandbox_ports  # no user to ask
        ports = JobPortsOnDemand(workspace, port_rule, channel.notice)
        closing.push_async_callback(ports.close)
        debug = debug_of(config, self.environment, interactive=there)

        targets = targets_for(config, model, provider, self.connect)
        closing.push_async_callback(targets.close)
        summarisers = build_summarisers(config, self.environment, lambda: targets.provider.facts, secrets=self.secrets)
        closing.push_async_callback(summarisers.close)

        compacting = compacting_of(config, provider.window.effective)
        tools = tools_for(compacting, config, languages, keeps=not self.ephemeral, extra=self.extra_tools)
        server_tools = ServerTools() if role is None else role.server_tools()
        trust = await trust_in(config, channel, languages) if role is None else None
        extensions = await extensions_of(config, trust)
        agents = AgentsOnDemand(extensions, config.agents_concurrent, self.compose_agent)
        tools = agents.with_task_tool(tools) if role is None else role.tools_of(tools)
        servers = servers_of(config, self.environment, self.root, server_tools, channel, closing, trust)
        finders, spares = (
            bool(servers.entries if servers is not None else server_tools.present),
            not config.tools_allowed,
        )
        deferral = Deferral(config.tool_deferral_threshold, await recorder.tool_uses(), finders=finders, spares=spares)

        is_from_outside = there and not is_new and not allowed.was_open
        mode = config.permission_mode if is_from_outside else mode_of(config, row.mode)
        progress = CallProgress(recorder.record_call_states)
        policy = policy_of(config, self.root, mode, workspace.outputs)
        skills = () if extensions is None else tuple(str(skill.path.parent) for skill in extensions.skills)
        policy = replace(policy, roots=tuple(map(str, allowed.roots)), readable=(*policy.readable, *skills))
        if role is None:
            approval, problem = self._approval(policy, row, channel, progress, allowed.rules)
            approval.roots = allowed.roots
            approval.note_mode = lambda mode: recorder.switch_model(targets.model, mode)
        else:
            approval, problem = role.approval(workspace.outputs), ""
        apply_skill_limits(extensions, approval, channel, self.root)

        archive = SessionArchive.open(self.thread, self.store, recorder, workspace, config, debug)
        workspace = replace(
            archive.reached_from(workspace),
            measure=connected.meter.size_of_text,
            reads=ReadLimits(config.max_message_bytes, config.max_line_length),
            deferred_tools=lambda: searchable_tools(tools, server_tools, deferral.held_back),
            ask=channel.questions.ask_text if there else no_user,
            ask_for_several=channel.questions.ask_choices if there else no_user,
        )
        emit, interrupt = channel.emit, channel.interrupt
        reader = OutputReader(lambda: targets.provider, row.id, interrupt, emit, summarisers)
        checkpoints = self._checkpoints(recorder, workspace, channel) if role is None else None
        guard = checkpoints.around if checkpoints is not None else no_checkpoint if role is None else role.guard
        after_tool = hooks_of(hooks_for_calls(config), row.id, workspace, interrupt, emit, guard)
        hooks = hooks_in(
            config, recorder, workspace, channel, self.secrets, lambda: approval.policy.mode, closing, trust, guard,
            source,
        )  # fmt: skip
        tool_hooks = around_calls(hooks, workspace, emit, guard) if role is None else role.tool_hooks(workspace, emit)
        ingest = OutputIntake(archive.archive, offloading_of(config), emit, reader, debug, after_tool, tool_hooks)
        own = {tool.name: tool for tool in (Task(), *tools, SubmitPlan(), *unlisted_tools())}
        callable_tools = ChainMap(own, server_tools.callable)
        note = archive.files.note if role is None else role.parent.call_runner.note_files
        runner = CallRunner(
            callable_tools, workspace, approval, interrupt, emit, ingest, note, progress, LoopGuard(), self.secrets,
            guard, config.web_private, shows_changes=there, look_at_changes=languages.after_edit, hooks=tool_hooks,
            save_open_files=self.save_open_files,
        )  # fmt: skip

        conversation, resumed = Conversation(), None
        if not is_new:
            conversation, resumed = await restore(recorder, workspace, model, mode, debug, ask_again=there)
            if any(call.name == PLAN for call in conversation.unanswered_calls):
                mode = "plan"  # the question about it is asked again
                await approval.change_mode(mode)
            mode_before = row.mode if is_from_outside and mode != row.mode else ""
            conversation = counted_for(conversation, provider.facts.id)
            resumed = replace(resumed, mode=mode, mode_before=mode_before)
            if model != row.model or mode_before:
                await recorder.switch_model(model, mode)  # stored, so that later views of the session show it

        windows = (provider.window, *(target.window for target in targets.fallbacks))
        cached = is_in_cache(recorder.used_before, provider.facts)
        text = system_text_going_on(
            config,
            self.root,
            model,
            mode,
            windows,
            recorder.mark,
            attended=there,
            is_cached=cached,
            is_led=provider.facts.is_small,
        )
        if role is not None:
            text = replace(text, instructions=role.instructions(text.instructions, text.mode))
        outside = partial(surroundings_of, config, attended=there)
        surroundings = partial(surroundings_now, outside, approval, tools, deferral, server_tools)
        env = SessionContext(
            targets=targets,
            instructions=text.instructions,
            own_tools=specs_of(offered_tools(tools, text.mode, attended=text.attended)),
            call_runner=runner,
            recorder=recorder,
            interrupt=interrupt,
            emit=emit,
            limits=limits_of(config, interactive=there) if role is None else role.limits(config),
            allowance=Allowance(role.parent.allowance if role is not None else None),
            compacting=compacting,
            summarisers=summarisers,
            learned_limits=LearnedLimits(learned_window(recorder.mark, provider)),
            effort=effort_for(config, provider.facts),
            retries=Retries(
                persistence_of(config, interactive=there), reached=connected.answered_models(recorder.mark)
            ),
            debug=debug,
            meter=connected.meter,
            watch=PrefixWatch(
                emit, debug, time.monotonic, text.instructions.sections, recorder.mark, recorder.used_before
            ),
            reminders=Reminders(surroundings, conversation, config.context_note_at, text.mode, text.attended),
            instruction_updates=FileInstructionUpdates(
                self.root, config.project, lambda: approval.policy.roots, text.instructions
            ),
            deferral=deferral,
            server_tools=server_tools,
            servers=servers,
            trust=trust,
            extensions=extensions,
            hooks=hooks,
            archive=archive,
            checkpoints=checkpoints,
            languages=languages,
            agents=agents,
        )
        agents.parent = env
        let_hooks_ask(hooks, env, self.connect, self.compose_agent)
        if servers is not None:
            servers.start(env)
        notices = (*provider.window.notices, *filter(None, (self.store.told, *archive.problems, problem)))
        notices = (*notices, *text.instructions.problems, *(extensions.problems if extensions is not None else ()))
        notices = (*notices, *unknown_tools_of(extensions, callable_tools))
        self.store.told = ""
        end = AsyncExitStack()
        session = Session(
            env, channel, conversation, servers=servers, notices=notices, resumed=resumed, on_close=end.aclose
        )
        end.push_async_exit(closing.pop_all())  # until here the caller closes what was opened
        return session, env

    async def compose_agent(
        self, definition: "AgentDefinition", parent: SessionContext, closing: AsyncExitStack
    ) -> Session:
        """Create the session of a sub-agent of `parent`. Raises `AgentError`."""
        from ebbtide.agent.subagents.role import AgentRole  # noqa: PLC0415  # deferred: few sessions use sub-agents

        role = AgentRole(definition, parent)
        row = role.row(self.config)
        if not self.ephemeral:
            closing.callback(lock_session(self.config, row.id).release)
        connected = await self.connect(row.model)
        closing.push_async_callback(connected.provider.close)
        allowed = SessionGrants([], parent.call_runner.approval.roots, was_open=True)
        session, _ = await self.assemble(row, row.model, connected, closing, allowed, source="startup", role=role)
        return session

    def _recorder(self, row: SessionRow, channel: Channel, workspace: Workspace, *, is_new: bool) -> Recorder:
        writes = WriteQueue(self.thread, self.store, channel.notice, channel.interrupt)
        look = partial(workspace_state, workspace)
        recorder = Recorder(
            self.thread,
            self.store,
            row,
            is_new=is_new,
            look=look,
            note_told=workspace.jobs.mark_reported,
            writes=writes,
        )
        recorder.log.progress = self.progress
        return recorder

    def _approval(
        self, policy: Policy, row: SessionRow, channel: Channel, progress: CallProgress, kept_here: list[Rule]
    ) -> tuple[Approver, str]:
        """Return the approver, and the problem if the project's rules could not be read. With a user present, earlier
        approvals count as well: those of the project, and those of this session since the program was started. In
        headless runs only settings and flags count."""
        unheld = partial(no_sandbox_reason, self.config)
        if not channel.is_interactive:
            return Approver(policy, why_unsandboxed=unheld), ""
        rules = ProjectRules(self.config.folders.config, self.root)
        kept = rules.read()
        policy = replace(policy, allow=(*policy.allow, *map(parse_rule, kept.allow), *kept_here))
        earlier = partial(earlier_calls, self.thread, self.store, row.project, row.id)
        ask, about_plan = channel.questions.ask_permission, channel.questions.ask_plan
        approval = Approver(
            policy, ask, earlier, rules, progress.record_question, kept_here, about_plan, why_unsandboxed=unheld
        )
        approval.can_ask = lambda: channel.is_open
        return approval, kept.problem

    def _checkpoints(self, recorder: Recorder, workspace: Workspace, channel: Channel) -> SessionCheckpoints | None:
        if self.ephemeral or not self.config.checkpoints_enabled:
            return None
        checkpoints = SessionCheckpoints(
            CheckpointThread(partial(open_project, self.config, workspace.root)),
            recorder.session,
            lambda: recorder.count,
            lambda: bool(workspace.jobs.running),
            channel.emit,
            channel.interrupt,
            workspace.root if channel.is_interactive else None,
        )
        channel.on_note(checkpoints.note)
        return checkpoints

    def _sandbox(self, outputs: Path, roots: list[Path], closing: AsyncExitStack) -> Sandbox | None:
        """Return the sandbox for a session's commands; its /tmp is removed when the session ends."""
        if self.config.sandbox == "off":
            return None
        folders, scratch = self.config.folders, outputs / "tmp"
        closing.callback(shutil.rmtree, scratch, ignore_errors=True)
        scripts = (folders.data / "plugins", *skill_folders(self.config))  # scripts of skills run in commands
        shown = (self.root, outputs, *(each.resolve() for each in scripts if each.is_dir()))
        ours = (folders.config, folders.data, folders.logs)
        network = SessionNetwork(self.config.web_private)
        closing.push_async_callback(network.close)
        return Sandbox(self.root, scratch, roots, ours, shown, has_network=False, network=network)

    def _outputs(self, session: str, closing: AsyncExitStack) -> Path:
        """Return the folder that holds command output until it is stored."""
        if not self.ephemeral:
            folder = outputs_folder(self.config, session).resolve()
            closing.callback(_remove_if_empty, folder)
            return folder
        folder = Path(tempfile.mkdtemp(prefix="ebb-")).resolve()
        closing.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # it does not exist, or contains command output
        folder.rmdir()
