"""The tools that come with the program. A new one is a file, a text and a line here."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tools.apply_patch import ApplyPatch
from tools.ask_user import AskUser
from tools.base import Tool
from tools.bash import Bash
from tools.bash_kill import BashKill
from tools.bash_output import BashOutput
from tools.call_tool import CallTool
from tools.compact_context import CompactContext
from tools.diagnostics import Diagnostics
from tools.edit import Edit
from tools.edit_notebook import EditNotebook
from tools.glob import Glob
from tools.grep import Grep
from tools.read import Read
from tools.read_result import ReadResult
from tools.recall import Recall
from tools.repo_map import RepoMap
from tools.symbols import Symbols
from tools.task import Task
from tools.todo import Todo
from tools.tool_search import ToolSearch
from tools.web_fetch import WebFetch
from tools.web_search import WebSearch
from tools.write import Write

if TYPE_CHECKING:  # types only: few runs ask such a server
    from tools.lsp.pool import LanguageServers


def builtin_tools() -> tuple[Tool, ...]:
    """Every built-in tool, in the order in which models are told of them. Of the last two they are told only while
    tools are held back."""
    return (
        Read(),
        Write(),
        Edit(),
        ApplyPatch(),
        EditNotebook(),
        Bash(),
        BashOutput(),
        BashKill(),
        Glob(),
        Grep(),
        WebFetch(),
        WebSearch(),
        ReadResult(),
        Recall(),
        Todo(),
        CompactContext(),
        AskUser(),
        Task(),
        ToolSearch(),
        CallTool(),
    )


def rare_tools(servers: "Callable[[], LanguageServers] | None" = None, maps: Path | None = None) -> tuple[Tool, ...]:
    """Those that are seldom needed, and held back while that makes requests smaller. `servers`: what some of them
    ask; `maps`: the folder for what a map was made from, None where nothing is kept."""
    return (RepoMap(maps), Diagnostics(servers), Symbols(servers))
