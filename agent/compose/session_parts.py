"""The parts of a session that is being opened, from which its contexts are created: its channel, recorder, archive,
workspace and models."""

import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.agent.archive.index_process import index_in_background_if_behind
from ebbtide.agent.archive.session_archive import SessionArchive
from ebbtide.agent.calls.call_secrets import add_git_passwords
from ebbtide.agent.calls.execute import DiagnoseChanges, SaveOpenFiles, no_diagnostics, no_open_editors
from ebbtide.agent.calls.policy import Rule
from ebbtide.agent.channel import Channel, EventSink
from ebbtide.agent.compose.optional_parts import create_language_service, skill_folders
from ebbtide.agent.compose.settings import choose_mode, create_debug_log
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.config.values import Config
from ebbtide.agent.logs.debug_log import DebugLog
from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.agent.providers.base import Provider
from ebbtide.agent.providers.factory import build_summarisers, create_session_models
from ebbtide.agent.providers.fallbacks import ConnectedModel, SessionModels
from ebbtide.agent.providers.learned_limits import SummariserSource
from ebbtide.agent.records.call_progress import CallProgress
from ebbtide.agent.records.job_reports import JobPortForwarder, create_job_end_reporter
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.session_state import workspace_state
from ebbtide.agent.records.store_access import outputs_folder
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.records.write_queue import WriteQueue
from ebbtide.agent.window.session_context import LanguageService
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Tool, Workspace
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.recall_results import no_progress
from ebbtide.tools.sandbox.network import SessionNetwork
from ebbtide.tools.sandbox.sandbox import Sandbox

if TYPE_CHECKING:  # types only: few sessions have these
    from ebbtide.agent.hooks.session_hooks import StartSource
    from ebbtide.agent.subagents.role import SubagentContext

NEW_SESSION_SOURCES = ("startup", "clear")
"""Start sources of sessions that begin without a conversation."""


@dataclass(frozen=True, slots=True)
class ProjectSetup:
    """What all sessions of a project have in common."""

    config: Config
    root: Path
    environment: Mapping[str, str]
    store_thread: StoreThread
    store: SessionStore
    is_interactive: bool
    """Whether a user is present to answer."""
    is_ephemeral: bool
    """Whether nothing is stored."""
    secrets: SecretTokens = field(default_factory=SecretTokens)
    """Replaces secrets in what models see."""
    extra_tools: tuple[Tool, ...] = ()
    """Tools in addition to the built-in ones."""
    save_open_files: SaveOpenFiles = no_open_editors
    sinks: tuple[EventSink, ...] = ()
    on_restore_progress: Callable[[int, int], None] = no_progress
    """Called while a session is resumed, with the number of messages read so far and in total."""


@dataclass(frozen=True, slots=True)
class SessionGrants:
    """What the user has allowed for one session since the program was started."""

    rules: list[Rule]
    added_folders: list[Path]
    """Additional working folders."""
    was_opened_before: bool
    """Whether the session was already opened in this run of the program."""


@dataclass(frozen=True, slots=True)
class SessionParts:
    """The parts of a session that is being opened. The session's contexts are created from them."""

    setup: ProjectSetup
    session_row: SessionRow
    model: str
    connected_model: ConnectedModel
    exit_stack: AsyncExitStack
    """Collects everything that must be closed with the session."""
    grants: SessionGrants
    start_source: "StartSource | None"
    """How the session starts; None if it is reopened right after closing."""
    agent_role: "SubagentContext | None"
    """The definition and parent of a sub-agent; None for other sessions."""
    channel: Channel
    debug: DebugLog
    workspace: Workspace
    """The workspace with folders and sandbox. `create_tool_workspace` adds the functions that look up stored
    content."""
    language_service: LanguageService | None
    recorder: Recorder
    archive: SessionArchive
    call_progress: CallProgress
    models: SessionModels
    summarisers: SummariserSource

    @property
    def diagnose_changes(self) -> DiagnoseChanges:
        return self.language_service.diagnose_changes if self.language_service is not None else no_diagnostics

    @property
    def is_new(self) -> bool:
        return self.start_source in NEW_SESSION_SOURCES

    @property
    def is_interactive(self) -> bool:
        """Whether a user is present to answer this session."""
        return self.channel.is_interactive

    @property
    def is_resumed_from_earlier_run(self) -> bool:
        """Whether the user resumes a session that was last open in an earlier run of the program."""
        return self.is_interactive and not self.is_new and not self.grants.was_opened_before

    @property
    def initial_mode(self) -> PermissionMode:
        """The permission mode: the session's own, or the configured one if the user resumes a session from an earlier
        run."""
        config = self.setup.config
        return (
            config.permission_mode if self.is_resumed_from_earlier_run else choose_mode(config, self.session_row.mode)
        )

    @property
    def provider(self) -> Provider:
        return self.connected_model.provider


