"""Agents defined in files by users and projects."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from ebbtide.agent.calls.tool_aliases import resolve_alias, tool_for_alias
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.extensions.agent_files import MAX_DESCRIPTION_CHARS, AgentFile
from ebbtide.agent.extensions.skills import Skill, format_skill_list
from ebbtide.agent.hooks.tool_names import has_claude_name, to_our_names
from ebbtide.agent.subagents.definitions import AgentDefinition, built_in_agents
from ebbtide.tools.apply_patch import ApplyPatch
from ebbtide.tools.base import ToolError
from ebbtide.tools.call_arguments.foreign_calls import LISTING_TOOLS, normalise_name
from ebbtide.tools.edit import Edit
from ebbtide.tools.outputs.extent import ellipsize, join_limited
from ebbtide.tools.read_result import ReadResult
from ebbtide.tools.write import Write

_MAX_LISTED_NAMES = 5
_IGNORED_TOOL_NAMES = frozenset(
    """
    agent askuserquestion enterplanmode exitplanmode killshell listmcpresourcestool lsp mcpsearch notebookread
    readmcpresourcetool skill slashcommand task taskcreate taskget tasklist taskoutput taskstop taskupdate todoread
    todowrite toolsearch websearch
    """.split()  # noqa: SIM905  # a list of names is a table
)
"""Tools of other programs that agents do not need here, or that exist here in another form. They are not reported as
unknown."""


def all_definitions(files: Sequence[AgentFile], skills: Sequence[Skill] = ()) -> tuple[AgentDefinition, ...]:
    """Return all agent definitions: the built-in ones and those in files. Only the user's own files can override a
    built-in agent. `skills`: the available skills; an agent file can name some of them."""
    definitions = {definition.name: definition for definition in built_in_agents()}
    for file in files:
        if file.name not in definitions or file.trust_item.owner == "user":
            definitions[file.name] = _read_definition(file, skills)
    return tuple(definitions.values())


def unknown_tools_notice(files: Sequence[AgentFile], known_tools: Collection[str]) -> str:
    """List the unknown tools that agent definitions name, on one line. Empty if there are none. `known_tools`: the
    existing tools."""
    agents_by_tool: dict[str, list[str]] = {}
    for file in files:
        for name in (*(file.allowed_tools or ()), *file.denied_tools):
            if _is_unknown_tool(name, known_tools):
                agents_by_tool.setdefault(name, []).append(file.name)
    unknown_tools = [f"`{name}` ({join_limited(agents, _MAX_LISTED_NAMES)})" for name, agents in agents_by_tool.items()]
    return f"agents name unknown tools: {join_limited(unknown_tools, _MAX_LISTED_NAMES)}" if unknown_tools else ""


def _is_unknown_tool(name: str, known_tools: Collection[str]) -> bool:
    (our_name,) = to_our_names([name])
    if (
        our_name in known_tools
        or has_claude_name(our_name)
        or our_name.startswith("mcp__")
        or "*" in our_name
        or normalise_name(our_name) in _IGNORED_TOOL_NAMES
    ):
        return False
    try:
        return resolve_alias(our_name, {}, known_tools) is None
    except ToolError:  # a tool of another program, without an equivalent here
        return False


def _read_definition(file: AgentFile, skills: Sequence[Skill]) -> AgentDefinition:
    """Convert an agent file to a definition. The agent has at most the tools of its parent session. `apply_patch` can
    edit and create files, so only agents with both `edit` and `write` get it."""
    tools = (
        None
        if file.allowed_tools is None
        else tuple(dict.fromkeys(map(tool_for_alias, to_our_names(file.allowed_tools))))
    )
    denied_tools = tuple(
        name if normalise_name(name) in LISTING_TOOLS else tool_for_alias(name)
        for name in to_our_names(file.denied_tools)
    )
    if tools is not None:
        tools = (*tools, ReadResult.name, *((ApplyPatch.name,) if {Edit.name, Write.name} <= {*tools} else ()))
    if {Edit.name, Write.name} & {*denied_tools}:
        denied_tools = (*denied_tools, ApplyPatch.name)
    model = None if file.model in ("", "inherit") else file.model
    description = ellipsize(file.description, MAX_DESCRIPTION_CHARS)
    mode: PermissionMode = "plan" if file.is_plan_only else "auto"
    skill_names = {name.replace(" ", "-").rpartition(":")[2] for name in file.skills}
    skills_section = format_skill_list(
        [replace(skill, is_listed_for_model=True) for skill in skills if skill.name in skill_names]
    )
    prompt = "\n\n".join(filter(None, (file.prompt, skills_section)))
    return AgentDefinition(
        file.name,
        description,
        prompt,
        tools,
        denied_tools,
        model,
        mode,
        max_requests=file.max_requests,
        plugin_name=file.plugin_name,
    )
