"""Opens the first session after the first paint. Session modules are imported on demand."""

from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

from ebbtide.tools.lazy import dataclass

if TYPE_CHECKING:  # types only: see above
    from ebbtide.agent.sessions import Sessions
    from ebbtide.tui.screen_context import ScreenContext


@dataclass(frozen=True, slots=True)
class FirstSession:
    """Which session to open first."""

    resume: str | None = None
    """The start of its id; empty for the newest session, None for a new one."""
    may_be_word: bool = False
    """Whether `resume` is the first word of the message if it matches no session id."""
    choose: bool = False
    """Whether the user picks it from a list."""
    model: str | None = None
    message: str = ""
    """The message to send at once."""


class LazySessions:
    """Sessions created on first use, thread-safe."""

    def __init__(self, make: "Callable[[], Sessions]") -> None:
        self._make = make
        self._lock = Lock()
        self.made: Sessions | None = None

    def __call__(self) -> "Sessions":
        with self._lock:
            if self.made is None:
                self.made = self._make()
            return self.made


def load_sessions(sessions: "Sessions | Callable[[], Sessions]") -> "Sessions":
    """Import all that showing a session needs and return the sessions. The first call is slow and may run in a
    thread."""
    from ebbtide.tui.actions import registry  # noqa: F401, PLC0415  # loaded for whoever asks for it next

    return sessions() if callable(sessions) else sessions


async def resolve_first(context: "ScreenContext", first: FirstSession) -> FirstSession:
    """Decide whether `resume` is an id or a word, and queue the message. Raises `AgentError`."""
    if first.may_be_word and first.resume and not await context.controller.sessions.knows(first.resume):
        first = replace(first, resume=None, choose=True, message=f"{first.resume} {first.message}".rstrip())
    if first.message:
        context.controller.queue.add(first.message)
    return first


async def open_first(context: "ScreenContext", first: FirstSession) -> FirstSession:
    """Open the first session. If the user's choice cannot be opened, show the error and return what to open later;
    without a choice raise `AgentError`. If the user picks none, the message stays in the prompt and is not sent."""
    from ebbtide.tui.actions.first_run import first_model  # noqa: PLC0415  # deferred: see above
    from ebbtide.tui.actions.sessions import pick_session  # noqa: PLC0415  # deferred: see above

    if first.resume is None and first.model is None and not first.choose:
        first = replace(first, model=await first_model(context))
    if first.choose:
        first = replace(first, resume=await pick_session(context) or None)
        if first.resume is None and context.controller.queue:
            context.prompt.prepend(context.controller.queue.take_back())
        await context.controller.open(first.resume, first.model)
    else:
        await context.controller.begin(first.resume, first.model)
    await context.showing.greeter.look()
    context.showing.session()
    return first
