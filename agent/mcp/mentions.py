"""Expands references to MCP servers in a user message: prompts as commands, and resources as `@SERVER:URI`. They are
read at the start of the turn and attached to the message."""

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from ebbtide.agent.context.attachments import attachment_labels, file_note
from ebbtide.agent.context.mentions import note_with_heading
from ebbtide.agent.errors import UsageError
from ebbtide.agent.extensions.expansion import words_of
from ebbtide.agent.messages import Image, Note, User, UserPart
from ebbtide.tools.base import Attachment, Picture, ToolError
from ebbtide.tools.mcp.offers import ServerPrompt
from ebbtide.tools.mcp.server import Server
from ebbtide.tools.outputs.extent import pluralize

MAX_RESOURCES = 10
"""Maximum number of resources read per message."""
MAX_RESOURCE_CHARS = 50_000
"""Maximum number of characters attached per resource."""

_MENTION = re.compile(r"(?<![\w@/])@([^\s:@]+):(\S+)")
_COMMAND = re.compile(r"/(mcp__[A-Za-z0-9_-]+)(?:\s+(.*))?", re.DOTALL)
_ENDS = ".,;:!?)]}>'\"`"
"""Characters after an address that belong to the surrounding sentence."""


async def expand_mentions(said: User, servers: Sequence[Server], tell: Callable[[str], None]) -> User:
    """Return the message with the prompts and resources it mentions. An unreadable resource is reported to the model
    and the user; a failing prompt raises `UsageError`, since nothing would be left to send."""
    parts: list[UserPart] = []
    command = _COMMAND.fullmatch(said.text.strip())
    if command is not None:
        parts += await _named_prompt_parts(command[1], (command[2] or "").strip(), servers)
    named = mentions(said.text, servers)
    for server, uri in named[:MAX_RESOURCES]:
        parts += await _read_resource(server, uri, tell)
    if len(named) > MAX_RESOURCES:
        over = len(named) - MAX_RESOURCES
        problem = f"the message mentions {over} resources beyond the limit of {MAX_RESOURCES}; these were not read"
        tell(problem)
        parts.append(Note(problem))
    return User((*said.parts, *parts)) if parts else said


def mentions(text: str, servers: Sequence[Server]) -> tuple[tuple[Server, str], ...]:
    """Return the resources mentioned in a text, without duplicates, each with its server."""
    by_name = {server.spec.name: server for server in servers}
    found = {
        (match[1], uri): by_name[match[1]]
        for match in _MENTION.finditer(text)
        if match[1] in by_name and (uri := match[2].rstrip(_ENDS))
    }
    return tuple((server, uri) for (_, uri), server in found.items())


def arguments_of(prompt: ServerPrompt, written: str) -> dict[str, str]:
    """Parse the arguments of a prompt, in order or as `NAME=VALUE`. The last one takes the rest. Raises
    `UsageError`."""
    names = [each.name for each in prompt.arguments]
    given: dict[str, str] = {}
    for word in words_of(written):
        name, equals, value = word.partition("=")
        if equals and name in names and name not in given:
            given[name] = value
            continue
        free = next((each for each in names if each not in given), None)
        if free is not None:
            given[free] = word
        elif names:
            given[names[-1]] += f" {word}"
        else:
            raise UsageError(f"the prompt `{prompt.name}` takes no arguments")
    missing = [each.name for each in prompt.arguments if each.required and each.name not in given]
    if missing:
        named = ", ".join(f"`{name}`" for name in missing)
        raise UsageError(f"the prompt `{prompt.name}` needs {named}: its arguments are {prompt.usage}")
    return given


async def _named_prompt_parts(command: str, written: str, servers: Sequence[Server]) -> list[UserPart]:
    for server in servers:
        for prompt in server.state.prompts:
            if prompt.command == command:
                return await _prompt_parts(server, prompt, arguments_of(prompt, written))
    raise UsageError(f"no server currently offers the prompt `/{command}`; `/mcp` lists prompts")


async def _prompt_parts(server: Server, prompt: ServerPrompt, arguments: Mapping[str, str]) -> list[UserPart]:
    try:
        messages = await server.get_prompt(prompt.name, arguments)
    except ToolError as error:
        raise UsageError(f"the prompt `{prompt.name}` of the server `{server.spec.label}` failed: {error}") from error
    named = len({message.role for message in messages}) > 1
    text = "\n\n".join(f"[{message.role}]\n{message.text}" if named else message.text for message in messages)
    if len(text) > MAX_RESOURCE_CHARS:
        over = len(text) - MAX_RESOURCE_CHARS
        text = f"{text[:MAX_RESOURCE_CHARS]}\n[… {over:,} characters more, which are too many for one message …]"
    parts: list[UserPart] = [
        note_with_heading(
            f"The user asks what the prompt `{prompt.name}` of the server `{server.spec.label}` says:\n\n", text
        )
    ]
    for message in messages:
        parts += _attachment_parts(message.pictures, message.files)
    return parts


async def _read_resource(server: Server, uri: str, tell: Callable[[str], None]) -> list[UserPart]:
    name = f"@{server.spec.name}:{uri}"
    try:
        found = await server.read_resource(uri)
    except ToolError as error:
        problem = f"`{name}` could not be read: {error}"
        tell(problem)
        return [Note(problem)]
    text = found.text
    if len(text) > MAX_RESOURCE_CHARS:
        tool = f"mcp__{server.spec.prefix}__read_resource"
        over = len(text) - MAX_RESOURCE_CHARS
        text = f"{text[:MAX_RESOURCE_CHARS]}\n[… {over:,} characters more: `{tool}` brings all of it …]"
    note = file_note(name, text)
    tell(f"attached {', '.join(attachment_labels([note]))}")
    return [note, *_attachment_parts(found.pictures, found.files)]


def _attachment_parts(pictures: Sequence[Picture], files: Sequence[Attachment]) -> Iterator[UserPart]:
    for picture in pictures:
        yield Image(picture.media_type, base64.b64encode(picture.data).decode("ascii"))
    for each in files:
        yield Note(
            f"[with a file that cannot be shown: {each.name}, {each.media_type}, {pluralize(len(each.data), 'byte')}]"
        )
