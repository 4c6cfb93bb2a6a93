"""Which kinds of files a folder holds."""

from pathlib import Path

from ebbtide.tools.files.file_suffixes import MAX_SCANNED_NAMES, count_suffixes
from tests.kit.files import write_file, write_files


def test_files_are_counted_by_their_endings_level_by_level(tmp_path: Path) -> None:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    write_files(tmp_path, ("Makefile", "a.py", "src/b.py", "src/deep/c.ipynb"))
    for hidden in (".hidden", "node_modules"):
        write_file(tmp_path / hidden / "d.js")
    found = count_suffixes(tmp_path)
    assert {ending: found[ending] for ending in (".py", ".ipynb", ".js")} == {".py": 2, ".ipynb": 1, ".js": 0}
    assert dict(count_suffixes(tmp_path / "nowhere")) == {}
    for number in range(MAX_SCANNED_NAMES):
        (tmp_path / f"{number}.txt").touch()
    assert sum(count_suffixes(tmp_path).values()) <= MAX_SCANNED_NAMES
