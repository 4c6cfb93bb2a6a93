"""Resolves a model's call: which tool is meant, by its own name, another agent's name or through `call_tool`, and
with which arguments."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from ebbtide.agent.context.tool_selection import CALL, NO_TOOL, SEARCH, unwrapped_call
from ebbtide.agent.messages import Assistant, ToolCall
from ebbtide.agent.providers.loose_json import HALF_PAIR, is_text
from ebbtide.tools.base import Arguments, Deferrable, Tool, ToolError
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.schema import check, has_float, mismatches
from ebbtide.tools.search.word_match import best_matches, words_of
from ebbtide.tools.tool_search import schema_text

CLOSE = 3
"""Similar names suggested for an unknown one."""
LONGEST_NAME = 80
"""Longest unknown name that is shown, in characters."""


def normalize_calls(reply: Assistant, tools: Mapping[str, Tool], offered: Collection[str], root: str) -> Assistant:
    """The reply with its calls in the form in which they run, which is also recorded and shown. Each keeps the
    model's original, to be sent back. `tools`: all tools that may be called; `offered`: the names that the model
    was given."""
    parts = [
        _with_storable_text(_as_it_runs(_with_storable_text(part), tools, offered, root))
        if isinstance(part, ToolCall)
        else part
        for part in reply.parts
    ]
    return replace(reply, parts=tuple(parts)) if any(map(_is_other, parts, reply.parts)) else reply


def is_offered(name: str, arguments: Arguments, tools: Mapping[str, Tool], offered: Collection[str]) -> bool:
    """Whether a name is, or means, a tool that was offered or is deferred."""
    try:
        if name not in tools and "bash" in offered and _command_for(name, arguments) is not None:
            return True
        name = _known_as(ToolCall("", name, arguments), tools, offered)
    except ToolError:
        return False
    return name in offered or isinstance(tools[name], Deferrable)


def parameter_names(tools: Mapping[str, Tool], offered: Collection[str]) -> frozenset[str]:
    """The normalised names of all arguments of the offered tools, and other agents' names for them."""
    from ebbtide.agent.calls.argument_aliases import names_of  # noqa: PLC0415  # deferred: for some models only

    return frozenset(name for each in offered if each in tools for name in names_of(each, tools[each].schema))


def is_exactly(name: str, arguments: Arguments, tools: Mapping[str, Tool], offered: Collection[str]) -> bool:
    """Whether a tool of exactly this name was offered and has all of these arguments, under any of their names."""
    if name not in offered or name not in tools:
        return False
    from ebbtide.agent.calls.argument_aliases import names_of  # noqa: PLC0415  # deferred: for some models only
    from ebbtide.agent.calls.tool_aliases import plain_name  # noqa: PLC0415  # deferred: as above

    return {plain_name(each) for each in arguments} <= set(names_of(name, tools[name].schema))


def _is_whole(value: object) -> bool:
    """Whether all text in a value can be encoded: lone surrogates cannot."""
    match value:
        case str():
            return value.isascii() or is_text(value)
        case Mapping():
            return all(_is_whole(key) and _is_whole(each) for key, each in value.items())
        case list() | tuple():
            return all(map(_is_whole, value))
        case _:
            return True


def _is_other(made: object, before: object) -> bool:
    return made is not before


def _with_storable_text(call: ToolCall) -> ToolCall:
    """The call in a form that can be stored. Calls in text, and JSON in strings, have not been checked yet."""
    if _is_whole(call.name) and _is_whole(call.arguments) and _is_whole(call.source):
        return call
    name = call.name.encode("utf-8", "replace").decode()
    return replace(call, name=name, arguments={}, source="", problem=call.problem or HALF_PAIR)


def _as_it_runs(call: ToolCall, tools: Mapping[str, Tool], offered: Collection[str], root: str) -> ToolCall:
    """The call of our tool that the model means. Arguments that match the schema are unchanged; those of tools that
    are not built in keep their names."""
    if call.problem:
        return call
    inner = unwrapped_call(call)
    if inner is not call:
        return _through(call, inner, tools, offered, root)
    try:
        if call.name not in tools and "bash" in tools and (command := _command_for(call.name, call.arguments)):
            return _as_command(call, command)
        name = call.name if call.name in tools else _known_as(call, tools, offered)
        arguments, note = _arguments_for(tools[name], call, root)
        if name == "bash" and "apply_patch" in tools:
            name, arguments, note = _as_patch(arguments, note)
    except ToolError as error:
        return replace(call, problem=str(error))
    if name == call.name and arguments == call.arguments:
        return call
    source = call.source if call.source.strip() else json.dumps(dict(call.arguments), ensure_ascii=False)
    return replace(
        call, name=name, arguments=arguments, source=source, called=call.name if name != call.name else "", note=note
    )


