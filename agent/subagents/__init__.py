"""Sub-agents: their definitions, what they share with the parent session, and the results that they return to it."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.subagents import file_definitions as file_definitions
    from ebbtide.agent.subagents import hook_backends as hook_backends
    from ebbtide.agent.subagents import role as role
    from ebbtide.agent.subagents import session_agents as session_agents
else:
    __getattr__ = lazy_submodules(__name__)
