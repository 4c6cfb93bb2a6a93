"""Where something can be remembered, and what is."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.config.load import load_config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.input.instruction_files import MAIN_FILE_NAMES
from ebbtide.agent.input.memory import Memory, append_memory, delete_memory, list_memories, list_memory_files


@pytest.mark.parametrize("name", MAIN_FILE_NAMES)
def test_a_projects_file_that_leads_out_of_it_is_not_written_to(tmp_path: Path, name: str) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    (project / ".git").mkdir(parents=True)
    config = load_config(project, {"EBB_HOME": str(tmp_path / "home")}, {})

    def shared() -> list[Path]:
        return [place.path for place in list_memory_files(config) if "everyone" in place.label]

    assert shared() == [project / "AGENT.md"]
    (project / "docs.md").write_text("rules")
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).symlink_to(project / "docs.md")
    assert shared() == [project / name]
    (project / name).unlink()
    outside.write_text("mine")
    (project / name).symlink_to(outside)
    assert shared() == []
    assert len(list_memory_files(config)) == 2


def test_a_link_that_leads_to_what_is_not_there_yet_makes_nothing_outside(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "AGENT.md").symlink_to(tmp_path / "made.sh")
    config = load_config(project, {"EBB_HOME": str(tmp_path / "home")}, {})
    assert all(place.path != project / "AGENT.md" for place in list_memory_files(config))


def test_what_is_kept_is_listed_and_forgotten_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    config = load_config(tmp_path / "project", {"EBB_HOME": str(tmp_path / "home")}, {})
    assert list_memories(config) == ()
    _, own, everywhere = (place.path for place in list_memory_files(config))
    for text, path in (("use tabs", own), ("run `make`", own), ("be brief", everywhere)):
        append_memory(text, path)
    (own.parent / "tests.md").write_text("Run them.\n\nAll of them.\n")
    os.mkfifo(own.parent / "pipe.md")
    notes = list_memories(config)
    assert [(note.text, note.label, note.is_single_line) for note in notes] == [
        ("- use tabs", "this project", True),
        ("- run `make`", "this project", True),
        ("Run them.\n\nAll of them.", "tests", False),
        ("- be brief", "all your projects", True),
    ]
    delete_memory(notes[0])
    assert own.read_text() == "- run `make`\n"
    for gone in (notes[0], replace(notes[2], text="Something else.")):
        with pytest.raises(UsageError, match="has changed since"):
            delete_memory(gone)
    for note in notes[1:]:
        delete_memory(note)
    assert list_memories(config) == ()
    assert not own.exists()


def test_what_is_remembered_while_somebody_else_forgets_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"

    def work(number: int) -> None:
        append_memory(f"line {number}", path)
        if number % 2:
            delete_memory(Memory(path, f"- line {number}", "", is_single_line=True))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(200)))
    assert sorted(path.read_text().splitlines()) == sorted(f"- line {number}" for number in range(0, 200, 2))
