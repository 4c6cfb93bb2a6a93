"""What the rest of the program knows about a tool: how its output is handled and how its calls are displayed.

Each tool defines its traits in its own file, and `traits_of` looks them up by tool name. Tools from MCP servers and
extensions have the default traits.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache
from typing import Literal, TypeAlias

from ebbtide import tools
from ebbtide.tools.lazy import dataclass

ToolRole: TypeAlias = Literal[
    "read_file", "write_file", "edit_file", "edit_cells", "patch_files", "search_files", "run_command", "read_job",
    "stop_job", "recall_output", "fetch_page", "ask_question", "list_todos", "start_agent", "propose_plan",
    "give_report", "request_compaction", "remember", "find_deferred_tools", "call_deferred_tool", "other",
]  # fmt: skip
"""What a call does in a session, for code that treats certain calls specially."""

OutputContent: TypeAlias = Literal["file", "view", "search", "report", "change", "program", "other"]
"""What an output contains: a file read by a tool (`file`), files shown by a command (`view`), search results
(`search`), another agent's report (`report`), confirmation of a change (`change`), a program's output (`program`), or
anything else (`other`). Used to estimate whether the output will be needed again."""

OutputLimit: TypeAlias = Literal["program", "file", "whole"]
"""Which limit applies to an output: the one for programs and servers (`program`), the one for files (`file`), or none
(`whole`)."""

StubResult: TypeAlias = Literal["summary", "viewed", "matches", "exit", "nothing"]
"""What a stub says about the result: size and beginning of the output (`summary`), which part of a file was shown
(`viewed`), the number of matches (`matches`), how the command ended (`exit`), or only whether the call failed
(`nothing`)."""

AcpKind: TypeAlias = Literal["read", "search", "edit", "execute", "fetch", "think", "other"]
"""The kind of call in terms of the Agent Client Protocol."""


SmallWindowPolicy: TypeAlias = Literal["always", "usually", "optional", "capable_models"]
"""In which small context windows a tool is offered: all (`always`), all but tiny ones (`usually`), or none
(`optional`). `capable_models` also excludes medium windows, because models with such windows get the tool's format
wrong."""


@dataclass(frozen=True, slots=True)
class ShortForm:
    """A shorter description of a tool, for small windows. Parameters omitted here are still accepted."""

    description: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """Facts about a project that decide whether a session gets certain tools."""

    count_file_suffixes: Callable[[], Counter[str]]
    """Counts the project's files by suffix."""
    has_language_server: Callable[[], bool]
    """Whether a language server exists for the project's files."""
    can_search_web: bool


def matches_no_call(arguments: Mapping[str, object]) -> bool:
    return False


