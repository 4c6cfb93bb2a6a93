"""Resolves a model's call: finds the tool it means, by our name, by another agent's name or through `call_tool`, and
converts its arguments."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from operator import is_not
from typing import NamedTuple

from ebbtide.agent import calls
from ebbtide.agent.messages import Assistant, ToolCall
from ebbtide.agent.providers.loose_json import SURROGATE_ERROR, is_encodable
from ebbtide.agent.tool_specs import CALL_TOOL, SEARCH_TOOL, UNKNOWN_TOOL_ERROR, unwrapped_call
from ebbtide.tools import call_arguments
from ebbtide.tools.apply_patch import ApplyPatch
from ebbtide.tools.base import Arguments, Deferrable, Tool, ToolError
from ebbtide.tools.bash import Bash
from ebbtide.tools.call_arguments.schema import has_float, schema_violations, validate_arguments
from ebbtide.tools.edit import Edit
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.read import Read
from ebbtide.tools.search.relevance_ranking import find_best_matches, word_stems
from ebbtide.tools.tool_search import schema_text
from ebbtide.tools.write import Write

MAX_SIMILAR_NAMES = 3
"""Maximum number of similar names suggested for an unknown one."""
MAX_QUOTED_NAME_CHARS = 80
"""Maximum length of an unknown name in messages, in characters."""


def resolve_calls(reply: Assistant, tools: Mapping[str, Tool], offered_names: Collection[str], root: str) -> Assistant:
    """Resolve the calls of a reply. They are run, recorded and shown in their resolved form, but keep the model's
    original text, which is sent back to the model. `tools`: all tools that may be called; `offered_names`: the names of
    the tools that the model was given."""
    parts = [
        _without_lone_surrogates(_resolve_call(_without_lone_surrogates(part), tools, offered_names, root))
        if isinstance(part, ToolCall)
        else part
        for part in reply.parts
    ]
    return replace(reply, parts=tuple(parts)) if any(map(is_not, parts, reply.parts)) else reply


def is_callable_name(
    name: str, arguments: Arguments, tools: Mapping[str, Tool], offered_names: Collection[str]
) -> bool:
    """Whether the name or alias belongs to a tool that was offered or is deferred."""
    try:
        if name not in tools and Bash.name in offered_names and _equivalent_command(name, arguments) is not None:
            return True
        name = _resolve_name(ToolCall("", name, arguments), tools, offered_names)
    except ToolError:
        return False
    return name in offered_names or isinstance(tools[name], Deferrable)


def known_argument_names(tools: Mapping[str, Tool], offered_names: Collection[str]) -> frozenset[str]:
    """Return the normalised names of all arguments of the offered tools, including other agents' names for them."""
    return frozenset(
        name
        for tool_name in offered_names
        if tool_name in tools
        for name in call_arguments.foreign_calls.argument_names(tool_name, tools[tool_name].schema)
    )


def matches_tool_exactly(
    name: str, arguments: Arguments, tools: Mapping[str, Tool], offered_names: Collection[str]
) -> bool:
    """Whether a tool of exactly this name was offered and has all of these arguments, by our names or other
    agents' names."""
    if name not in offered_names or name not in tools:
        return False
    return {call_arguments.foreign_calls.normalise_name(argument_name) for argument_name in arguments} <= set(
        call_arguments.foreign_calls.argument_names(name, tools[name].schema)
    )


def _is_fully_encodable(value: object) -> bool:
    """Whether all text in a value can be encoded, that is, contains no lone surrogates."""
    match value:
        case str():
            return value.isascii() or is_encodable(value)
        case Mapping():
            return all(_is_fully_encodable(key) and _is_fully_encodable(item) for key, item in value.items())
        case list() | tuple():
            return all(map(_is_fully_encodable, value))
        case _:
            return True


