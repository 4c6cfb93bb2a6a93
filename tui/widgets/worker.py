"""Background work for widgets."""

from collections.abc import Awaitable, Callable

from textual.dom import DOMNode
from textual.worker import Worker

from ebbtide.agent.errors import AgentError


def start_worker(
    node: DOMNode, work: Callable[[], Awaitable[None]], group: str, *, cancels_earlier: bool = False
) -> None:
    """Start work that is cancelled when its widget or screen is removed. `cancels_earlier`: whether to cancel earlier
    work in the same group."""

    async def run() -> None:  # not a coroutine: a worker cancelled before its start would never await it
        await work()

    _: Worker[None] = node.run_worker(run, group=group, exclusive=cancels_earlier)


class Loading:
    """Loads what a widget or screen shows, running one task per group at a time."""

    def __init__(self, node: DOMNode, on_error: Callable[[AgentError], None]) -> None:
        self._node, self._on_error = node, on_error
        self._workers: dict[str, Worker[None]] = {}

    @property
    def is_finished(self) -> bool:
        return all(worker.is_finished for worker in self._workers.values())

    def start(self, group: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run the work, and cancel earlier work of the same group."""

        async def run() -> None:  # not a coroutine: a worker cancelled before its start would never await it
            try:
                await work()
            except AgentError as error:
                self._on_error(error)

        self._workers[group] = self._node.run_worker(run, group=group, exclusive=True)
