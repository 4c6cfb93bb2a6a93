"""Extensions of users and projects (skills, commands, agents, hooks and plugins): finding, reading and approving
them."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.extensions import extension_files as extension_files
    from ebbtide.agent.extensions import extension_folders as extension_folders
    from ebbtide.agent.extensions import plugins as plugins
    from ebbtide.agent.extensions import session_extensions as session_extensions
    from ebbtide.agent.extensions import session_trust as session_trust
    from ebbtide.agent.extensions import skills as skills
else:
    __getattr__ = lazy_submodules(__name__)
