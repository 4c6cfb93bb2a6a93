"""What holds commands, as lines: what is written there follows from what holds them."""

from ebbtide.tools.sandbox.boundary import Boundary
from ebbtide.tui.view.sandbox import sandbox_panel


def test_what_commands_may_write_reach_and_do_not_see_is_told() -> None:
    places = {
        "/home/me/project": "write",
        "/home/me/project/.git/config": "read",
        "/home/me/.ssh": "hidden folder",
        "/": "read",
    }
    limits = Boundary(places, "/x", "proxy")  # type: ignore[arg-type]  # mypy takes the words for any others
    panel = sandbox_panel("bubblewrap", "", limits, "/home/me")
    assert panel.plain_head.splitlines() == [
        "commands of the model run in bubblewrap",
        "network: closed, but for domains that a rule opens, such as `network(example.org)`",
        "may be written: one file or folder",
        "  ~/project",
        "can only be read in there: one file or folder",
        "  ~/project/.git/config",
        "is not seen: one file or folder",
        "  ~/.ssh",
        "/tmp is a folder of the session's own",
        "everything else can be read, as far as you can read it",
        "`/add-dir` takes a further folder in; `agent.sandbox` and `permissions.sandboxed` are settings",
    ]


def test_that_nothing_holds_commands_is_told_with_the_reason() -> None:
    panel = sandbox_panel("none", "bubblewrap is not installed", None, "/home/me")
    assert (
        panel.plain_head
        == "there is no sandbox: the questions that you are asked are all the protection\nbubblewrap is not installed"
    )
