"""What a session's steps work with, put together from the session's parts. It runs nothing."""

from collections import ChainMap
from collections.abc import Callable
from dataclasses import replace

from agent.asking import Asking
from agent.context.notes import Surroundings
from agent.deferral import specs_of
from agent.digest import OutputReader
from agent.env import Env
from agent.events import Event
from agent.execute import Hands, forget_files
from agent.gate import Gate
from agent.ingest import Ingest, hooks_of
from agent.interrupt import Interrupt
from agent.messages import Conversation
from agent.parts import Parts
from agent.progress import Progress
from agent.tail import Tail
from agent.watch import Watch
from tools.base import Tool

COMPACT = "compact_context"


def env_of(
    parts: Parts,
    conversation: Conversation,
    asking: Asking,
    interrupt: Interrupt,
    emit: Callable[[Event], None],
    spent: Callable[[], float],
) -> Env:
    """`conversation`: what was said so far. `asking` puts questions to the user, who is there if `parts` say so.
    `spent`: US dollars since the program was started."""
    id, recorder = parts.recorder.session, parts.recorder
    workspace = replace(parts.workspace, held_back=lambda: held_back(parts))
    workspace = replace(workspace, ask=asking.words) if parts.interactive else workspace
    progress = Progress(recorder.keep_states)
    ask = asking.permission if parts.interactive else None
    gate = Gate(parts.policy, ask, parts.earlier, parts.rules, progress.asked, parts.kept_here)
    tools = ChainMap({tool.name: tool for tool in (*parts.tools, *parts.unlisted)}, parts.served.callable)
    reader = OutputReader(lambda: parts.targets.provider, id, interrupt, emit, parts.summarisers)
    hooks = hooks_of(parts.after_tool, id, workspace, interrupt, emit)
    keeper = Ingest(parts.archive, parts.offloading, emit, reader, parts.debug, hooks)
    note_files = parts.files.note if parts.files is not None else forget_files

    def surroundings() -> Surroundings:
        deferred, hosted = parts.deferral.counted
        mode, served = gate.policy.mode, parts.served.news()
        can_compact = parts.deferral.offers(COMPACT) and any(tool.name == COMPACT for tool in parts.tools)
        now = replace(parts.surroundings(), mode=mode, deferred=deferred, hosted=hosted, served=served)
        return replace(now, can_compact=can_compact)

    return Env(
        targets=parts.targets,
        instructions=parts.instructions,
        own_tools=specs_of(parts.tools),
        hands=Hands(tools, workspace, gate, interrupt, emit, keeper, note_files, progress),
        recorder=recorder,
        interrupt=interrupt,
        emit=emit,
        spent=spent,
        limits=parts.limits,
        compacting=parts.compacting,
        summarisers=parts.summarisers,
        lessons=parts.lessons,
        effort=parts.effort,
        retries=parts.retries,
        debug=parts.debug,
        meter=parts.meter,
        rent=parts.rent,
        watch=Watch(emit, parts.debug, parts.now, parts.instructions.sections, recorder.mark, recorder.used_before),
        tail=Tail(surroundings, conversation, parts.note_at),
        deferral=parts.deferral,
        served=parts.served,
        servers=parts.servers,
    )


def held_back(parts: Parts) -> tuple[Tool, ...]:
    """The tools that the model is not shown, but may search for."""
    names = parts.deferral.held_back
    own = (tool for tool in parts.tools if tool.name in names)
    return (*own, *parts.served.findable(names))