def _without_lone_surrogates(call: ToolCall) -> ToolCall:
    """Clear the arguments of a call that contains lone surrogates, so that it can be stored. Lone surrogates occur in
    calls written as text, and in JSON strings."""
    if _is_fully_encodable(call.name) and _is_fully_encodable(call.arguments) and _is_fully_encodable(call.source):
        return call
    name = call.name.encode("utf-8", "replace").decode()
    return replace(call, name=name, arguments={}, source="", problem=call.problem or SURROGATE_ERROR)


def _resolve_call(call: ToolCall, tools: Mapping[str, Tool], offered_names: Collection[str], root: str) -> ToolCall:
    """Return the call with our tool's name and arguments. Arguments that match the schema are unchanged. For tools that
    are not built in, the arguments are not renamed."""
    if call.problem:
        return call
    inner_call = unwrapped_call(call)
    if inner_call is not call:
        return _resolve_wrapped_call(call, inner_call, tools, offered_names, root)
    try:
        if (
            call.name not in tools
            and Bash.name in tools
            and (command := _equivalent_command(call.name, call.arguments))
        ):
            return _as_bash_call(call, command)
        name = call.name if call.name in tools else _resolve_name(call, tools, offered_names)
        arguments, note = _adapt_arguments(tools[name], call, root)
        if name == Bash.name and ApplyPatch.name in tools:
            name, arguments, note = _as_patch_call(arguments, note)
    except ToolError as error:
        return replace(call, problem=str(error))
    if name == call.name and arguments == call.arguments and not has_float(call.arguments):  # 2 == 2.0
        return call
    return replace(
        call,
        name=name,
        arguments=arguments,
        source=call.arguments_text,
        called=call.name if name != call.name else "",
        note=note,
    )


def _equivalent_command(name: str, arguments: Arguments) -> str | None:
    """Return the command equivalent to a call to another agent's file tool; None if no such tool is known. Raises
    `ToolError` if the arguments do not fit the tool."""
    command, kind = calls.file_commands.find_equivalent_command(name, arguments), calls.file_commands.command_kind(name)
    if command is None and kind == "show":
        raise ToolError("there is no such tool: find the files with `glob`, and call `read` once for each")
    if command is None and (program := calls.file_commands.PROGRAMS_BY_KIND.get(kind)) is not None:
        raise ToolError(f"there is no such tool: run `{program}` with `bash`")
    return command


def _as_bash_call(call: ToolCall, command: str) -> ToolCall:
    """Convert a call to a tool that does not exist here into a call to `bash` with `command`."""
    note = (
        f"[There is no tool `{ellipsize(call.name, MAX_QUOTED_NAME_CHARS)}`: `bash` ran this "
        f"command instead: {command}]"
    )
    return replace(
        call, name=Bash.name, arguments={"command": command}, source=call.arguments_text, called=call.name, note=note
    )


def _as_patch_call(arguments: Arguments, note: str) -> tuple[str, Arguments, str]:
    """Convert a shell command that only passes a patch to `apply_patch` into a call to the tool of that name:
    `apply_patch` does not exist as a program. Any other command stays a call to `bash`. Return the tool, arguments and
    note."""
    if "*** Begin Patch" not in str(arguments.get("command")):
        return Bash.name, arguments, note
    patch = calls.shell_patch.patch_in_command(arguments)
    return (
        (Bash.name, arguments, note)
        if patch is None
        else (ApplyPatch.name, {"patch": patch}, calls.shell_patch.RUN_AS_PATCH_NOTE)
    )


def _resolve_name(call: ToolCall, tools: Mapping[str, Tool], offered_names: Collection[str]) -> str:
    name = calls.tool_aliases.resolve_alias(call.name, call.arguments, tools)
    if name is None:
        raise ToolError(_build_unknown_tool_error(call, tools, offered_names))
    return name


