"""Work beside what is shown."""

from collections.abc import Awaitable, Callable

from textual.dom import DOMNode
from textual.worker import Worker


def begin(node: DOMNode, work: Callable[[], Awaitable[None]], group: str, *, anew: bool = False) -> None:
    """Begins work for a widget or a screen, with which it ends. `anew`: what the group did so far is given up."""

    async def run() -> None:  # not begun yet: a worker may be cancelled before it starts
        await work()

    _: Worker[None] = node.run_worker(run, group=group, exclusive=anew)
