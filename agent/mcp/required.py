"""Servers without which no request is sent."""

from collections.abc import Iterable

from agent.errors import LoginNeeded, ServerFailed
from agent.mcp.declared import Unusable
from agent.mcp.status import ServerEntry


async def require(entries: Iterable[ServerEntry], unusable: Iterable[Unusable]) -> None:
    """Returns once every server that is `required` is there with its tools, however long each may take to start. Raises
    `ServerFailed` for one that is not, `LoginNeeded` for one that wants a login."""
    for one in unusable:
        if one.required:
            raise ServerFailed(f"{one.line}; it is `required`")
    for entry in entries:
        if entry.declared.required and not entry.is_off:
            await _require(entry)


async def _require(entry: ServerEntry) -> None:
    name = entry.name
    state = await entry.server.ready() if entry.server is not None else entry.state
    if state.phase == "needs_login":
        raise LoginNeeded(f"the server `{name}` is `required` and wants you to log in: run `ebb mcp login {name}`")
    if state.phase != "ready":
        why = state.detail or f"it is {state.phase}"
        raise ServerFailed(f"the server `{name}` is `required` and cannot be used: {why}")
    if entry.withheld() and not entry.offered():
        raise ServerFailed(
            f"the server `{name}` is `required` and none of its tools is approved: start `ebb` in a terminal to "
            f"decide, or run `ebb mcp test {name} --approve`"
        )
