"""Which tool a call is for: by its own name, or through `call_tool`. It runs nothing."""

from collections.abc import Iterable, Mapping

from agent.context.tool_selection import CALL, SEARCH, meant
from agent.messages import ToolCall
from tools.base import Deferrable, Tool, ToolError
from tools.schema import check
from tools.tool_search import schema_text
from tools.word_match import best_matches, words_of

CLOSE = 3
"""Names that are offered in place of one that no tool has."""


def as_meant(call: ToolCall, tools: Mapping[str, Tool]) -> ToolCall:
    """The call that a `call_tool` stands for. A built-in tool is called by its own name only, so that everything that
    looks at calls finds its calls there."""
    inner = meant(call)
    is_builtin = inner.name in tools and not isinstance(tools[inner.name], Deferrable)
    return call if is_builtin else inner


def tool_for(call: ToolCall, tools: Mapping[str, Tool]) -> Tool:
    """The tool that is called, whose schema the arguments match. Raises `ToolError`."""
    if call.problem:
        raise ToolError(f"the call was not run: {call.problem}")
    tool = tools.get(call.name)
    if tool is None:
        raise ToolError(_no_such_tool(call.name, tools))
    try:
        check(call.arguments, tool.schema, tool.name)
    except ToolError as error:
        # The model may never have seen the schema of such a tool.
        schema = f". Its schema is {schema_text(tool)}" if isinstance(tool, Deferrable) else ""
        raise ToolError(f"{error}{schema}") from error
    return tool


def _no_such_tool(name: str, tools: Mapping[str, Tool]) -> str:
    close = close_names(name, tools)
    if close:
        return f"there is no tool `{name}`; did you mean {' or '.join(f'`{each}`' for each in close)}?"
    own = [each for each, tool in tools.items() if not isinstance(tool, Deferrable) and each not in (SEARCH, CALL)]
    more = f"; `{SEARCH}` finds others" if any(isinstance(tool, Deferrable) for tool in tools.values()) else ""
    return f"there is no tool `{name}`; the tools are {', '.join(own)}{more}"


def close_names(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that are most like one that is wrong: in their letters, or else in their words."""
    import difflib  # noqa: PLC0415  # deferred: only a wrong name needs it

    known = {each.lower(): each for each in names}
    alike = [known[each] for each in difflib.get_close_matches(name.lower(), known, n=CLOSE, cutoff=0.6)]
    if alike:
        return tuple(alike)
    choices = list(known.values())
    return tuple(
        choices[place] for place in best_matches(name, [dict.fromkeys(words_of(each), 1.0) for each in choices], CLOSE)
    )