def accepts_no_alias_call(called_name: str, arguments: Mapping[str, object]) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ToolTraits:
    role: ToolRole = "other"

    output_limit: OutputLimit = "program"
    output_content: OutputContent = "other"
    shows_files: Callable[[Mapping[str, object]], bool] = matches_no_call
    """Whether a call only shows files. If so, its output is treated as file content even if the tool can also do other
    things."""
    stub_template: str = ""
    """Describes a call in the line that replaces its output, such as `Searched '{pattern}' in {folder}`. Placeholders
    are argument names, `{folder}` (`path`, or else the working folder) and `{files}` (the files in a patch). If empty:
    `Called NAME`."""
    stub_result: StubResult = "summary"

    get_subject: Callable[[Mapping[str, object]], str] | None = None
    """Returns the subject of a call for its title, such as `a.py:10-40`. If None, the title shows all arguments."""
    lookup_words: tuple[str, str] | None = None
    """Verb and noun for the line that replaces consecutive lookups, such as `searched` and `pattern`. None if calls to
    the tool are not lookups."""
    rule_noun: str = ""
    """What a permission rule for the tool allows, as a plural noun such as `patches`. The default is "calls to"
    followed by the tool's name."""
    editable_argument: str = ""
    """The argument that the user may edit before approving a call."""
    acp_kind: AcpKind = "other"

    is_useful: Callable[[ProjectFacts], bool] | None = None
    """Whether sessions get the tool. Ignored if the user chooses the tools. If None, all sessions get it."""
    small_window_policy: SmallWindowPolicy = "usually"
    short_form: ShortForm | None = None
    small_model_form: ShortForm | None = None
    """How small models see the tool, whatever their window size. If None, they are not offered the tool: the more tools
    they have, the more often they confuse them."""
    is_for_read_only_agents: bool = False
    """Whether read-only sub-agents get the tool too. In their mode, the tool can only read."""

    free_text_argument: str = ""
    """The argument that receives the text if a model calls the tool with plain text instead of JSON."""

    aliases: str = ""
    """Names of similar tools in other agents, separated by spaces. Case and separators are ignored."""
    accepts_alias_call: Callable[[str, Mapping[str, object]], bool] = accepts_no_alias_call
    """Whether a call with another agent's tool name (normalised by `normalise_name`) means this tool. Used for names
    whose meaning depends on the arguments. Raises `ToolError` if no tool here is equivalent."""
    argument_aliases: Mapping[str, str] = field(default_factory=dict)
    """For each argument, the names that other agents use for it, separated by spaces."""
    adapt_arguments: Callable[[dict[str, object], str, str], None] | None = None
    """Converts, in place, arguments that mean something else in other agents. Takes the arguments, the tool name in the
    call (normalised by `normalise_name`) and the working folder. Raises `ToolError` if this tool has no equivalent."""
    clamped_arguments: tuple[str, ...] = ()
    """Arguments that limit how much is shown or how long a call waits; their values are clamped to the allowed range.
    Other numbers are never clamped, because they may be identifiers."""
    claude_names: tuple[str, ...] = ()
    """The tool's names in Claude Code, the current one first. Hooks written for Claude Code use these names."""
    claude_arguments: Mapping[str, str] = field(default_factory=dict)
    """Claude Code's names for the tool's arguments."""
    convert_to_claude: Callable[[dict[str, object]], None] | None = None
    """Converts arguments in place to Claude Code's format, after they have been renamed."""


DEFAULT_TRAITS = ToolTraits()


def text_argument(arguments: Mapping[str, object], name: str) -> str:
    """Get a string argument; empty if it is missing or not a string."""
    value = arguments.get(name)
    return value if isinstance(value, str) else ""


def number_argument(arguments: Mapping[str, object], name: str) -> int | None:
    value = arguments.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def path_argument(arguments: Mapping[str, object]) -> str:
    return text_argument(arguments, "path") or text_argument(arguments, "file_path")


def command_argument(arguments: Mapping[str, object]) -> str:
    """Get the command line of a call, including a `cd` if it runs in another folder; empty if the call does not run a
    command."""
    command, folder = text_argument(arguments, "command"), text_argument(arguments, "workdir")
    if job := text_argument(arguments, "job"):
        return f"{job} <<< {command}" if command else ""
    return f"cd {shlex.quote(folder)} && {command}" if command and folder not in ("", ".") else command


def job_argument(arguments: Mapping[str, object]) -> str:
    return text_argument(arguments, "job") or text_argument(arguments, "id")


def first_line(text: str) -> str:
    first, *remaining = text.strip().split("\n", 1)
    return f"{first} …" if remaining else first


def traits_of(tool: str) -> ToolTraits:
    """Get a tool's traits, or the defaults if it is not a built-in tool."""
    return builtin_traits().get(tool, DEFAULT_TRAITS)


def role_of(tool: str) -> ToolRole:
    return traits_of(tool).role


@cache
def builtin_traits() -> Mapping[str, ToolTraits]:
    """The traits of all built-in tools by name, in the order in which models see them."""
    return tools.catalog.TRAITS_BY_NAME
