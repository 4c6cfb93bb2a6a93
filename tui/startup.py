"""Opens the first session after the first paint. Session modules are imported on demand."""

from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

from ebbtide.tools.lazy import dataclass
from ebbtide.tui import commands

if TYPE_CHECKING:  # loaded on demand
    from ebbtide.agent.compose.sessions import ProjectSessions
    from ebbtide.tui.screen_context import ScreenContext


@dataclass(frozen=True, slots=True)
class FirstSession:
    """Which session to open first."""

    resume: str | None = None
    """The beginning of a session id. Empty for the most recent session, None for a new one."""
    resume_may_be_word: bool = False
    """Whether `resume` becomes the first word of the message if no session id starts with it."""
    chooses_from_list: bool = False
    """Whether the user chooses the session from a list."""
    model: str | None = None
    message: str = ""
    """The message to send when the session is open."""

    @property
    def begins_empty(self) -> bool:
        """Whether the session is new and stays without messages until the user sends one."""
        return self.resume is None and not self.chooses_from_list and not self.message


class LazySessions:
    """Sessions that are created on first use. Thread-safe."""

    def __init__(self, create_sessions: "Callable[[], ProjectSessions]") -> None:
        self._create_sessions = create_sessions
        self._lock = Lock()
        self.sessions: ProjectSessions | None = None

    def __call__(self) -> "ProjectSessions":
        with self._lock:
            if self.sessions is None:
                self.sessions = self._create_sessions()
            return self.sessions


def load_sessions(sessions: "ProjectSessions | Callable[[], ProjectSessions]") -> "ProjectSessions":
    """Import all modules that a session needs, and return the sessions. This is slow the first time and can be done in
    a thread."""
    return sessions() if callable(sessions) else sessions


async def resolve_first_session(context: "ScreenContext", first_session: FirstSession) -> FirstSession:
    """Decide whether `resume` is a session id or the first word of the message, and queue the message. Raises
    `AgentError`."""
    if (
        first_session.resume_may_be_word
        and first_session.resume
        and not await context.controller.sessions.is_likely_session_id(first_session.resume)
    ):
        first_session = replace(
            first_session,
            resume=None,
            chooses_from_list=True,
            message=f"{first_session.resume} {first_session.message}".rstrip(),
        )
    if first_session.message:
        context.controller.queue.add(first_session.message)
    return first_session


async def open_first_session(context: "ScreenContext", first_session: FirstSession) -> FirstSession:
    """Open the first session. Returns `first_session` updated with the user's choices, in case it must be tried again.
    Errors are shown if the user picks the session from a list; otherwise `AgentError` is raised. If the user cancels
    the list, the message stays unsent in the prompt."""
    if first_session.resume is None and first_session.model is None and not first_session.chooses_from_list:
        first_session = replace(first_session, model=await commands.first_run.choose_first_model(context))
    if first_session.chooses_from_list:
        first_session = replace(first_session, resume=await commands.sessions.pick_session(context) or None)
        if first_session.resume is None and context.controller.queue:
            context.prompt.prepend(context.controller.queue.take_all())
        await context.controller.open(first_session.resume, first_session.model)
    else:
        await context.controller.open_first_session(first_session.resume, first_session.model)
    await context.presenter.greeter.collect()
    context.presenter.show_session()
    return first_session
