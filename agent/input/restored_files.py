"""Tell the model that the user has restored files."""

from collections.abc import Sequence

from ebbtide.agent.messages import Conversation, Note, User
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import join_limited

_MAX_LISTED_FILES = 20


@dataclass(frozen=True, slots=True)
class RestoreAnnouncement:
    conversation: Conversation


async def announce_restored_files(
    conversation: Conversation, env: SessionContext, files: Sequence[str]
) -> RestoreAnnouncement:
    """Tell the model which files are no longer as it left them."""
    if not files:
        return RestoreAnnouncement(conversation)
    names = join_limited(files, _MAX_LISTED_FILES)
    text = f"[The user brought these files back to what they were before; read them again: {names}]"
    said = User((Note(text.encode(errors="replace").decode()),))
    await env.recorder.record_user_message(said)
    # A resumed session reports files changed from outside; these were not.
    workspace = env.call_runner.workspace
    paths = [workspace.root / name for name in files]
    for path in paths:
        workspace.seen.forget(path)
    await env.recorder.forget_files(paths)
    return RestoreAnnouncement(conversation.plus(said))
