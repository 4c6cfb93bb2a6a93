"""What the user can do with the servers of a session. It says what is kept, not how, and runs nothing."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # types only: every session loads this, and few have servers
    from agent.mcp.status import ServerNamed, ServerSeen


class ServerControl(Protocol):
    """All servers of a session. What is done here holds for this session."""

    def servers(self) -> "Sequence[ServerSeen]":
        """All that is known of each: the tokens of every tool are estimated for it."""
        ...

    def named(self) -> "Sequence[ServerNamed]":
        """What can be named of each; at hand at once."""
        ...

    def watch(self, changed: Callable[[], None] | None) -> None:
        """`changed` is called after every change of a server, until somebody else watches."""
        ...

    async def switch(self, name: str) -> None:
        """Ends a server that runs, starts one that does not."""
        ...

    async def restart(self, name: str) -> None: ...

    def log(self, name: str, lines: int) -> Sequence[str]:
        """The last lines of what a server printed on its error output; why they cannot be read, if they cannot."""
        ...

    async def login(self, name: str, show: Callable[[str], None]) -> None:
        """Lets the user log in to a server that wants it, at the address that is shown."""
        ...
