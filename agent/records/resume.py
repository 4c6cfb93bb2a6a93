"""Resumes a session: loads the conversation and determines what has changed since the session was closed."""

import asyncio
import time

from ebbtide.agent.events.session import Resumed
from ebbtide.agent.logs.debug_log import DebugLog
from ebbtide.agent.messages import Conversation
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.session_state import display_paths, restore_ended_jobs
from ebbtide.agent.view.visible import visible_messages
from ebbtide.tools.base import Workspace
from ebbtide.tools.outputs.seen_files import find_changed_files


async def resume_session(
    recorder: Recorder, workspace: Workspace, model: str, mode: str, debug: DebugLog, *, ask_again: bool = False
) -> tuple[Conversation, Resumed]:
    """Load the conversation, and return it with an event that lists what has changed since the session was closed. Also
    restore which files the model has seen, and which ended jobs it does not know about yet. With `ask_again`, calls
    stay open if the session ended while the user was being asked about a call. Raises `StoreFailed`."""
    start_time = time.perf_counter()
    conversation = await recorder.load(ask_again=ask_again)
    milliseconds = round((time.perf_counter() - start_time) * 1000, 1)
    debug.log(
        "context/resume", session=recorder.session_id, messages=len(conversation.messages), milliseconds=milliseconds
    )
    await asyncio.to_thread(visible_messages, conversation)  # fills the cache, which is slow for long conversations
    state = recorder.session_state
    workspace.seen_files.digests.update(state.seen_digests)
    jobs = restore_ended_jobs(state)
    workspace.jobs.restore(jobs)
    changed_files = await asyncio.to_thread(find_changed_files, state.seen_digests)
    event = Resumed(
        recorder.session_id,
        len(conversation.messages),
        model,
        mode,
        tuple((item.text, item.status) for item in state.todos),
        display_paths(changed_files.changed, workspace.root),
        display_paths(changed_files.deleted, workspace.root),
        tuple(job.command for job in jobs.values()),
        tuple(recorder.problems),
    )
    return conversation, event
