"""Background work of widgets."""

from collections.abc import Awaitable, Callable

from textual.dom import DOMNode
from textual.worker import Worker


def begin(node: DOMNode, work: Callable[[], Awaitable[None]], group: str, *, anew: bool = False) -> None:
    """Start work that ends with its widget or screen. `anew`: cancel earlier work of the group."""

    async def run() -> None:  # not begun yet: a worker may be cancelled before it starts
        await work()

    _: Worker[None] = node.run_worker(run, group=group, exclusive=anew)