def _resolve_wrapped_call(
    call: ToolCall, inner_call: ToolCall, tools: Mapping[str, Tool], offered_names: Collection[str], root: str
) -> ToolCall:
    """Resolve the inner call of a `call_tool`. Return it alone if its tool is built in, otherwise inside the outer
    call."""
    resolved = _resolve_call(inner_call, tools, offered_names, root)
    if resolved.problem:
        return replace(call, problem=resolved.problem)
    if isinstance(tools[resolved.name], Deferrable):
        arguments = {"name": resolved.name, "arguments": dict(resolved.arguments)}
        return (
            call
            if resolved is inner_call
            else replace(call, arguments=arguments, source=call.arguments_text, note=resolved.note)
        )
    return replace(resolved, source=call.arguments_text, called=call.name)


def _adapt_arguments(tool: Tool, call: ToolCall, root: str) -> tuple[Arguments, str]:
    """Convert the arguments to the tool's form. Also return a note for the model about arguments that were dropped or
    clamped."""
    is_json_list = tool.name == Bash.name and str(call.arguments.get("command")).startswith(
        '["'
    )  # a command given as a JSON list: no program's name begins like this
    has_edits = tool.name == Edit.name and "edits" in call.arguments  # not described by the schema
    needs_no_coercion = not (is_json_list or has_edits or has_float(call.arguments))
    if needs_no_coercion and not schema_violations(call.arguments, tool.schema):
        return call.arguments, ""
    if isinstance(tool, Deferrable):
        return calls.coercion.coerce_arguments(call.arguments, tool.schema), ""
    properties = tool.schema.get("properties")
    parameters = tuple(properties) if isinstance(properties, Mapping) else ()
    known_arguments, unknown_names = call_arguments.foreign_calls.split_unknown_arguments(
        call_arguments.foreign_calls.translate_arguments(tool.name, call.name, call.arguments, parameters, root),
        parameters,
    )
    fitted_arguments, clamping_note = calls.coercion.clamp_to_bounds(
        tool.name, calls.coercion.coerce_arguments(known_arguments, tool.schema), tool.schema
    )
    if not unknown_names:
        return fitted_arguments, clamping_note
    names = ellipsize(", ".join(f"`{name}`" for name in unknown_names), MAX_QUOTED_NAME_CHARS)
    parameter_list = f"its arguments are {', '.join(f'`{name}`' for name in parameters)}"
    dropped_note = f"[Ignored, because `{tool.name}` has no such argument: {names}; {parameter_list}.]"
    return fitted_arguments, "\n".join(filter(None, (dropped_note, clamping_note)))


def unwrap_deferred_call(call: ToolCall, tools: Mapping[str, Tool]) -> ToolCall:
    """Unwrap a call to a server's tool that is inside a `call_tool`, so that code that examines calls finds the tool by
    its own name. Other calls are unchanged."""
    inner_call = unwrapped_call(call)
    is_builtin = inner_call.name in tools and not isinstance(tools[inner_call.name], Deferrable)
    return call if is_builtin else inner_call


def require_tool(call: ToolCall, tools: Mapping[str, Tool]) -> Tool:
    """Return the tool of a call, after checking the arguments. Raises `ToolError`."""
    if call.problem:
        raise ToolError(f"the call was not run: {call.problem}")
    tool = tools.get(call.name)
    if tool is None:
        raise ToolError(_build_unknown_tool_error(call, tools, tools))
    try:
        validate_arguments(call.arguments, tool.schema, tool.name)
    except ToolError as error:
        # The model might never have seen the schema of a deferred tool.
        schema = f". Its schema is {schema_text(tool)}" if isinstance(tool, Deferrable) else ""
        raise ToolError(f"{error}{schema}") from error
    return tool


