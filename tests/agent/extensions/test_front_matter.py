import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.extensions.extension_files import UnusableFileError, hash_folder, list_files_below, read_text_file
from ebbtide.agent.extensions.front_matter import (
    FrontMatterError,
    boolean_value,
    list_value,
    one_line_value,
    positive_integer,
    split_front_matter,
)


@pytest.mark.parametrize(
    ("text", "head", "body"),
    [
        ("just text\n---\n", {}, "just text\n---\n"),
        ("---\n---\nbody", {}, "body"),
        ("\ufeff---\r\nname: x\r\n---\r\n\r\nbody\r\n", {"name": "x"}, "body\n"),
        ("---\nname: x\ntools:\n  - Read\n  - Bash(ls:*)\n---\n", {"name": "x", "tools": ["Read", "Bash(ls:*)"]}, ""),
        ("---\ndescription: >\n  two\n  lines\n---\nb", {"description": "two lines\n"}, "b"),
        ("---\ndescription: Use this: <example>a\\nuser: \"hi\"</example>\nmodel: inherit\n---\nb",
         {"description": 'Use this: <example>a\\nuser: "hi"</example>', "model": "inherit"}, "b"),
        ("---\nname: x\ndescription: Use it: <example>\n\nuser: \"Hi: there\"\n  assistant: I go\n</example>\n\n"
         "model: opus\ntools: [\"Read\"]\n---\nb",
         {"name": "x", "model": "opus", "tools": ["Read"],
          "description": 'Use it: <example>\n\nuser: "Hi: there"\n  assistant: I go\n</example>'}, "b"),
        ("---\nname: 007\na: yes\nb: 1.10\nc: 12:30\nd: 2026-01-02\ne: 0x1f\nf: [no, 1e3]\ng:\nh: ~\non: =\n---\n",
         {"name": "007", "a": "yes", "b": "1.10", "c": "12:30", "d": "2026-01-02", "e": "0x1f", "f": ["no", "1e3"],
          "g": None, "h": None, "on": "="}, ""),
        ("---\nargument-hint: [number] [priority]\n---\nb", {"argument-hint": "[number] [priority]"}, "b"),
    ],
)  # fmt: skip
def test_a_head_is_read_as_it_is_meant(text: str, head: dict[str, object], body: str) -> None:
    assert split_front_matter(text) == (head, body)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("---\nname: x\n", "line 1: the front matter is not closed with `---`"),
        ("---\n- a\n- b\n---\n", "line 2: the front matter is not a list of `key: value`"),
        ("---\nname: x\nlist: [a\n  - {\n---\n", "line 4: "),
        ("---\ndescription: Use: it\ntools:\n  - [a: {\n---\n", "line 2: "),
        ("---\na: &a\n  - 1\nb:\n  - *a\n---\n", "line 5: an alias"),
        ("---\n!!python/object:os.system {}\n---\n", "line 2: could not determine a constructor"),
        (f"---\na: {'[' * 5_000}\n---\n", ""),
        (f"---\na: {'x' * 70_000}\n---\n", "the front matter is longer than 65,536 characters"),
    ],
)
def test_a_head_that_cannot_be_read_says_what_is_wrong_and_where(text: str, why: str) -> None:
    with pytest.raises(FrontMatterError) as raised:
        split_front_matter(text)
    assert str(raised.value).startswith(why)
    assert "\n" not in str(raised.value)


@given(st.text())
def test_whatever_stands_between_the_lines_is_a_head_or_broken(text: str) -> None:
    try:
        head, _ = split_front_matter(f"---\n{text}\n---\n")
    except FrontMatterError as error:
        head = {str(error): None}
    assert all(isinstance(key, str) for key in head)


def test_lists_are_written_in_many_ways() -> None:
    head = {"a": "Read, Bash(git add:*), Edit", "b": "Read Bash(npm run test:*) Grep", "c": ["Read", 3], "d": ["x"]}
    assert list_value(head, "a") == ("Read", "Bash(git add:*)", "Edit")
    assert list_value(head, "b") == ("Read", "Bash(npm run test:*)", "Grep")
    assert list_value(head, "c") == ("Read", "3")
    assert list_value(head, "none") is None
    assert (one_line_value(head, "d"), one_line_value(head, "a"), one_line_value(head, "none")) == (
        "[x]",
        head["a"],
        "",
    )


def test_only_what_lies_within_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "skill"
    folder.mkdir()
    (tmp_path / "secret").write_text("s")
    (folder / "out.md").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "pipe.md")
    (folder / "data.md").write_bytes(b"a\0b")
    (folder / "long.md").write_text("x" * 1_000_001)
    problems = []
    for name in ("out.md", "pipe.md", "data.md", "long.md", "none.md"):
        with pytest.raises(UnusableFileError) as raised:
            read_text_file(folder / name, folder)
        problems.append(str(raised.value))
    assert problems == [
        f"it leads out of `{folder}`",
        "it cannot be read: it is not a regular file",
        "it is not text",
        "it is longer than 1,000,000 bytes",
        "it does not exist",
    ]
    assert read_text_file(folder / "out.md", None) == "s"
    assert [path.name for path in list_files_below(folder, folder)] == ["data.md", "long.md", "out.md", "pipe.md"]
    with pytest.raises(UnusableFileError, match=r"its file `out.md` leads out of"):
        hash_folder(folder, folder)


def test_a_digest_is_of_every_name_mode_and_byte(tmp_path: Path) -> None:
    folder = tmp_path / "skill"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("a")
    script = folder / "scripts/run.sh"
    script.write_text("echo")
    seen = [hash_folder(folder, folder)[0]]
    assert hash_folder(folder, folder) == (seen[0], ("SKILL.md", "scripts/run.sh"))
    for change in (
        lambda: script.write_text("echo 2"),
        lambda: script.chmod(0o755),
        lambda: (folder / ".hidden").write_text(""),
        lambda: script.rename(folder / "scripts/other.sh"),
    ):
        change()
        seen.append(hash_folder(folder, folder)[0])
    assert len(set(seen)) == len(seen)


def test_flags_and_numbers_are_read_of_what_is_written() -> None:
    head = {"a": "true", "b": "Off", "c": "maybe", "d": None, "n": "12", "m": "0", "o": "-3", "p": "²", "q": True}
    assert [boolean_value(head, key) for key in ("a", "b", "c", "d", "none", "q")] == [
        True,
        False,
        None,
        None,
        None,
        True,
    ]
    assert [positive_integer(head, key) for key in ("n", "m", "o", "p", "q", "none")] == [
        12,
        None,
        None,
        None,
        None,
        None,
    ]
