"""Tool calls: policy, approval, execution, and how their outputs are shown."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.calls import coercion as coercion
    from ebbtide.agent.calls import command_rules as command_rules
    from ebbtide.agent.calls import file_commands as file_commands
    from ebbtide.agent.calls import network_access as network_access
    from ebbtide.agent.calls import rule_suggestions as rule_suggestions
    from ebbtide.agent.calls import shell_patch as shell_patch
    from ebbtide.agent.calls import skill_bounds as skill_bounds
    from ebbtide.agent.calls import tool_aliases as tool_aliases
else:
    __getattr__ = lazy_submodules(__name__)
