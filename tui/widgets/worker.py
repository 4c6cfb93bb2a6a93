"""Background work of widgets."""

from collections.abc import Awaitable, Callable

from textual.dom import DOMNode
from textual.worker import Worker


def start_worker(
    node: DOMNode, work: Callable[[], Awaitable[None]], group: str, *, cancels_earlier: bool = False
) -> None:
    """Start work that is cancelled when its widget or screen is removed. `cancels_earlier`: whether to cancel earlier
    work of the group."""

    async def run() -> None:  # not a coroutine: a worker cancelled before its start would never await it
        await work()

    _: Worker[None] = node.run_worker(run, group=group, exclusive=cancels_earlier)
