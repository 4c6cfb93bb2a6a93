from pathlib import Path

from ebbtide.tools.search.walk import files_below, nearest_below


def test_what_is_near_comes_first_and_nothing_that_git_ignores(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    for name in ("a/deep/inner.py", "a/one.py", "b/two.py", "b/x.log", "build/made.py", "top.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "a" / "around").symlink_to(tmp_path)
    near = list(nearest_below(str(tmp_path)))
    assert near == [
        ".gitignore", "a/", "b/", "top.txt", "a/deep/", "a/one.py", "b/two.py", "a/deep/inner.py",
    ]  # fmt: skip
    assert sorted(path for path in near if not path.endswith("/")) == sorted(files_below(str(tmp_path)))
