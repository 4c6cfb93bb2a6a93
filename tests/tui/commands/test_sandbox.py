"""What holds commands, as lines: what is written there follows from what holds them."""

from ebbtide.tools.sandbox.boundary import Boundary
from ebbtide.tui.commands.folders import build_sandbox_panel
from ebbtide.tui.view.plain_lines import plain_lines


def test_what_commands_may_write_reach_and_do_not_see_is_told() -> None:
    places = {
        "/home/me/project": "write",
        "/home/me/project/.git/config": "read",
        "/home/me/.ssh": "hidden folder",
        "/": "read",
    }
    limits = Boundary(places, "/x", "proxy")  # type: ignore[arg-type]  # mypy takes the words for any others
    panel = build_sandbox_panel("bubblewrap", "", limits, "/home/me")
    assert plain_lines((*panel.headline, *panel.empty_details)) == (
        "Sandbox  commands sandboxed (bubblewrap)",
        "network: blocked, except domains allowed by a rule, e.g. `network(example.org)`",
        "writable: one file or folder",
        "  ~/project",
        "read-only inside it: one file or folder",
        "  ~/project/.git/config",
        "hidden: one file or folder",
        "  ~/.ssh",
        "/tmp is private to this session",
        "everything else is readable if you can read it",
        "`/add-dir` adds a folder; settings: `agent.sandbox`, `permissions.sandboxed`",
    )


def test_that_nothing_holds_commands_is_told_with_the_reason() -> None:
    panel = build_sandbox_panel("none", "bubblewrap is not installed", None, "/home/me")
    told = ("Sandbox  no sandbox: permission questions are the only protection", "bubblewrap is not installed")
    assert plain_lines((*panel.headline, *panel.empty_details)) == told
