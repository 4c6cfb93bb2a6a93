"""The first session: which it is, and how it comes about behind the first paint. What sessions are made of is loaded
only when it is asked for."""

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
    """What is known of the first session."""

    resume: str | None = None
    """The beginning of its id; empty for the newest one, None for a new one."""
    may_be_word: bool = False
    """`resume` is the first word of the message instead where no session's id begins so."""
    choose: bool = False
    """The user picks it from a list."""
    model: str | None = None
    message: str = ""
    """What is said in it at once."""


class LazySessions:
    """Sessions that are made when they are first asked for, by whichever thread that does."""

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
    """The sessions, with all that showing one needs. It takes long the first time: a thread may do it ahead."""
    from ebbtide.tui.actions import registry  # noqa: F401, PLC0415  # loaded for whoever asks for it next

    return sessions() if callable(sessions) else sessions


async def resolve_first(context: "ScreenContext", first: FirstSession) -> FirstSession:
    """The same with what may be a word known to be one or not. Its message is queued. Raises `AgentError`."""
    if first.may_be_word and first.resume and not await context.controller.sessions.knows(first.resume):
        first = replace(first, resume=None, choose=True, message=f"{first.resume} {first.message}".rstrip())
    if first.message:
        context.controller.queue.add(first.message)
    return first


async def open_first(context: "ScreenContext", first: FirstSession) -> FirstSession:
    """Shows the first session. Gives what to begin with later where the one that the user chose could not be opened,
    which is shown; raises `AgentError` where nothing was to be chosen. Where the user chose none, nothing is sent: what
    was to be said is in the prompt."""
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
