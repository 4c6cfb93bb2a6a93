"""Informs the model that the user has restored files."""

from collections.abc import Sequence

from ebbtide.agent.messages import Conversation, Note, User
from ebbtide.agent.window.session_context import CallContext, TurnContext, WindowContext
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import join_limited

_MAX_LISTED_FILES = 20


@dataclass(frozen=True, slots=True)
class RestoreAnnouncement:
    conversation: Conversation


async def announce_restored_files(
    conversation: Conversation, window: WindowContext, turn: TurnContext, calls: CallContext, files: Sequence[str]
) -> RestoreAnnouncement:
    """Inform the model which files the user has restored, so that it reads them again."""
    if not files:
        return RestoreAnnouncement(conversation)
    names = join_limited(files, _MAX_LISTED_FILES)
    text = f"[The user restored earlier versions of these files; read them again: {names}]"
    message = User((Note(text.encode(errors="replace").decode()),))
    await turn.recorder.record_user_message(message)
    # Forget the versions that the model has seen. A resumed session would otherwise report these files as changed by
    # another program.
    workspace = calls.runner.workspace
    paths = [workspace.root / name for name in files]
    for path in paths:
        workspace.seen_files.forget(path)
    await turn.recorder.forget_files(paths)
    return RestoreAnnouncement(conversation.plus(message))
