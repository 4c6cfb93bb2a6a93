"""Completions of the prompt: commands, MCP prompts and resources, and files. Pure."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tui.commands import completions, other_names

if TYPE_CHECKING:  # a type only: few sessions have servers
    from ebbtide.agent.extensions.session_extensions import UserInvocable
    from ebbtide.agent.mcp.status import ServerStatus


@dataclass(frozen=True, slots=True)
class PromptCompletion:
    insert: str
    """The text of the prompt if accepted."""
    label: str
    help: str
    final: bool = True
    """Whether Enter also sends it: no argument is needed."""
    behind: str = ""
    """The text after the cursor if accepted."""


MAX_RESOURCES = 50
"""Maximum resources offered."""

_MENTION = regex(r'(?<![\w@/.])@("[^"\n]*|[^\s"]*)\Z')


def candidates(
    text: str, servers: "Sequence[ServerStatus]", named: "Sequence[UserInvocable]" = ()
) -> tuple[PromptCompletion, ...]:
    """Completions of a text: commands at its start, resources at its end. `named`: custom commands and skills."""
    mention = _MENTION.search(text)
    if mention is not None:
        return _resources(text[: mention.start()], mention[1], servers)
    commands = tuple(
        PromptCompletion(f"/{command.name} " if command.hint else f"/{command.name}", command.usage, command.help)
        for command in completions(text)
    )
    others = tuple(
        PromptCompletion(f"/{name}", f"/{name}", f"as `/{command.name}`: {command.help}")
        for name, command in other_names(text)
    )
    return (*commands, *_command_completions(text, named), *_prompts(text, servers), *others)


def mention_prefix(before: str) -> str | None:
    """The path after the `@` at the end of the text; None if there is none."""
    mention = _MENTION.search(before)
    return mention[1].removeprefix('"') if mention is not None else None


def with_files(before: str, behind: str, paths: Sequence[str]) -> tuple[PromptCompletion, ...]:
    """Completions of a path. `behind`: the text after the cursor."""
    from ebbtide.agent.context.mentions import written_as  # noqa: PLC0415  # deferred: much is loaded with it

    mention = _MENTION.search(before)
    start = before[: mention.start()] if mention is not None else before
    return tuple(
        PromptCompletion(
            f"{start}{written_as(path)}" + ("" if path.endswith("/") or behind[:1].isspace() else " "),
            path,
            "",
            final=False,
            behind=behind,
        )
        for path in paths
    )


def _command_completions(text: str, named: "Sequence[UserInvocable]") -> tuple[PromptCompletion, ...]:
    if not re.fullmatch(r"/[\w.:-]*", text):
        return ()
    return tuple(
        PromptCompletion(
            f"/{each.name} " if each.hint else f"/{each.name}",
            f"/{each.name} {each.hint}".rstrip(),
            f"{' '.join(each.description.split())} ({each.owner}, {each.source})",
            final=not each.hint,
        )
        for each in named
        if each.name.lower().startswith(text[1:].lower())
    )


def _prompts(text: str, servers: "Sequence[ServerStatus]") -> tuple[PromptCompletion, ...]:
    if not re.fullmatch(r"/[\w-]*", text):
        return ()
    return tuple(
        PromptCompletion(
            f"/{prompt.command} " if prompt.arguments else f"/{prompt.command}",
            f"/{prompt.command} {prompt.usage}".rstrip(),
            " ".join(prompt.description.split()),
            final=not prompt.arguments,
        )
        for server in servers
        for prompt in server.state.prompts
        if prompt.command.lower().startswith(text[1:].lower())
    )


def _resources(before: str, written: str, servers: "Sequence[ServerStatus]") -> tuple[PromptCompletion, ...]:
    named = [f"{server.name}:{each.uri}" for server in servers for each in server.state.resources]
    found = [name for name in named if written.lower() in name.lower()]
    return tuple(PromptCompletion(f"{before}@{name} ", f"@{name}", "", final=False) for name in found[:MAX_RESOURCES])