def _build_unknown_tool_error(call: ToolCall, tools: Mapping[str, Tool], offered_names: Collection[str]) -> str:
    """Build the error message for an unknown tool. It suggests offered or deferred tools with similar names that accept
    these arguments. If there are none, it suggests any tools that accept them."""
    callable_names = [
        tool_name for tool_name, tool in tools.items() if tool_name in offered_names or isinstance(tool, Deferrable)
    ]
    name = ellipsize(call.name, MAX_QUOTED_NAME_CHARS)
    fit_by_tool = {
        tool_name: fit
        for tool_name in callable_names
        if (fit := _argument_fit(call.arguments, tools[tool_name])) is not None
    }
    similar_names = [
        tool_name
        for tool_name in find_similar_names(call.name[:MAX_QUOTED_NAME_CHARS], callable_names)
        if not call.arguments or tool_name in fit_by_tool or isinstance(tools[tool_name], Deferrable)
    ]
    path_only_tools = (Read.name, Edit.name) if len(call.arguments) == 1 else (Read.name,)  # a path alone says little
    good_fits = {
        tool_name: fit
        for tool_name, fit in fit_by_tool.items()
        if fit.required_count > 1 or (fit.required_count and fit.exact_name_count and tool_name not in path_only_tools)
    }
    suggestions = [tool_name for tool_name in similar_names if tool_name in good_fits] or similar_names
    suggestions = suggestions or [tool_name for tool_name, fit in good_fits.items() if fit == max(good_fits.values())]
    if suggestions:
        suggestion_text = " or ".join(f"`{tool_name}`" for tool_name in suggestions)
        return f"{UNKNOWN_TOOL_ERROR.format(name)}; did you mean {suggestion_text}?"
    builtin_names = [
        tool_name
        for tool_name in callable_names
        if not isinstance(tools[tool_name], Deferrable) and tool_name not in (SEARCH_TOOL, CALL_TOOL)
    ]
    can_search = SEARCH_TOOL in offered_names and any(isinstance(tool, Deferrable) for tool in tools.values())
    search_hint = f"; `{SEARCH_TOOL}` finds others" if can_search else ""
    editing_tools = " and ".join(
        f"`{tool_name}`" for tool_name in (Edit.name, Write.name) if tool_name in builtin_names
    )
    edit_hint = f"; {editing_tools} change files" if editing_tools and call.arguments else ""
    bash_hint = (
        f"{',' if edit_hint else ';'} `bash` runs any command" if Bash.name in builtin_names and call.arguments else ""
    )
    hints = f"{edit_hint}{bash_hint}{search_hint}"
    return f"{UNKNOWN_TOOL_ERROR.format(name)}; the tools are {', '.join(builtin_names)}{hints}"


class _ArgumentFit(NamedTuple):
    """How well the arguments of a call fit a tool. A better fit compares greater."""

    required_count: int
    """Number of required arguments; 0 if one of them is missing."""
    exact_name_count: int
    """Number of arguments that need not be renamed."""


def _argument_fit(arguments: Arguments, tool: Tool) -> _ArgumentFit | None:
    """Return how well the arguments fit a tool; None if any argument does not fit."""
    properties, required = tool.schema.get("properties"), tool.schema.get("required")
    if isinstance(tool, Deferrable) or not isinstance(properties, Mapping) or not isinstance(required, list | tuple):
        return None
    try:
        our_arguments = call_arguments.foreign_calls.translate_arguments(
            tool.name, "", arguments, tuple(properties), ""
        )
    except ToolError:
        return None
    if not our_arguments or not our_arguments.keys() <= set(properties):
        return None
    has_required = set(required) <= our_arguments.keys()
    return _ArgumentFit(len(required) if has_required else 0, len(arguments.keys() & set(properties)))


def find_similar_names(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Find the names spelt most like `name`. If there are none, find names that share words with it."""
    import difflib  # noqa: PLC0415  # deferred: only needed for a wrong name

    names_by_lower_name = {candidate.lower(): candidate for candidate in names}
    close_matches = difflib.get_close_matches(name.lower(), names_by_lower_name, n=MAX_SIMILAR_NAMES, cutoff=0.6)
    matches = [names_by_lower_name[lower_name] for lower_name in close_matches]
    if matches:
        return tuple(matches)
    choices = list(names_by_lower_name.values())
    choice_words = [dict.fromkeys(word_stems(choice), 1.0) for choice in choices]
    return tuple(choices[index] for index in find_best_matches(name, choice_words, MAX_SIMILAR_NAMES))
