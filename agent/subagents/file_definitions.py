"""The agents that users and projects write, among those that come with the program."""

from collections.abc import Sequence

from agent.config.options import Mode
from agent.extensions.agent_files import MOST_DESCRIPTION, AgentFile
from agent.hooks.tool_names import our_names
from agent.subagents.definitions import AgentDefinition, built_in
from tools.outputs.extent import shortened


def with_files(files: Sequence[AgentFile]) -> tuple[AgentDefinition, ...]:
    """The agents that come with the program, and those of users and projects. Only what is the user's own takes the
    place of one that comes with the program."""
    found = {definition.name: definition for definition in built_in()}
    for file in files:
        if file.name not in found or file.item.owner == "user":
            found[file.name] = _of_file(file)
    return tuple(found.values())


def _of_file(file: AgentFile) -> AgentDefinition:
    """What it may use narrows what its session has, and adds nothing to it. A patch
    changes and makes files, so who may not do both has none."""
    tools, without = None if file.tools is None else our_names(file.tools), our_names(file.without)
    if tools is not None:
        tools = (*tools, "read_result", *(("apply_patch",) if {"edit", "write"} <= {*tools} else ()))
    if {"edit", "write"} & {*without}:
        without = (*without, "apply_patch")
    model = None if file.model in ("", "inherit") else file.model
    description = shortened(file.description, MOST_DESCRIPTION)
    mode: Mode = "plan" if file.only_plans else "auto"
    return AgentDefinition(file.name, description, file.prompt, tools, without, model, mode)
