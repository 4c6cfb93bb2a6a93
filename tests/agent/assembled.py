"""Sessions put together of real parts, without a configuration."""

import time
from collections import ChainMap
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from agent.archive.session_archive import SessionArchive
from agent.calls.approval import Approval
from agent.calls.execute import CallRunner
from agent.calls.output_reader import OutputReader
from agent.calls.output_view import Ingest, hooks_of
from agent.calls.policy import Policy
from agent.channel import Channel
from agent.config.load import load_config
from agent.config.option_values import AfterTool
from agent.context.offload import Offloading
from agent.context.prompt import Instructions
from agent.context.reminders import Surroundings
from agent.debug import Debug
from agent.providers.base import Provider
from agent.providers.fallbacks import Targets
from agent.providers.learned_limits import Summarisers
from agent.records.call_progress import CallProgress
from agent.records.recorder import Recorder
from agent.records.situation import situation_of
from agent.records.store_thread import StoreThread
from agent.records.write_queue import WriteQueue
from agent.session import Session
from agent.window.deferral import Deferral, specs_of
from agent.window.env import Env
from agent.window.prefix_watch import PrefixWatch
from agent.window.reminders import Reminders, surroundings_now
from agent.window.server_tools import ServerTools, held_back
from store.sessions import SessionRow, SessionStore
from tools.base import Tool, Workspace, nobody_to_ask
from tools.catalog import builtin_tools
from tools.tool_output_cache import unlisted_tools

BRIEF, USUAL = Instructions("Be brief."), Offloading()
CONFIG = load_config(Path("/"), {"EBB_HOME": "/nowhere"}, {"recall.scope": "all"})


async def assembled(
    model: Provider | Targets,
    workspace: Workspace,
    thread: StoreThread,
    store: SessionStore,
    row: SessionRow,
    *,
    is_new: bool = True,
    ask_again: bool = False,
    interactive: bool = False,
    keeps: bool = True,
    instructions: Instructions = BRIEF,
    tools: Sequence[Tool] | None = None,
    policy: Policy | None = None,
    offloading: Offloading = USUAL,
    hooks: Sequence[AfterTool] = (),
    surroundings: Callable[[], Surroundings] = Surroundings,
    now: Callable[[], float] = time.monotonic,
    debug: Debug | None = None,
    summarisers: Summarisers | None = None,
    deferral: Deferral | None = None,
    served: ServerTools | None = None,
    **parts: Any,
) -> Session:
    """A session in a store, new or as it was left there. `keeps`: whether it keeps what leaves the view. `parts`: more
    of what its steps work with."""
    tools = builtin_tools() if tools is None else tools
    targets = model if isinstance(model, Targets) else Targets(model)
    channel = Channel(interactive=interactive)
    emit, interrupt = channel.emit, channel.interrupt
    look = partial(situation_of, workspace)
    writes = WriteQueue(thread, store, channel.notice, interrupt)
    recorder = Recorder(thread, store, row, is_new=is_new, look=look, writes=writes)
    conversation = None if is_new else await recorder.load(ask_again=ask_again)
    debug, deferral, served = debug or Debug(), deferral or Deferral(), served or ServerTools()
    kept = SessionArchive.open(thread, store, recorder, workspace, CONFIG, debug) if keeps else None
    workspace = replace(
        kept.reached_from(workspace) if kept else workspace,
        held_back=lambda: held_back(tools, served, deferral.held_back),
        ask=channel.questions.words if interactive else nobody_to_ask,
    )
    progress = CallProgress(recorder.keep_states)
    ask = channel.questions.permission if interactive else None
    approval = Approval(policy or Policy(str(workspace.root), "auto"), ask, note_asked=progress.asked)
    reader = OutputReader(lambda: targets.provider, row.id, interrupt, emit, summarisers)
    env = Env(
        targets=targets,
        instructions=instructions,
        own_tools=specs_of(tools),
        call_runner=CallRunner(
            ChainMap({tool.name: tool for tool in (*tools, *unlisted_tools())}, served.callable),
            workspace,
            approval,
            interrupt,
            emit,
            Ingest(
                kept.archive if kept else None,
                offloading,
                emit,
                reader,
                debug,
                hooks_of(hooks, row.id, workspace, interrupt, emit),
            ),
            progress=progress,
        ),
        recorder=recorder,
        interrupt=interrupt,
        emit=emit,
        summarisers=summarisers,
        debug=debug,
        watch=PrefixWatch(emit, debug, now, instructions.sections, recorder.mark, recorder.used_before),
        reminders=Reminders(partial(surroundings_now, surroundings, approval, tools, deferral, served), conversation),
        deferral=deferral,
        server_tools=served,
        archive=kept,
        **parts,
    )
    return Session(env, channel, conversation)
