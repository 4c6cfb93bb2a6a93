"""What a folder brings, as the terminal shows it: real files, a real session."""

from pathlib import Path

import pytest

from ebbtide.tui.actions.extensions import _trust_panel
from ebbtide.tui.commands import custom_name
from ebbtide.tui.prompt.completion import candidates
from ebbtide.tui.session.completion import COMMAND_NAMES
from ebbtide.tui.view.extensions import skills_panel
from ebbtide.tui.view.panel import Panel, ShowMessage, row_words
from tests.agent.extensions.bringing import Brought
from tests.agent.extensions.test_custom_commands import SKILL, open_session


@pytest.fixture
def brought(tmp_path: Path) -> Brought:
    return Brought(tmp_path)


@pytest.mark.parametrize(
    ("text", "name"),
    [("/git:commit now", "git:commit"), ("/deploy\nmore", "deploy"), ("/help", ""), ("/usr/bin", ""), ("see /x", "")],
)
def test_a_name_of_the_program_is_its_own(text: str, name: str) -> None:
    assert custom_name(text) == name


async def test_what_is_approved_is_offered_with_its_source_and_can_be_taken_back(brought: Brought) -> None:
    brought.write(".claude/skills/deploy/SKILL.md", SKILL)
    brought.write(".claude/commands/help.md", "Not the program's")
    brought.write(
        ".claude/commands/dance.md", "---\ndescription: Dances\nargument-hint: <how>\n---\nDance.", of_user=True
    )
    sessions, session = await open_session(brought, interactive=True)
    trust, extensions = session.trust, session.extensions
    assert trust is not None
    assert extensions is not None

    def offered() -> list[tuple[str, str]]:
        found = candidates("/d", (), extensions.usable(COMMAND_NAMES))
        return [(each.label, each.help) for each in found if "(" in each.help]

    dance = ("/dance <how>", "Dances (user, claude)")
    assert offered() == [dance]
    panel = _trust_panel(trust)
    assert [row_words(row).split("  ")[:2] for row in panel.rows] == [
        ["skill deploy", "not approved"],
        ["command help", "not approved"],
    ]
    approve, refuse, forget = panel.actions
    assert approve.do is not None
    assert refuse.do is not None
    assert forget.do is not None
    outcome = await approve.do(panel.rows[0], "")
    assert isinstance(outcome, Panel)
    assert outcome.message == ShowMessage("skill deploy: approved, from your next message on")
    assert row_words(outcome.rows[0]).split("  ")[1] == "on"
    assert offered() == [dance, ("/deploy", "Deploys the site. (project, claude)")]
    await refuse.do(panel.rows[1], "")
    waits = [trust.awaits]
    await forget.do(panel.rows[0], "")
    assert [*waits, trust.awaits] == [False, True]
    assert [row_words(row).split("  ") for row in skills_panel(extensions).rows] == [
        ["/deploy", "project, claude", "not approved"]
    ]
    await sessions.close()
