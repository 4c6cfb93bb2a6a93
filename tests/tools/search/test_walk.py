from pathlib import Path

from ebbtide.tools.search.walk import walk_files, walk_nearest_first
from tests.kit.files import write_files


def test_what_is_near_comes_first_and_nothing_that_git_ignores(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    write_files(tmp_path, ("a/deep/inner.py", "a/one.py", "b/two.py", "b/x.log", "build/made.py", "top.txt"))
    (tmp_path / "a" / "around").symlink_to(tmp_path)
    near = list(walk_nearest_first(str(tmp_path)))
    assert near == [
        ".gitignore", "a/", "b/", "top.txt", "a/deep/", "a/one.py", "b/two.py", "a/deep/inner.py",
    ]  # fmt: skip
    assert sorted(path for path in near if not path.endswith("/")) == sorted(walk_files(str(tmp_path)))
