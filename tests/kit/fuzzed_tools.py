"""The tools of fuzzed sessions: those that give back what their calls say, of the program and of a server, and the real
ones that bring back what left the view and find what is held back."""

import asyncio
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from hypothesis import strategies as st

from ebbtide.agent.channel import Interrupt
from ebbtide.agent.messages import ToolCall
from ebbtide.agent.window.deferral import create_specs
from ebbtide.tools.base import Arguments, Effect, ImageData, Result, Tool, Workspace
from ebbtide.tools.call_tool import CallTool
from ebbtide.tools.read_result import ReadResult
from ebbtide.tools.recall import Recall
from ebbtide.tools.tool_search import ToolSearch
from tests.kit.adapters import PIXEL

OWN = ("read", "bash", "grep", "edit", "write", "compact_context", "final_report")
SERVER_TOOLS = tuple(f"mcp__chat__{deed}" for deed in ("send", "list", "delete", "rename"))
"""Of a server: they are held back where they would take too much."""
TALKATIVE = "Does as it is told, and says at length on which conditions, with which rights and to what end. " * 6


@dataclass(frozen=True, slots=True)
class Output:
    """What a call gives back, as its arguments say."""

    piece: str
    times: int
    how: Literal["done", "failed", "picture", "interrupt", "later"]


outputs = st.builds(
    Output,
    st.sampled_from(["ok", "line of output\n", "Error: no such file\n", "日本語", "x" * 90 + "\n"]),
    st.sampled_from([0, 1, 1, 5, 40, 400, 4000]),
    st.sampled_from([*(["done"] * 10), "failed", "failed", "picture", "interrupt", "later"]),
)


@dataclass(frozen=True, slots=True)
class Parrot:
    """A tool that gives back what its call says."""

    name: str
    interrupt: Interrupt
    wait: Callable[[], None]
    """What happens while a call takes hours."""
    description: str = "Does as it is told."
    schema: Mapping[str, object] = field(default_factory=lambda: {"type": "object", "properties": {}})
    effect: Effect = "none"

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        how = arguments["how"]
        if how == "interrupt":
            self.interrupt.request()
            await asyncio.Event().wait()
        if how == "later":
            self.wait()
        pictures = (ImageData("image/png", b64decode(PIXEL)),) if how == "picture" else ()
        return Result(told(arguments), images=pictures, has_failed=how == "failed")


@dataclass(frozen=True, slots=True)
class ServedParrot(Parrot):
    """One that a server has brought."""

    kind: Literal["skill", "mcp"] = "mcp"


def told(arguments: Arguments) -> str:
    """What a parrot says to arguments."""
    return str(arguments["piece"]) * int(str(arguments["times"]))


def own_tools(interrupt: Interrupt, wait: Callable[[], None]) -> tuple[Tool, ...]:
    finders: tuple[Tool, ...] = (ToolSearch(), CallTool(), ReadResult(), Recall())
    return (*(Parrot(name, interrupt, wait) for name in OWN), *finders)


def served_tools(interrupt: Interrupt, wait: Callable[[], None]) -> tuple[Tool, ...]:
    return tuple(ServedParrot(name, interrupt, wait, TALKATIVE, effect="serve") for name in SERVER_TOOLS)


SPECS = create_specs(own_tools(Interrupt(), lambda: None))
"""As the model sees those of the program."""


@st.composite
def calls(draw: st.DrawFn, number: int) -> ToolCall:
    """One of the calls of a reply. Servers may give those of each reply the same ids again."""
    name = draw(
        st.sampled_from(
            [*(OWN[:5] * 3), *OWN[5:], *SERVER_TOOLS, "call_tool", "tool_search", *(["read_result", "recall"] * 2)]
        )
    )
    return ToolCall(draw(st.sampled_from([f"call_{number}", ""])), name, draw(arguments_for(name)))


refs: st.SearchStrategy[dict[str, object]] = st.integers(1, 6).map(lambda number: {"ref_id": f"r{number}"})


@st.composite
def repeated(draw: st.DrawFn) -> dict[str, object]:
    """Arguments that tell a parrot what to say."""
    output = draw(outputs)
    path = draw(st.sampled_from(["a.py", "b.py"]))
    return {"path": path, "piece": output.piece, "times": output.times, "how": output.how, "report": "all there is"}


def arguments_for(name: str) -> st.SearchStrategy[dict[str, object]]:
    match name:
        case "call_tool":
            return st.builds(
                lambda to, given: {"name": to, "arguments": given}, st.sampled_from(SERVER_TOOLS), repeated()
            )
        case "tool_search":
            return st.sampled_from([{"query": "send"}, {"query": SERVER_TOOLS[1]}, {"query": "nothing of the kind"}])
        case "read_result":
            parts = st.sampled_from([{}, {"lines": "1-3"}, {"offset": 5}, {"limit": 30_000}])
            return st.builds(lambda ref, part: {**ref, **part}, refs, parts)
        case "recall":
            return refs | st.sampled_from(
                [{"query": "line of output"}, {"ref_id": "sum-1"}, {"ref_id": "r1", "max_tokens": 9000}]
            )
        case _:
            return repeated()
