"""Prints how many tokens of a request the definition of each built-in tool takes, by the estimate for an unknown
tokenizer.

python -m bench.tools.costs
"""

from collections.abc import Sequence
from pathlib import Path

from ebbtide.agent.tokens.estimate import estimate_tools
from ebbtide.agent.tool_specs import CALL_TOOL, SEARCH_TOOL
from ebbtide.agent.window.deferral import create_specs
from ebbtide.tools.base import Tool, ToolSupport
from ebbtide.tools.catalog import create_builtin_tools, create_rare_tools
from ebbtide.tools.memory import Memory
from ebbtide.tools.tool_traits import traits_of


def cost_lines(tools: Sequence[Tool]) -> tuple[str, ...]:
    """Return one line for each tool, the most expensive first, and the sum of the tools that are always offered."""
    costs = sorted(((estimate_tools([spec]), spec) for spec in create_specs(tools)), key=lambda cost: -cost[0])
    lines = [f"{tokens:6,}  {spec.name}{_condition_text(spec.name, spec.kind)}" for tokens, spec in costs]
    always = sum(tokens for tokens, spec in costs if not _condition_text(spec.name, spec.kind))
    return (*lines, f"{always:6,}  all that are always offered")


def _condition_text(name: str, kind: str) -> str:
    if kind == "rare":
        return ", deferred if that makes requests smaller"
    if name in (SEARCH_TOOL, CALL_TOOL):
        return ", only while tools are deferred"
    return ", only in some projects" if traits_of(name).is_useful is not None else ""


def main() -> None:
    print(*cost_lines((*create_builtin_tools(), *create_rare_tools(ToolSupport()), Memory(Path()))), sep="\n")


if __name__ == "__main__":
    main()