def _command_for(name: str, arguments: Arguments) -> str | None:
    """The command equivalent to another agent's file tool. Raises `ToolError` if the name is of such a tool but the
    arguments do not match."""
    from ebbtide.agent.calls.file_commands import MAKES, command_for, command_kind  # noqa: PLC0415  # deferred: most names are of tools

    command, what = command_for(name, arguments), command_kind(name)
    if command is None and what == "read":
        raise ToolError("there is no such tool: find the files with `glob`, and call `read` once for each")
    if command is None and (program := MAKES.get(what)) is not None:
        raise ToolError(f"there is no such tool: run `{program}` with `bash`")
    return command


def _as_command(call: ToolCall, command: str) -> ToolCall:
    """The call of a nonexistent tool as an equivalent command."""
    source = call.source if call.source.strip() else json.dumps(dict(call.arguments), ensure_ascii=False)
    note = f"[There is no tool `{ellipsize(call.name, LONGEST_NAME)}`: `bash` has done it, with the command {command}]"
    return replace(call, name="bash", arguments={"command": command}, source=source, called=call.name, note=note)


def _as_patch(arguments: Arguments, note: str) -> tuple[str, Arguments, str]:
    """The command, or the patch that it passes to an `apply_patch` program, which does not exist."""
    if "*** Begin Patch" not in str(arguments.get("command")):
        return "bash", arguments, note
    from ebbtide.agent.calls.shell_patch import RAN_AS_PATCH_NOTE, as_patch  # noqa: PLC0415  # deferred: few commands contain a patch

    patch = as_patch(arguments)
    return ("bash", arguments, note) if patch is None else ("apply_patch", {"patch": patch}, RAN_AS_PATCH_NOTE)


def _known_as(call: ToolCall, tools: Mapping[str, Tool], offered: Collection[str]) -> str:
    from ebbtide.agent.calls.tool_aliases import our_tool  # noqa: PLC0415  # deferred: most calls name a tool of ours

    name = our_tool(call.name, call.arguments, tools)
    if name is None:
        raise ToolError(_no_such_tool(call, tools, offered))
    return name


def _through(
    call: ToolCall, inner: ToolCall, tools: Mapping[str, Tool], offered: Collection[str], root: str
) -> ToolCall:
    """A `call_tool` around the resolved call; a built-in tool is called directly."""
    found = _as_it_runs(inner, tools, offered, root)
    if found.problem:
        return replace(call, problem=found.problem)
    source = call.source if call.source.strip() else json.dumps(dict(call.arguments), ensure_ascii=False)
    if isinstance(tools[found.name], Deferrable):
        arguments = {"name": found.name, "arguments": dict(found.arguments)}
        return call if found is inner else replace(call, arguments=arguments, source=source, note=found.note)
    return replace(found, source=source, called=call.name)


def _arguments_for(tool: Tool, call: ToolCall, root: str) -> tuple[Arguments, str]:
    """The arguments in the tool's form, and a note for the model about those dropped."""
    is_list = tool.name == "bash" and str(call.arguments.get("command")).startswith('["')  # no program has such a name
    has_edits = tool.name == "edit" and "edits" in call.arguments  # their names are in no schema
    is_exact = not (is_list or has_edits or has_float(call.arguments))
    if is_exact and not mismatches(call.arguments, tool.schema):
        return call.arguments, ""
    from ebbtide.agent.calls.argument_aliases import our_arguments, split_unknown_arguments  # noqa: PLC0415  # deferred: as below
    from ebbtide.agent.calls.coercion import coerce_arguments, in_bounds  # noqa: PLC0415  # deferred: most match the schema

    if isinstance(tool, Deferrable):
        return coerce_arguments(call.arguments, tool.schema), ""
    properties = tool.schema.get("properties")
    parameters = tuple(properties) if isinstance(properties, Mapping) else ()
    kept, others = split_unknown_arguments(
        our_arguments(tool.name, call.name, call.arguments, parameters, root), parameters
    )
    made, bounded = in_bounds(tool.name, coerce_arguments(kept, tool.schema), tool.schema)
    if not others:
        return made, bounded
    names = ellipsize(", ".join(f"`{name}`" for name in others), LONGEST_NAME)
    has = f"its arguments are {', '.join(f'`{name}`' for name in parameters)}"
    left = f"[Left out, since `{tool.name}` has no such argument: {names}; {has}.]"
    return made, "\n".join(filter(None, (left, bounded)))


