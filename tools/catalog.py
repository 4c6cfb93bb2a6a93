"""The built-in tools. To add one, write a file and a description and add a line here."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.tools.apply_patch import ApplyPatch
from ebbtide.tools.ask_user import AskUser
from ebbtide.tools.base import Tool
from ebbtide.tools.bash import Bash
from ebbtide.tools.bash_kill import BashKill
from ebbtide.tools.bash_output import BashOutput
from ebbtide.tools.call_tool import CallTool
from ebbtide.tools.compact_context import CompactContext
from ebbtide.tools.diagnostics import Diagnostics
from ebbtide.tools.edit import Edit
from ebbtide.tools.edit_notebook import EditNotebook
from ebbtide.tools.glob import Glob
from ebbtide.tools.grep import Grep
from ebbtide.tools.read import Read
from ebbtide.tools.read_result import ReadResult
from ebbtide.tools.recall import Recall
from ebbtide.tools.repo_map import RepoMap
from ebbtide.tools.symbols import Symbols
from ebbtide.tools.task import Task
from ebbtide.tools.todo import Todo
from ebbtide.tools.tool_search import ToolSearch
from ebbtide.tools.web_fetch import WebFetch
from ebbtide.tools.web_search import WebSearch
from ebbtide.tools.write import Write

if TYPE_CHECKING:  # types only: few runs ask such a server
    from ebbtide.tools.lsp.pool import LanguageServers


def builtin_tools() -> tuple[Tool, ...]:
    """Return every built-in tool, in the order models see them. The last two are shown only while tools are
    deferred."""
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
    """Return the rarely needed tools, which are deferred if that makes requests smaller.

    `servers` returns the language servers. `maps` is the cache folder of repository maps, or None for no cache.
    """
    return (RepoMap(maps), Diagnostics(servers), Symbols(servers))
