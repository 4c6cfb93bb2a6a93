"""What a folder brings, as the terminal shows it: real files, a real session."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ebbtide.tui.commands.extensions import _build_trust_panel, build_skills_panel
from ebbtide.tui.prompt.completion import prompt_completions
from ebbtide.tui.session.completion import COMMAND_NAMES
from ebbtide.tui.slash_commands import custom_command_name
from ebbtide.tui.view.panel import Panel, ShowMessage, row_text
from tests.agent.extensions.test_custom_commands import SKILL, open_session
from tests.kit.extension_project import ExtensionProject


@pytest.mark.parametrize(
    ("text", "name"),
    [("/git:commit now", "git:commit"), ("/deploy\nmore", "deploy"), ("/help", ""), ("/usr/bin", ""), ("see /x", "")],
)
def test_a_name_of_the_program_is_its_own(text: str, name: str) -> None:
    assert custom_command_name(text) == name


@pytest.fixture
async def project(tmp_path: Path) -> AsyncIterator[ExtensionProject]:
    async with ExtensionProject(tmp_path) as opened:
        yield opened


async def test_what_is_approved_is_offered_with_its_source_and_can_be_taken_back(project: ExtensionProject) -> None:
    project.write(".claude/skills/deploy/SKILL.md", SKILL)
    project.write(".claude/commands/help.md", "Not the program's")
    project.write(
        ".claude/commands/dance.md", "---\ndescription: Dances\nargument-hint: <how>\n---\nDance.", of_user=True
    )
    session = await open_session(project, interactive=True)
    trust, extensions = session.trust, session.extensions
    assert trust is not None
    assert extensions is not None

    def offered() -> list[tuple[str, str]]:
        found = prompt_completions("/d", (), extensions.usable_by_user(COMMAND_NAMES))
        return [(each.label, each.description) for each in found if "(" in each.description]

    dance = ("/dance <how>", "Dances (user, claude)")
    assert offered() == [dance]
    panel = _build_trust_panel(trust)
    assert [row_text(row).split(", ")[:2] for row in panel.rows] == [
        ["skill deploy", "not approved"],
        ["command help", "not approved"],
    ]
    approve, refuse, forget = panel.actions
    assert approve.run is not None
    assert refuse.run is not None
    assert forget.run is not None
    outcome = await approve.run(panel.rows[0], "")
    assert isinstance(outcome, Panel)
    assert outcome.message == ShowMessage("skill deploy: approved, takes effect with your next message")
    assert row_text(outcome.rows[0]).split(", ")[1] == "on"
    assert offered() == [dance, ("/deploy", "Deploys the site. (project, claude)")]
    await refuse.run(panel.rows[1], "")
    waits = [trust.has_undecided_items]
    await forget.run(panel.rows[0], "")
    assert [*waits, trust.has_undecided_items] == [False, True]
    assert [row_text(row).split(", ", 1) for row in build_skills_panel(extensions).rows] == [
        ["/deploy", "project, claude, not approved"]
    ]
