"""The built-in tools. To add a tool, write its file and description, and add a line here."""

from collections.abc import Mapping
from typing import cast

from ebbtide.tools.apply_patch import ApplyPatch
from ebbtide.tools.ask_user import AskUser
from ebbtide.tools.base import ArgumentlessTool, BuiltinTool, RareTool, Tool, ToolSupport
from ebbtide.tools.bash import Bash
from ebbtide.tools.bash_kill import BashKill
from ebbtide.tools.bash_output import BashOutput
from ebbtide.tools.call_tool import CallTool
from ebbtide.tools.compact_context import CompactContext
from ebbtide.tools.edit import Edit
from ebbtide.tools.edit_notebook import EditNotebook
from ebbtide.tools.final_report import FinalReport
from ebbtide.tools.glob import Glob
from ebbtide.tools.grep import Grep
from ebbtide.tools.integration_registry import RARE_TOOL_LOCATIONS, load_integration
from ebbtide.tools.memory import Memory
from ebbtide.tools.read import Read
from ebbtide.tools.read_result import ReadResult
from ebbtide.tools.recall import Recall
from ebbtide.tools.submit_plan import SubmitPlan
from ebbtide.tools.task import Task
from ebbtide.tools.todo import Todo
from ebbtide.tools.tool_output_cache import ToolOutputCache, ToolOutputCacheGrep
from ebbtide.tools.tool_search import ToolSearch
from ebbtide.tools.tool_traits import ToolTraits
from ebbtide.tools.web_fetch import WebFetch
from ebbtide.tools.web_search import WebSearch
from ebbtide.tools.write import Write

_STANDARD_TOOLS: tuple[ArgumentlessTool, ...] = (
    Read,
    Write,
    Edit,
    ApplyPatch,
    EditNotebook,
    Bash,
    BashOutput,
    BashKill,
    Glob,
    Grep,
    WebFetch,
    WebSearch,
    ReadResult,
    Recall,
    Todo,
    CompactContext,
    AskUser,
    Task,
    ToolSearch,
    CallTool,
)
"""The tools in the order in which models see them. The last two are shown only while tools are deferred."""
_RARE_TOOLS = tuple(cast(RareTool, load_integration(location)) for location in RARE_TOOL_LOCATIONS)
_CONDITIONAL_TOOLS: tuple[BuiltinTool, ...] = (Memory, SubmitPlan, FinalReport, ToolOutputCache, ToolOutputCacheGrep)
"""Tools that a session adds if its settings, mode or model require them."""

TRAITS_BY_NAME: Mapping[str, ToolTraits] = {
    tool.name: tool.traits for tool in (*_STANDARD_TOOLS, *_RARE_TOOLS, *_CONDITIONAL_TOOLS)
}


def create_builtin_tools() -> tuple[Tool, ...]:
    """Create the tools that every session may offer, in the order in which models see them."""
    return tuple(tool() for tool in _STANDARD_TOOLS)


def create_rare_tools(support: ToolSupport) -> tuple[Tool, ...]:
    """Create the rarely needed tools. They are deferred if that makes requests smaller."""
    return tuple(tool.for_session(support) for tool in _RARE_TOOLS)
