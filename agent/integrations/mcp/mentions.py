"""Expands references to MCP servers in a user message: prompts invoked as commands, and resources mentioned as
`@SERVER:URI`. They are read at the start of the turn and attached to the message."""

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from ebbtide.agent.errors import UsageError
from ebbtide.agent.extensions.expansion import split_words
from ebbtide.agent.messages import Image, Note, User, UserPart
from ebbtide.agent.prompt.attachments import attachment_labels, file_note
from ebbtide.agent.prompt.mentions import note_with_heading
from ebbtide.tools.base import Attachment, ImageData, ToolError
from ebbtide.tools.integrations.mcp.offers import McpPrompt
from ebbtide.tools.integrations.mcp.server import McpServer
from ebbtide.tools.outputs.extent import pluralize

MAX_RESOURCES = 10
"""Maximum number of resources read per message."""
MAX_RESOURCE_CHARS = 50_000
"""Maximum number of characters attached per resource."""

_MENTION = re.compile(r"(?<![\w@/])@([^\s:@]+):(\S+)")
_COMMAND = re.compile(r"/(mcp__[A-Za-z0-9_-]+)(?:\s+(.*))?", re.DOTALL)
_TRAILING_PUNCTUATION = ".,;:!?)]}>'\"`"
"""Characters after a URI that belong to the surrounding sentence."""


async def expand_mentions(message: User, servers: Sequence[McpServer], notify: Callable[[str], None]) -> User:
    """Add the prompts and resources that the message mentions. An unreadable resource is reported to the model and the
    user. A prompt that fails raises `UsageError`, because the message has no other content to send."""
    parts: list[UserPart] = []
    command = _COMMAND.fullmatch(message.text.strip())
    if command is not None:
        parts += await _expand_prompt_command(command[1], (command[2] or "").strip(), servers)
    resources = mentioned_resources(message.text, servers)
    for server, uri in resources[:MAX_RESOURCES]:
        parts += await _read_resource(server, uri, notify)
    if len(resources) > MAX_RESOURCES:
        excess_count = len(resources) - MAX_RESOURCES
        problem = (
            f"the message mentions {excess_count} resources beyond the limit of {MAX_RESOURCES}; these were not read"
        )
        notify(problem)
        parts.append(Note(problem))
    return User((*message.parts, *parts)) if parts else message


def mentioned_resources(text: str, servers: Sequence[McpServer]) -> tuple[tuple[McpServer, str], ...]:
    """Find the resources mentioned in text, without duplicates. Each comes with its server."""
    servers_by_name = {server.spec.name: server for server in servers}
    server_by_resource = {
        (match[1], uri): servers_by_name[match[1]]
        for match in _MENTION.finditer(text)
        if match[1] in servers_by_name and (uri := match[2].rstrip(_TRAILING_PUNCTUATION))
    }
    return tuple((server, uri) for (_, uri), server in server_by_resource.items())


def parse_prompt_arguments(prompt: McpPrompt, argument_text: str) -> dict[str, str]:
    """Parse the arguments of a prompt, given in order or as `NAME=VALUE`. Extra words are appended to the last
    argument. Raises `UsageError`."""
    names = [argument.name for argument in prompt.arguments]
    values: dict[str, str] = {}
    for word in split_words(argument_text):
        name, separator, value = word.partition("=")
        if separator and name in names and name not in values:
            values[name] = value
            continue
        next_name = next((candidate for candidate in names if candidate not in values), None)
        if next_name is not None:
            values[next_name] = word
        elif names:
            values[names[-1]] += f" {word}"
        else:
            raise UsageError(f"the prompt `{prompt.name}` takes no arguments")
    missing_arguments = [
        argument.name for argument in prompt.arguments if argument.is_required and argument.name not in values
    ]
    if missing_arguments:
        missing_names = ", ".join(f"`{name}`" for name in missing_arguments)
        raise UsageError(f"the prompt `{prompt.name}` needs {missing_names}: its arguments are {prompt.usage}")
    return values


async def _expand_prompt_command(command: str, argument_text: str, servers: Sequence[McpServer]) -> list[UserPart]:
    for server in servers:
        for prompt in server.state.prompts:
            if prompt.command == command:
                return await _fetch_prompt(server, prompt, parse_prompt_arguments(prompt, argument_text))
    raise UsageError(f"no server currently offers the prompt `/{command}`; `/mcp` lists prompts")


async def _fetch_prompt(server: McpServer, prompt: McpPrompt, arguments: Mapping[str, str]) -> list[UserPart]:
    try:
        messages = await server.get_prompt(prompt.name, arguments)
    except ToolError as error:
        raise UsageError(f"the prompt `{prompt.name}` of the server `{server.spec.label}` failed: {error}") from error
    has_several_roles = len({message.role for message in messages}) > 1
    text = "\n\n".join(
        f"[{message.role}]\n{message.text}" if has_several_roles else message.text for message in messages
    )
    if len(text) > MAX_RESOURCE_CHARS:
        excess_chars = len(text) - MAX_RESOURCE_CHARS
        text = f"{text[:MAX_RESOURCE_CHARS]}\n[… {excess_chars:,} more characters, too many for one message …]"
    parts: list[UserPart] = [
        note_with_heading(
            f"The user asks what the prompt `{prompt.name}` of the server `{server.spec.label}` says:\n\n", text
        )
    ]
    for message in messages:
        parts += _attachment_parts(message.images, message.files)
    return parts


async def _read_resource(server: McpServer, uri: str, notify: Callable[[str], None]) -> list[UserPart]:
    name = f"@{server.spec.name}:{uri}"
    try:
        resource = await server.read_resource(uri)
    except ToolError as error:
        problem = f"`{name}` could not be read: {error}"
        notify(problem)
        return [Note(problem)]
    text = resource.text
    if len(text) > MAX_RESOURCE_CHARS:
        tool = f"mcp__{server.spec.prefix}__read_resource"
        excess_chars = len(text) - MAX_RESOURCE_CHARS
        text = f"{text[:MAX_RESOURCE_CHARS]}\n[… {excess_chars:,} more characters: `{tool}` returns all of it …]"
    note = file_note(name, text)
    notify(f"attached {', '.join(attachment_labels([note]))}")
    return [note, *_attachment_parts(resource.images, resource.files)]


def _attachment_parts(images: Sequence[ImageData], files: Sequence[Attachment]) -> Iterator[UserPart]:
    for image in images:
        yield Image(image.media_type, base64.b64encode(image.data).decode("ascii"))
    for file in files:
        yield Note(
            f"[A file is attached that cannot be shown: {file.name}, {file.media_type}, "
            f"{pluralize(len(file.data), 'byte')}]"
        )
