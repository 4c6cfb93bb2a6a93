"""Which kinds of files a folder holds."""

from pathlib import Path

from ebbtide.tools.files.endings import MAX_SCANNED_NAMES, endings_in


def test_files_are_counted_by_their_endings_level_by_level(tmp_path: Path) -> None:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    for name in ("Makefile", "a.py", "src/b.py", "src/deep/c.ipynb"):
        (tmp_path / name).touch()
    for hidden in (".hidden", "node_modules"):
        (tmp_path / hidden).mkdir()
        (tmp_path / hidden / "d.js").touch()
    found = endings_in(tmp_path)
    assert {ending: found[ending] for ending in (".py", ".ipynb", ".js")} == {".py": 2, ".ipynb": 1, ".js": 0}
    assert dict(endings_in(tmp_path / "nowhere")) == {}
    for number in range(MAX_SCANNED_NAMES):
        (tmp_path / f"{number}.txt").touch()
    assert sum(endings_in(tmp_path).values()) <= MAX_SCANNED_NAMES
