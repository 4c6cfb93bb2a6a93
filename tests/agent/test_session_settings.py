"""What a configuration makes of the parts of a session."""

from pathlib import Path

from agent.config.load import load_config
from agent.context.settings import Caps, CompactionSettings
from agent.context.summary import Wishes
from agent.session_settings import compacting_of

ALL = (
    'agent.summary_prompt="what was done"',
    'agent.summary_directives=["name the tests"]',
    'agent.retain_prompt="ids"',
    'agent.retain_directives=["and paths"]',
    "agent.retain_last_turns=3",
    "agent.keep_last_n=10",
    "agent.protect_tokens=500",
)


def test_every_setting_of_a_compaction_reaches_it(tmp_path: Path) -> None:
    config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {}, ALL)
    caps = Caps(8000, 3600, 1200, 1800, protect=500, newest=10, turns=3)
    wishes = Wishes("what was done", ("name the tests",), "ids", ("and paths",))
    assert compacting_of(config, 100_000) == CompactionSettings(caps, wishes)
    assert config.notices == ()


def test_in_a_small_window_less_stays(tmp_path: Path) -> None:
    config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {})
    assert compacting_of(config, 10_000).caps == Caps(2000, 2000, 1000, 1250, 2500)
