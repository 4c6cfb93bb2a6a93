"""Completions in the prompt: commands, MCP prompts, MCP resources and files."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.agent import prompt as agent_prompt
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tui.slash_commands import SlashCommand, alias_completions, command_completions, commands_containing

if TYPE_CHECKING:  # imported for types only: few sessions have MCP servers
    from ebbtide.agent.extensions.session_extensions import UserInvocable
    from ebbtide.agent.window.session_context import ServerSummary


@dataclass(frozen=True, slots=True)
class PromptCompletion:
    text_before: str
    """The text before the cursor once the completion is accepted."""
    label: str
    description: str
    is_final: bool = True
    """Whether Enter also sends the message. True if the command needs no argument."""
    text_after: str = ""
    """The text after the cursor once the completion is accepted."""
    matched_text: str = ""
    """The part of the label that the user typed."""


MAX_SUGGESTED_RESOURCES = 50
"""Maximum number of resources suggested."""

_MENTION = regex(r'(?<![\w@/.])@("[^"\n]*|[^\s"]*)\Z')


def prompt_completions(
    text: str, servers: "Sequence[ServerSummary]", invocables: "Sequence[UserInvocable]" = ()
) -> tuple[PromptCompletion, ...]:
    """Complete the text before the cursor: commands at its start, resources at its end. `invocables`: custom commands
    and skills."""
    mention = _MENTION.search(text)
    if mention is not None:
        return _resource_completions(text[: mention.start()], mention[1], servers)
    commands = (_built_in_completion(command, text) for command in command_completions(text))
    others = (_built_in_completion(command, text) for command in commands_containing(text))
    aliases = tuple(
        PromptCompletion(f"/{name}", f"/{name}", f"as `/{command.name}`: {command.help}")
        for name, command in alias_completions(text)
    )
    extensions = (*_command_completions(text, invocables), *_mcp_prompt_completions(text, servers))
    return (*commands, *extensions, *aliases, *others)


def _built_in_completion(command: SlashCommand, typed_text: str) -> PromptCompletion:
    return PromptCompletion(
        f"/{command.name} " if command.argument_hint else f"/{command.name}",
        command.usage,
        command.help,
        matched_text=typed_text[1:],
    )


def mentioned_path(text_before: str) -> str | None:
    """Get the path after the `@` at the end of the text; None if the text does not end with a mention."""
    mention = _MENTION.search(text_before)
    return mention[1].removeprefix('"') if mention is not None else None


def file_completions(text_before: str, text_after: str, paths: Sequence[str]) -> tuple[PromptCompletion, ...]:
    """Complete a mentioned path. `text_after`: the text after the cursor."""
    mention = _MENTION.search(text_before)
    text_before_mention = text_before[: mention.start()] if mention is not None else text_before
    return tuple(
        PromptCompletion(
            f"{text_before_mention}{agent_prompt.mentions.path_mention(path)}"
            + ("" if path.endswith("/") or text_after[:1].isspace() else " "),
            path,
            "",
            is_final=False,
            text_after=text_after,
        )
        for path in paths
    )


def _command_completions(text: str, invocables: "Sequence[UserInvocable]") -> tuple[PromptCompletion, ...]:
    if not re.fullmatch(r"/[\w.:-]*", text):
        return ()
    return tuple(
        _command_completion(
            invocable.name,
            invocable.argument_hint,
            f"{' '.join(invocable.description.split())} ({invocable.owner}, {invocable.source})",
        )
        for invocable in invocables
        if invocable.name.lower().startswith(text[1:].lower())
    )


def _mcp_prompt_completions(text: str, servers: "Sequence[ServerSummary]") -> tuple[PromptCompletion, ...]:
    if not re.fullmatch(r"/[\w-]*", text):
        return ()
    return tuple(
        _command_completion(prompt.command, prompt.usage, " ".join(prompt.description.split()))
        for server in servers
        for prompt in server.prompts
        if prompt.command.lower().startswith(text[1:].lower())
    )


def _command_completion(name: str, usage: str, description: str) -> PromptCompletion:
    return PromptCompletion(
        f"/{name} " if usage else f"/{name}", f"/{name} {usage}".rstrip(), description, is_final=not usage
    )


def _resource_completions(
    text_before: str, query: str, servers: "Sequence[ServerSummary]"
) -> tuple[PromptCompletion, ...]:
    resource_names = [f"{server.name}:{uri}" for server in servers for uri in server.resources]
    matches = [name for name in resource_names if query.lower() in name.lower()]
    return tuple(
        PromptCompletion(f"{text_before}@{name} ", f"@{name}", "", is_final=False)
        for name in matches[:MAX_SUGGESTED_RESOURCES]
    )
