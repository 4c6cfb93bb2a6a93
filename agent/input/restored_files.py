"""What the model is told when its user has brought files back."""

from collections.abc import Sequence

from agent.messages import Conversation, Note, User
from agent.window.env import Env
from tools.lazy import dataclass
from tools.outputs.extent import listed

_MOST = 20


@dataclass(frozen=True, slots=True)
class Told:
    conversation: Conversation


async def told_of_files(conversation: Conversation, env: Env, files: Sequence[str]) -> Told:
    """Tells the model which files are not what it left any more."""
    if not files:
        return Told(conversation)
    text = f"[The user brought these files back to what they were before; read them again: {listed(files, _MOST)}]"
    said = User((Note(text.encode(errors="replace").decode()),))
    await env.recorder.said(said)
    # A resumed session reports what changed behind its back; these files did not.
    workspace = env.call_runner.workspace
    paths = [workspace.root / name for name in files]
    for path in paths:
        workspace.seen.forget(path)
    await env.recorder.forget_files(paths)
    return Told(conversation.plus(said))
