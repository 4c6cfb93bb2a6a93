import stat
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.extensions.trust import FolderTrust, Item
from agent.extensions.trust_question import folder_question, left_out
from tests.agent.extensions.bringing import Brought

DEPLOY = Item("skill", "deploy", "project", ".claude/skills/deploy", "d1", ("SKILL.md", "run.sh"))


@pytest.fixture
def brought(tmp_path: Path) -> Brought:
    return Brought(tmp_path)


def test_what_a_project_brings_is_off_until_it_is_approved_as_it_is(brought: Brought) -> None:
    trust = FolderTrust(brought.config)
    mine, other = replace(DEPLOY, owner="user"), replace(DEPLOY, name="lint")
    assert [trust.standing(item) for item in (mine, DEPLOY, other)] == ["on", "not approved", "not approved"]
    trust.decide([mine, DEPLOY], "approved")
    trust.decide([other], "refused")
    again = FolderTrust(brought.config)
    changed = replace(DEPLOY, digest="d2")
    assert [again.standing(item) for item in (DEPLOY, changed, other)] == ["on", "changed", "refused"]
    assert again.standing(replace(other, digest="new")) == "not approved"
    before = again.before(changed)
    assert before is not None
    assert before.shown == ("SKILL.md", "run.sh")
    assert again.before(DEPLOY) is None
    again.forget(["skill:deploy", "skill:lint"])
    assert FolderTrust(brought.config).decided == {}


def test_a_run_that_trusts_the_project_has_all_that_is_not_refused_and_keeps_nothing(brought: Brought) -> None:
    FolderTrust(brought.config).decide([DEPLOY], "refused")
    trust = FolderTrust(replace(brought.config, trusts_project=True))
    assert trust.standing(DEPLOY) == "refused"
    assert trust.standing(replace(DEPLOY, name="lint")) == "on"
    assert list(FolderTrust(brought.config).decided) == ["skill:deploy"]


def test_another_project_knows_nothing_of_it_and_only_the_owner_can_read_it(brought: Brought) -> None:
    FolderTrust(brought.config).decide([DEPLOY], "approved")
    elsewhere = replace(brought.config, project=brought.home)
    assert FolderTrust(elsewhere).standing(DEPLOY) == "not approved"
    kept = brought.config.folders.data / "trust.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_what_cannot_be_read_was_not_approved_and_what_is_decided_then_holds_for_the_session(brought: Brought) -> None:
    FolderTrust(brought.config).decide([DEPLOY], "approved")
    kept = brought.config.folders.data / "trust.json"
    kept.chmod(0o666)
    trust = FolderTrust(brought.config)
    assert trust.standing(DEPLOY) == "not approved"
    assert "everybody may change it" in trust.problem
    with pytest.raises(ConfigError):
        trust.decide([DEPLOY], "approved")
    assert trust.standing(DEPLOY) == "on"


def test_hooks_are_named_by_their_file_since_that_is_what_is_approved() -> None:
    hooks = Item("hook", ".claude/settings.json", "project", ".claude/settings.json", "d", ("PreToolUse", "Stop"))
    (first, *_) = folder_question([(DEPLOY, None), (hooks, None)]).splitlines()
    assert first == "This project brings 1 skill and 1 file of hooks that you have not approved so:"
    line, _, _ = left_out([(DEPLOY, "not approved"), (hooks, "not approved")]).partition(",")
    assert line == "the skill `deploy` and the hooks in `.claude/settings.json` of this project are not approved"