def unwrap_call_tool(call: ToolCall, tools: Mapping[str, Tool]) -> ToolCall:
    """The call inside a `call_tool`. A built-in tool is called only by its own name, so that everything that
    examines calls finds it there."""
    inner = unwrapped_call(call)
    is_builtin = inner.name in tools and not isinstance(tools[inner.name], Deferrable)
    return call if is_builtin else inner


def tool_for(call: ToolCall, tools: Mapping[str, Tool]) -> Tool:
    """The tool of a call, after checking its arguments. Raises `ToolError`."""
    if call.problem:
        raise ToolError(f"the call was not run: {call.problem}")
    tool = tools.get(call.name)
    if tool is None:
        raise ToolError(_no_such_tool(call, tools, tools))
    try:
        check(call.arguments, tool.schema, tool.name)
    except ToolError as error:
        # The model may never have seen the schema of a deferred tool.
        schema = f". Its schema is {schema_text(tool)}" if isinstance(tool, Deferrable) else ""
        raise ToolError(f"{error}{schema}") from error
    return tool


def _no_such_tool(call: ToolCall, tools: Mapping[str, Tool], offered: Collection[str]) -> str:
    """The error for an unknown tool: it suggests similar names that were offered or are deferred and accept these
    arguments, or else tools that accept the arguments."""
    known = [each for each, tool in tools.items() if each in offered or isinstance(tool, Deferrable)]
    name = ellipsize(call.name, LONGEST_NAME)
    fits = {each: fit for each in known if (fit := _fit(call.arguments, tools[each])) is not None}
    close = [
        each
        for each in close_names(call.name[:LONGEST_NAME], known)
        if not call.arguments or each in fits or isinstance(tools[each], Deferrable)
    ]
    says_little = ("read", "edit") if len(call.arguments) == 1 else ("read",)  # both need only a path
    whole = {each: fit for each, fit in fits.items() if fit[0] > 1 or (fit[0] and fit[1] and each not in says_little)}
    meant = [each for each in close if each in whole] or close
    meant = meant or [each for each, fit in whole.items() if fit == max(whole.values())]
    if meant:
        return f"{NO_TOOL.format(name)}; did you mean {' or '.join(f'`{each}`' for each in meant)}?"
    own = [each for each in known if not isinstance(tools[each], Deferrable) and each not in (SEARCH, CALL)]
    can_search = SEARCH in offered and any(isinstance(tool, Deferrable) for tool in tools.values())
    more = f"; `{SEARCH}` finds others" if can_search else ""
    changers = " and ".join(f"`{each}`" for each in ("edit", "write") if each in own)
    changes = f"; {changers} change files" if changers and call.arguments else ""
    runs = f"{',' if changes else ';'} `bash` runs any command" if "bash" in own and call.arguments else ""
    return f"{NO_TOOL.format(name)}; the tools are {', '.join(own)}{changes}{runs}{more}"


def _fit(arguments: Arguments, tool: Tool) -> tuple[int, int] | None:
    """How well a tool fits the arguments under any of their names: how many required ones it has, if all are given,
    and how many have their own name; None if one does not fit."""
    from ebbtide.agent.calls.argument_aliases import our_arguments  # noqa: PLC0415  # deferred: only needed for a wrong name

    properties, required = tool.schema.get("properties"), tool.schema.get("required")
    if isinstance(tool, Deferrable) or not isinstance(properties, Mapping) or not isinstance(required, list | tuple):
        return None
    try:
        made = our_arguments(tool.name, "", arguments, tuple(properties), "")
    except ToolError:
        return None
    if not made or not made.keys() <= set(properties):
        return None
    return len(required) if set(required) <= made.keys() else 0, len(arguments.keys() & set(properties))


def close_names(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names most similar to a wrong one: by their letters, or else by their words."""
    import difflib  # noqa: PLC0415  # deferred: only needed for a wrong name

    known = {each.lower(): each for each in names}
    alike = [known[each] for each in difflib.get_close_matches(name.lower(), known, n=CLOSE, cutoff=0.6)]
    if alike:
        return tuple(alike)
    choices = list(known.values())
    return tuple(
        choices[place] for place in best_matches(name, [dict.fromkeys(words_of(each), 1.0) for each in choices], CLOSE)
    )