async def create_session_parts(
    setup: ProjectSetup,
    connect_model: Callable[[str], Awaitable[ConnectedModel]],
    session_row: SessionRow,
    model: str,
    connected_model: ConnectedModel,
    exit_stack: AsyncExitStack,
    grants: SessionGrants,
    start_source: "StartSource | None",
    agent_role: "SubagentContext | None",
) -> SessionParts:
    """Create the parts that the contexts of a session share. `connect_model`: connects a fallback model."""
    config, is_interactive = setup.config, setup.is_interactive and agent_role is None
    channel = Channel(is_interactive=is_interactive)
    outputs_folder = _create_outputs_folder(setup, session_row.id, exit_stack)
    for sink in setup.sinks:
        sink.follow(channel)
    sandbox = _create_sandbox(setup, outputs_folder, grants.added_folders, exit_stack)
    workspace = Workspace(setup.root, outputs_folder, sandbox=sandbox, max_output_bytes=config.archive_max_output_bytes)
    if agent_role is not None:
        workspace = agent_role.with_parent_variables(workspace)
    language_service = _create_language_service(setup, workspace, agent_role, exit_stack)
    recorder = _create_recorder(setup, session_row, channel, workspace, is_new=start_source in NEW_SESSION_SOURCES)
    await add_git_passwords(setup.secrets, setup.root)  # the user may mention passwords before any call
    workspace.jobs.on_end = create_job_end_reporter(channel, recorder, setup.secrets)
    port_policy = (
        "off" if config.sandbox_ports == "ask" and not is_interactive else config.sandbox_ports
    )  # without a user, nothing can be asked
    ports = JobPortForwarder(workspace, port_policy, channel.show_notice)
    exit_stack.push_async_callback(ports.close)
    debug = create_debug_log(config, setup.environment, is_interactive=is_interactive)
    archive = SessionArchive.open(setup.store_thread, setup.store, recorder, workspace, config, debug)
    models = create_session_models(config, model, connected_model.provider, connect_model)
    exit_stack.push_async_callback(models.close)
    summarisers = build_summarisers(config, setup.environment, lambda: models.provider.facts, secrets=setup.secrets)
    exit_stack.push_async_callback(summarisers.close)
    return SessionParts(
        setup=setup,
        session_row=session_row,
        model=model,
        connected_model=connected_model,
        exit_stack=exit_stack,
        grants=grants,
        start_source=start_source,
        agent_role=agent_role,
        channel=channel,
        debug=debug,
        workspace=workspace,
        language_service=language_service,
        recorder=recorder,
        archive=archive,
        call_progress=CallProgress(recorder.record_call_states),
        models=models,
        summarisers=summarisers,
    )


def _create_outputs_folder(setup: ProjectSetup, session_id: str, exit_stack: AsyncExitStack) -> Path:
    """Create the folder for command output that is not stored yet."""
    if not setup.is_ephemeral:
        folder = outputs_folder(setup.config, session_id).resolve()
        exit_stack.callback(_remove_if_empty, folder)
        return folder
    folder = Path(tempfile.mkdtemp(prefix="ebb-")).resolve()
    exit_stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # the folder does not exist, or still contains command output
        folder.rmdir()


def _create_sandbox(
    setup: ProjectSetup, outputs_folder: Path, added_folders: list[Path], exit_stack: AsyncExitStack
) -> Sandbox | None:
    """Create the sandbox for a session's commands. Its /tmp is removed when the session ends."""
    if setup.config.sandbox == "off":
        return None
    folders, temp_folder = setup.config.folders, outputs_folder / "tmp"
    exit_stack.callback(shutil.rmtree, temp_folder, ignore_errors=True)
    script_folders = (
        folders.data / "plugins",
        *skill_folders(setup.config),
    )  # skills contain scripts that commands run
    readable_paths = (setup.root, outputs_folder, *(folder.resolve() for folder in script_folders if folder.is_dir()))
    app_folders = (folders.config, folders.data, folders.logs)
    network = SessionNetwork(setup.config.web_private)
    exit_stack.push_async_callback(network.close)
    return Sandbox(
        setup.root, temp_folder, added_folders, app_folders, readable_paths, has_network=False, network=network
    )


def _create_language_service(
    setup: ProjectSetup, workspace: Workspace, role: "SubagentContext | None", exit_stack: AsyncExitStack
) -> LanguageService | None:
    """Return the language service; a sub-agent uses its parent's."""
    shared = role.parent.calls.language_service if role is not None else None
    if shared is not None:
        return shared
    log_folder = workspace.outputs_folder / "language-servers" if setup.is_ephemeral else None
    language_service = create_language_service(
        setup.config, setup.root, workspace.sandbox, setup.environment, log_folder
    )
    if language_service is not None:
        exit_stack.push_async_callback(language_service.close)
    return language_service


def _create_recorder(
    setup: ProjectSetup, row: SessionRow, channel: Channel, workspace: Workspace, *, is_new: bool
) -> Recorder:
    write_queue = WriteQueue(setup.store_thread, setup.store, channel.show_notice, channel.interrupt)
    read_workspace_state = partial(workspace_state, workspace)
    recorder = Recorder(
        setup.store_thread,
        setup.store,
        row,
        is_new=is_new,
        get_workspace_state=read_workspace_state,
        on_jobs_reported=workspace.jobs.mark_reported,
        write_queue=write_queue,
        start_indexing=partial(index_in_background_if_behind, model=setup.config.recall_embedding_model),
    )
    recorder.log.on_progress = setup.on_restore_progress
    return recorder
