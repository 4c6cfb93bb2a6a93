"""The command line and its subcommands."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tui.cli import arguments as arguments
    from ebbtide.tui.cli import command_tree as command_tree
    from ebbtide.tui.cli import completion as completion
    from ebbtide.tui.cli import headless as headless
    from ebbtide.tui.cli import session_lines as session_lines
    from ebbtide.tui.cli import session_text as session_text
    from ebbtide.tui.cli import start as start
    from ebbtide.tui.cli import subcommands as subcommands
    from ebbtide.tui.cli import worktree as worktree
else:
    __getattr__ = lazy_submodules(__name__)
