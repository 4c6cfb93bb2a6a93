"""Agents defined in files by users and projects."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from ebbtide.agent.calls.tool_aliases import LISTERS, by_their_name, our_tool, plain_name
from ebbtide.agent.config.options import Mode
from ebbtide.agent.extensions.agent_files import MAX_DESCRIPTION_CHARS, AgentFile
from ebbtide.agent.extensions.skills import Skill
from ebbtide.agent.extensions.skills import skills_prompt as listed_skills
from ebbtide.agent.hooks.tool_names import OURS, our_names
from ebbtide.agent.subagents.definitions import AgentDefinition, built_in
from ebbtide.tools.base import ToolError
from ebbtide.tools.outputs.extent import ellipsize, join_limited

_MAX_LISTED_NAMES = 5
_OF_OTHERS = frozenset(
    """
    agent askuserquestion enterplanmode exitplanmode killshell listmcpresourcestool lsp mcpsearch notebookread
    readmcpresourcetool skill slashcommand task taskcreate taskget tasklist taskoutput taskstop taskupdate todoread
    todowrite toolsearch websearch
    """.split()  # noqa: SIM905  # a list of names is a table
)
"""Tools of other programs' sessions, which agents here have in another form or do not need."""


def with_files(files: Sequence[AgentFile], skills: Sequence[Skill] = ()) -> tuple[AgentDefinition, ...]:
    """Return the built-in agents and those of users and projects. Only the user's own files can override a built-in
    agent. `skills`: available skills, some of which agents name."""
    found = {definition.name: definition for definition in built_in()}
    for file in files:
        if file.name not in found or file.item.owner == "user":
            found[file.name] = _of_file(file, skills)
    return tuple(found.values())


def unknown_tools(files: Sequence[AgentFile], known: Collection[str]) -> tuple[str, ...]:
    """Return one line on all tools that agents name and that do not exist here, under any name. `known`: existing
    tools."""
    found: dict[str, list[str]] = {}
    for file in files:
        for name in (*(file.tools or ()), *file.without):
            if _is_unknown(name, known):
                found.setdefault(name, []).append(file.name)
    named = [f"`{name}` ({join_limited(agents, _MAX_LISTED_NAMES)})" for name, agents in found.items()]
    return (f"agents name unknown tools: {join_limited(named, _MAX_LISTED_NAMES)}",) if named else ()


def _is_unknown(name: str, known: Collection[str]) -> bool:
    (ours,) = our_names([name])
    if ours in known or ours in OURS or ours.startswith("mcp__") or "*" in ours or plain_name(ours) in _OF_OTHERS:
        return False
    try:
        return our_tool(ours, {}, known) is None
    except ToolError:  # it is recognised by its other name
        return False


def _of_file(file: AgentFile, skills: Sequence[Skill]) -> AgentDefinition:
    """Its tools restrict those of the parent session and add none. A patch edits and creates files, so an agent without
    both rights does not get it."""
    tools = None if file.tools is None else tuple(dict.fromkeys(map(by_their_name, our_names(file.tools))))
    without = tuple(name if plain_name(name) in LISTERS else by_their_name(name) for name in our_names(file.without))
    if tools is not None:
        tools = (*tools, "read_result", *(("apply_patch",) if {"edit", "write"} <= {*tools} else ()))
    if {"edit", "write"} & {*without}:
        without = (*without, "apply_patch")
    model = None if file.model in ("", "inherit") else file.model
    description = ellipsize(file.description, MAX_DESCRIPTION_CHARS)
    mode: Mode = "plan" if file.only_plans else "auto"
    named = {name.replace(" ", "-").rpartition(":")[2] for name in file.skills}
    known = listed_skills([replace(skill, for_model=True) for skill in skills if skill.name in named])
    prompt = "\n\n".join(filter(None, (file.prompt, known)))
    return AgentDefinition(
        file.name, description, prompt, tools, without, model, mode, max_turns=file.max_turns, plugin=file.plugin
    )
