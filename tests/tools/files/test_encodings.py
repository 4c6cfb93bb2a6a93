"""Files that are not in UTF-8: an edit never changes a byte outside its own text, whatever they are taken for."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.tools.apply_patch import ApplyPatch
from ebbtide.tools.base import Tool, ToolError, Workspace
from ebbtide.tools.edit import Edit
from ebbtide.tools.files.text import (
    EncodingError,
    GuessedEncodingError,
    Replacement,
    decode_file,
    find_declared_encoding,
    guess_encoding,
    usable_codec,
)
from ebbtide.tools.read import Read
from ebbtide.tools.write import Write

COMMENTS = [
    ("gbk", "// 返回值"),
    ("gbk", "# 测试"),
    ("big5", "// 傳回檔案名稱"),
    ("cp932", "/* 値を返す */"),
    ("cp932", "// 表示"),
    ("euc_jp", "/* 値を返す */"),
    ("euc_jp", "// 初期化"),
    ("cp949", "// 한글"),
    ("latin-1", "// ação"),
    ("latin-1", "café"),
    ("cp1252", "“quoted” it’s"),
    ("cp1251", "# привет"),
    ("koi8-r", "# коммент"),
    ("cp866", "rem привет"),
    ("cp1253", "// σχόλιο"),
    ("cp1255", "// הערה"),
    ("cp1250", "// współrzędne"),
]
ALPHABETS = {
    "gbk": "返回值测试中文件，。￥",
    "big5": "傳回檔案名稱許功蓋",
    "cp932": "値を返す表示能ソカナー①∪",
    "euc_jp": "値を返す表示カナ",
    "cp949": "한글파일값을똠",
    "latin-1": "açãoéñü£ß",
    "cp1252": "“”’–€éü",
    "cp1251": "приветЯ№",
    "koi8-r": "приветЯ",
    "cp1253": "σχόλιο",
    "cp874": "ภาษาไทย",
    "gb18030": "返回值€\U00020000ą",
}
WORDS = ["x", "return 1", "\\", "|", "a", "~", "@", "name", "\n", "\r\n", "    ", "// ", "{", "}", "0", "9"]


async def seen(workspace: Workspace, raw: bytes, name: str = "f.c") -> Path:
    path = workspace.root / name
    path.write_bytes(raw)
    await Read().run({"path": name}, workspace)
    return path


async def refusal(tool: Tool, workspace: Workspace, **arguments: object) -> str:
    with pytest.raises(ToolError) as caught:
        await tool.run(arguments, workspace)
    return str(caught.value)


@pytest.mark.parametrize(("codec", "comment"), COMMENTS)
async def test_a_short_comment_is_shown_as_it_was_written(codec: str, comment: str, workspace: Workspace) -> None:
    raw = f"int f(void) {{\n    return 1; {comment}\n}}\n".encode(codec)
    (workspace.root / "f.c").write_bytes(raw)
    text = (await Read().run({"path": "f.c"}, workspace)).text
    assert text.split("\n") == [
        "1\tint f(void) {",
        f"2\t    return 1; {comment}",
        "3\t}",
        f"(not in UTF-8; shown as {guess_encoding(raw)}, a guess: give its `encoding` before you add non-ASCII text)",
    ]


@st.composite
def legacy_texts(draw: st.DrawFn) -> tuple[str, str]:
    """A text and the encoding that it is written in."""
    codec = draw(st.sampled_from(sorted(ALPHABETS)))
    legacy = st.text(st.sampled_from(ALPHABETS[codec]), min_size=1, max_size=6)
    return "".join(draw(st.lists(st.sampled_from(WORDS) | legacy, max_size=12))), codec


@given(legacy_texts(), legacy_texts(), st.sampled_from(["", *ALPHABETS]))
def test_an_edit_of_a_part_in_ascii_changes_no_other_byte(
    before: tuple[str, str], after: tuple[str, str], guessed: str
) -> None:
    """Whether its encoding is guessed or named, rightly or wrongly."""
    codec = before[1]
    raw = before[0].encode(codec) + b"TARGET" + after[0].encode(codec, "ignore")
    file = decode_file(raw, usable_codec(guessed))
    start, is_behind_high = file.normalised_text.find("TARGET"), raw[: raw.find(b"TARGET")][-3:].isascii() is False
    if start < 0:
        assert is_behind_high  # its first letter may be a part of a character
        return
    try:
        edited = file.with_changes([Replacement(start, start + 6, "new")]).encode()
    except GuessedEncodingError:
        assert is_behind_high
        return
    assert edited == raw.replace(b"TARGET", b"new")


@given(legacy_texts(), st.data())
def test_an_edit_splits_no_character_of_a_file_whose_encoding_is_guessed(
    made: tuple[str, str], data: st.DataObject
) -> None:
    """In some, a backslash, a bar or a letter is the second half of a character."""
    text, codec = made
    raw = text.encode(codec)
    file = decode_file(raw)
    places = [at for at, character in enumerate(file.normalised_text) if character in "\\|a~@0"]
    if not places or not file.is_guess:
        return
    at = data.draw(st.sampled_from(places))
    try:
        edited = file.with_changes([Replacement(at, at + 1, "!")]).encode()
    except GuessedEncodingError:
        return
    whole = [text[:at] + "!" + text[at + 1 :] for at in range(len(text))]
    assert edited in [each.encode(codec) for each in whole]


@given(legacy_texts(), st.text(min_size=1, max_size=3).filter(lambda text: not text.isascii()))
def test_nothing_outside_ascii_is_added_where_the_encoding_is_a_guess(made: tuple[str, str], added: str) -> None:
    raw = b"TARGET " + made[0].encode(made[1])
    file = decode_file(raw)
    if not file.is_guess or any(character in file.text for character in added):
        return
    with pytest.raises(EncodingError):
        file.with_changes([Replacement(0, 6, added)])
    with pytest.raises(EncodingError):
        file.with_text(added)


async def test_text_outside_ascii_is_added_in_the_encoding_that_is_named(workspace: Workspace) -> None:
    path = await seen(workspace, "a = 1 // 返回值\n".encode("gbk"))
    edit = {"path": "f.c", "old": "a = 1", "new": "a = 2 // 值\nb = 1"}
    patch = "*** Begin Patch\n*** Update File: f.c\n@@\n+// 测\n b = 1 // 返回值\n*** End Patch"
    refused = (
        "`f.c` is not in UTF-8, and gb18030 is only a guess: to add '值', first call `read` with path=\"f.c\" and "
        'encoding="gb18030", or its actual encoding'
    )
    assert await refusal(Edit(), workspace, **edit) == refused
    assert await refusal(Write(), workspace, path="f.c", content="值") == refused
    await Edit().run({**edit, "encoding": "gbk"}, workspace)
    assert path.read_bytes() == "a = 2 // 值\nb = 1 // 返回值\n".encode("gbk")
    await ApplyPatch().run({"patch": patch}, workspace)  # it is remembered
    assert path.read_bytes() == "a = 2 // 值\n// 测\nb = 1 // 返回值\n".encode("gbk")
    converted = await Write().run({"path": "f.c", "content": "测\n", "encoding": "utf-8"}, workspace)
    assert converted.text == "overwrote `f.c`: 1 line; now in utf-8, no longer in gbk"
    assert path.read_bytes() == "测\n".encode()
    await Write().run({"path": "new.c", "content": "ação\n", "encoding": "latin-1"}, workspace)
    assert (workspace.root / "new.c").read_bytes() == b"a\xe7\xe3o\n"


async def test_what_stands_in_the_file_can_be_moved_and_kept(workspace: Workspace) -> None:
    path = await seen(workspace, "a() // 返回值\nb()\n".encode("gbk"))
    await Edit().run({"path": "f.c", "old": "a() // 返回值\nb()", "new": "b()\nc() // 返回值"}, workspace)
    assert path.read_bytes() == "b()\nc() // 返回值\n".encode("gbk")
    await Write().run({"path": "f.c", "content": "// 返回值\nd()\n"}, workspace)
    assert path.read_bytes() == "// 返回值\nd()\n".encode("gbk")


async def test_an_encoding_that_cannot_be_right_is_refused(workspace: Workspace) -> None:
    await seen(workspace, "// 返回值\n".encode("gbk"))
    await seen(workspace, "// 值\n".encode(), "u.c")
    edit = {"path": "f.c", "old": "//", "new": "#"}
    assert [
        await refusal(Edit(), workspace, **edit, encoding="utf-8"),
        await refusal(Edit(), workspace, **edit, encoding="rot13"),
        await refusal(Edit(), workspace, **{**edit, "path": "u.c"}, encoding="gbk"),
        await refusal(Edit(), workspace, **{**edit, "new": "# 日本"}, encoding="cp1251"),
    ] == [
        "`f.c` is not in utf-8: name another `encoding`, or leave it out",
        "`encoding`: 'rot13' cannot be used: give a name such as gbk, cp932 or cp1251",
        "`u.c` is not in gbk but in utf-8: name another `encoding`, or leave it out",
        "`f.c` cannot be changed this way: cp1251 lacks '日本'; use other characters, or convert it with iconv first",
    ]


async def test_a_file_that_declares_its_encoding_is_written_in_it(workspace: Workspace) -> None:
    path = await seen(workspace, b"# -*- coding: latin-1 -*-\nname = 1\n", "a.py")
    await Edit().run({"path": "a.py", "old": "name = 1", "new": "name = 'é'"}, workspace)
    assert path.read_bytes() == b"# -*- coding: latin-1 -*-\nname = '\xe9'\n"


def test_only_what_declares_an_encoding_is_taken_for_it() -> None:
    assert [
        find_declared_encoding(b"#!/usr/bin/python\n# -*- coding: GBK -*-\n"),
        find_declared_encoding(b"/* -*- mode: c; coding: euc-jp -*- */\n"),
        find_declared_encoding(b"// vim: set ts=4 fenc=cp1251 :\n"),
        find_declared_encoding(b'<?xml version="1.0" encoding="ISO-8859-1"?>'),
        find_declared_encoding(b"<html><head><META http-equiv=x content='text/html; charset=Shift_JIS'>"),
        find_declared_encoding(b'@charset "windows-1252";'),
        find_declared_encoding(b'open(path, encoding="latin-1")\n'),
        find_declared_encoding(b"a\nb\n# coding: latin-1\n"),
        find_declared_encoding(b"# coding: rot13\n"),
    ] == ["gbk", "euc_jp", "cp1251", "iso8859_1", "cp932", "cp1252", "", "", ""]


def test_an_encoding_is_usable_where_ascii_is_as_ever() -> None:
    names = "latin1 GBK sjis utf-8 rot13 utf-7 idna iso-2022-jp utf-16 cp037 unicode_escape punycode hz nonsense"
    assert [usable_codec(name) for name in names.split()] == ["iso8859_1", "gbk", "cp932", "utf-8", *[""] * 10]


@given(st.binary(), st.sampled_from(sorted(ALPHABETS)))
def test_any_bytes_come_back_whatever_they_are_taken_for(raw: bytes, codec: str) -> None:
    assert decode_file(raw, usable_codec(codec)).encode() == raw
    assert decode_file(raw, usable_codec(codec)).with_text("a").text == "a"
