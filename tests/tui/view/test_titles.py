import pytest

from ebbtide.tui.view.call_titles import argument_lines, call_title, with_relative_arguments


@pytest.mark.parametrize(
    ("name", "arguments", "title"),
    [
        ("bash", {"command": "pytest -q"}, "bash  pytest -q"),
        ("bash", {"command": "cd a\nmake"}, "bash  cd a …"),
        ("read", {"path": "a.py"}, "read  a.py"),
        ("read", {"path": "a.py", "offset": 10, "limit": 31}, "read  a.py:10-40"),
        ("read", {"path": "a.py", "offset": 10}, "read  a.py:10-"),
        ("edit", {"path": "a.py", "old_string": "x"}, "edit  a.py"),
        ("grep", {"pattern": "def f", "path": "src"}, "grep  def f  in src"),
        (
            "symbols",
            {"find": "references", "name": "f", "path": "a.py", "line": 3},
            "symbols  references f  in a.py:3",
        ),
        ("symbols", {"find": "in_file", "path": "a.py"}, "symbols  in file  in a.py"),
        ("repo_map", {"focus": ["src", "main"], "tokens": 800}, "repo_map  src, main"),
        ("repo_map", {}, "repo_map"),
        ("read_result", {"ref_id": "r12", "lines": "10-50"}, "read_result  r12  10-50"),
        ("read_result", {"ref_id": "r12"}, "read_result  r12"),
        ("recall", {"ref_id": "r12", "search": "x"}, "recall  r12  x"),
        ("recall", {"query": "the retry limit", "tool": "read"}, "recall  the retry limit"),
        ("recall", {"tool": "read", "since": "1h"}, "recall  tool read, since 1h"),
        ("glob", {"pattern": "**/*.py"}, "glob  **/*.py"),
        (
            "apply_patch",
            {"patch": "*** Begin Patch\n*** Update File: a.py\n@@\n*** Add File: b.py"},
            "apply_patch  a.py, b.py",
        ),
        ("todo", {"items": [1, 2]}, "todo"),
        ("mystery", {"a": 1, "b": "x\ny", "c": [1, {}]}, "mystery  a: 1, b: x …, c: 2 items"),
        ("mystery", {"only": "words"}, "mystery  words"),
        ("mystery", {}, "mystery"),
        ("bash", {"command": 7}, "bash"),
        ("read", {"path": "\x1b[2Ja.py"}, "read  ␛[2Ja.py"),
    ],
)
def test_a_title_names_what_tells_calls_apart(name: str, arguments: dict[str, object], title: str) -> None:
    assert call_title(name, arguments) == title


def test_arguments_are_told_without_brackets() -> None:
    nested = {"name": "x", "notes": "a\nb", "tags": ["p", 2, None], "more": {"on": True, "none": []}}
    assert list(argument_lines(nested)) == [
        "name: x",
        "notes:",
        "  a",
        "  b",
        "tags:",
        "  - p",
        "  - 2",
        "  - none",
        "more:",
        "  on: yes",
        "  none: (empty)",
    ]


@pytest.mark.parametrize(
    ("path", "folder", "title"),
    [
        ("/home/me/shop/src/a.py", "/home/me/shop", "src/a.py"),
        ("/home/me/shop/", "/home/me/shop", "."),
        ("/home/me/shopping/a.py", "/home/me/shop", "/home/me/shopping/a.py"),
        ("/home/me/shop/../../other/a.py", "/home/me/shop", "/home/me/shop/../../other/a.py"),
        ("/etc/passwd", "/", "/etc/passwd"),
        ("/etc/passwd", "", "/etc/passwd"),
        ("src/a.py", "/home/me/shop", "src/a.py"),
    ],
)
def test_a_file_of_the_working_folder_is_called_as_it_is_called_there(path: str, folder: str, title: str) -> None:
    assert with_relative_arguments({"path": path, "old": path}, folder) == {"path": title, "old": path}


def test_a_command_in_the_working_folder_names_no_folder() -> None:
    assert (
        call_title("bash", with_relative_arguments({"command": "ls", "workdir": "/home/me/"}, "/home/me")) == "bash  ls"
    )
    assert (
        call_title("bash", with_relative_arguments({"command": "ls", "workdir": "/home/me/a b"}, "/home/me"))
        == "bash  cd 'a b' && ls"
    )
