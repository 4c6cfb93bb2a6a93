"""Where something can be remembered."""

from pathlib import Path

import pytest

from agent.config.load import load_config
from agent.input.instruction_files import PROJECT_FILES
from agent.input.memory import places


@pytest.mark.parametrize("name", PROJECT_FILES)
def test_a_projects_file_that_leads_out_of_it_is_not_written_to(tmp_path: Path, name: str) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    (project / ".git").mkdir(parents=True)
    config = load_config(project, {"EBB_HOME": str(tmp_path / "home")}, {})

    def shared() -> list[Path]:
        return [place.path for place in places(config) if "everybody" in place.about]

    assert shared() == [project / "AGENT.md"]
    (project / "docs.md").write_text("rules")
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).symlink_to(project / "docs.md")
    assert shared() == [project / name]
    (project / name).unlink()
    outside.write_text("mine")
    (project / name).symlink_to(outside)
    assert shared() == []
    assert len(places(config)) == 2


def test_a_link_that_leads_to_what_is_not_there_yet_makes_nothing_outside(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "AGENT.md").symlink_to(tmp_path / "made.sh")
    config = load_config(project, {"EBB_HOME": str(tmp_path / "home")}, {})
    assert all(place.path != project / "AGENT.md" for place in places(config))
