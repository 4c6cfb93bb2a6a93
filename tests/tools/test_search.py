"""glob and grep, with rg and without: the same results."""

import asyncio
import os
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import ebbtide.tools.grep
import ebbtide.tools.search.files
import ebbtide.tools.search.globs
from ebbtide.tools.base import Tool, ToolError, Workspace
from ebbtide.tools.glob import Glob
from ebbtide.tools.grep import Grep
from ebbtide.tools.outputs.extent import Extent
from ebbtide.tools.search.files import find_ripgrep
from tests.kit.files import write_file, write_files

RG = shutil.which("rg")
SLOW = "(?=a)(a+)+$"
"""Takes for ever on many `a` before something else, and only `re` understands it."""


@pytest.fixture(autouse=True)
def without_rg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")


async def found(tool: Tool, workspace: Workspace, **arguments: object) -> str:
    return (await tool.run(arguments, workspace)).text


def fill(root: Path, files: Mapping[str, str | bytes]) -> None:
    for age, (name, content) in enumerate(files.items()):
        path = write_file(root / name, content if isinstance(content, bytes) else content.encode())
        os.utime(path, (1e9 - age, 1e9 - age))


TREE: dict[str, str | bytes] = {
    "b.py": "import os\nfoo = 1\n\nfoo\n",
    "a.py": "bar\n",
    "src/deep/c.ts": "foo()\n",
    "src/.hidden/d.py": "foo",
    "src/out.log": "foo",
    "src/keep.log": "foo",
    "build/x.py": "foo",
    "bin.py": b"foo\0",
    ".gitignore": "*.log\n/build/\n",
    "src/.gitignore": "!keep.log\n",
    ".git/config": "foo",
}


async def test_files_come_newest_first_without_ignored_ones(workspace: Workspace) -> None:
    fill(workspace.root, TREE)
    (workspace.root / "link").symlink_to(workspace.root / "src")
    assert await found(Glob(), workspace, pattern="*.{py,log}") == "b.py\na.py\nsrc/.hidden/d.py\nsrc/keep.log\nbin.py"
    assert await found(Glob(), workspace, pattern="src/**/*.ts") == "src/deep/c.ts"
    assert await found(Glob(), workspace, pattern="src/*.py") == "no files match"
    assert await found(Glob(), workspace, pattern="build/*") == "build/x.py"


async def test_lines_come_by_path_and_number(workspace: Workspace) -> None:
    fill(workspace.root, TREE)
    assert await found(Grep(), workspace, pattern="^foo", glob="*.{py,ts}") == (
        "b.py\n2:foo = 1\n4:foo\nsrc/.hidden/d.py\n1:foo\nsrc/deep/c.ts\n1:foo()"
    )
    assert await found(Grep(), workspace, pattern="FOO", path="b.py", ignore_case=True, mode="count") == "b.py: 2"
    assert await found(Grep(), workspace, pattern="= 1", path="b.py", context=1) == "b.py\n1-import os\n2:foo = 1\n3-"
    assert await found(Grep(), workspace, pattern="foo", mode="files", limit=1) == (
        "b.py\n(there are more: these are the first 1 of 4; narrow `pattern`, `path` or `glob`)"
    )
    assert await found(Grep(), workspace, pattern="nowhere") == "no lines match"


async def test_long_lists_are_cut_and_say_so(workspace: Workspace) -> None:
    fill(workspace.root, {f"{n:03}.txt": "x\n" * 3 for n in range(150)})
    files = (await found(Glob(), workspace, pattern="*")).split("\n")
    assert (len(files), files[-1]) == (101, "(100 of 150 files, the newest: narrow the pattern to see others)")
    lines = (await found(Grep(), workspace, pattern="x")).split("\n")
    assert sum(line.endswith(":x") for line in lines) == 200
    assert lines[-1].startswith("(there are more: these are the first 200 of 450; narrow")


async def test_a_search_reports_how_much_of_what_there_is_it_shows(workspace: Workspace) -> None:
    fill(workspace.root, {f"{n:03}.txt": "x\n" * 3 for n in range(150)})

    async def extent(tool: Tool, **arguments: object) -> Extent | None:
        return (await tool.run(arguments, workspace)).extent

    assert await extent(Grep(), pattern="x", context=1) == Extent("matches", 200, 450)
    assert await extent(Grep(), pattern="x", mode="count") == Extent("files", 100, 150)
    assert await extent(Grep(), pattern="x", path="001.txt") == Extent("matches", 3, 3)
    assert await extent(Grep(), pattern="y") == Extent("matches", 0, 0)
    assert await extent(Glob(), pattern="*") == Extent("files", 100, 150)
    assert await extent(Glob(), pattern="*", path="nowhere") == Extent("files", 0, 0)


async def test_what_is_too_much_to_be_counted_has_no_total(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(workspace.root, {"a.txt": "x\n" * 3, "b.txt": "x\n" * 3, "c.txt": "x\n" * 3})
    monkeypatch.setattr(ebbtide.tools.grep, "MAX_COUNTED_MATCHES", 1)
    result = await Grep().run({"pattern": "x", "limit": 1}, workspace)
    assert result.extent == Extent("matches", 1, None)
    assert result.text == ("a.txt\n1:x\n(there are more: these are the first 1; narrow `pattern`, `path` or `glob`)")


async def test_the_rest_is_counted_for_a_moment_only(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ebbtide.tools.search.files, "EXTRA_COUNT_S", 0.2)
    fill(workspace.root, {"a": "ab\nab\n", "b": "a" * 60 + "c"})
    result = await Grep().run({"pattern": f"ab|{SLOW}", "limit": 1}, workspace)
    assert result.extent == Extent("matches", 1, None)


@pytest.mark.parametrize("program", ["rg", "ours"])
async def test_a_line_that_is_too_long_to_be_shown_is_found(
    program: str, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program == "rg":
        if RG is None:
            pytest.skip("rg is not installed here")
        monkeypatch.setenv("PATH", os.path.dirname(RG))
    fill(workspace.root, {"a.txt": "one foo\n" + "many foo " * 600_000 + "\nfoo", "b.txt": "bar\n" + "x" * 5_000_000})
    assert await found(Grep(), workspace, pattern="foo") == (
        "a.txt\n1:one foo\n3:foo\n(a line of several megabytes matches here: cut parts out of it in bash)"
    )
    assert await found(Grep(), workspace, pattern="xx", mode="files") == "b.txt"
    assert await found(Grep(), workspace, pattern="xx") == (
        "b.txt\n(a line of several megabytes matches here: cut parts out of it in bash)"
    )
    fill(workspace.root, {"b.txt": b"foo\n" + b"x" * 5_000_000 + b"\nfoo\0", "a.txt": "bar"})
    assert await found(Grep(), workspace, pattern="foo") == "no lines match"


async def test_odd_names_are_shown_on_one_line(workspace: Workspace) -> None:
    fill(workspace.root, {"a\nb": "foo", "-e": "foo"})
    (workspace.root / os.fsdecode(b"\xff")).write_text("foo")
    assert await found(Grep(), workspace, pattern="foo", mode="files") == "-e\na\\nb\n\\xff"


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        (Grep(), {"pattern": "a("}, "the pattern is not a regular expression: missing ), unterminated subpattern"),
        (Grep(), {"pattern": "[[:alpha:]]"}, "the pattern is ambiguous"),
        (
            Grep(),
            {"pattern": "x", "path": "no"},
            "`no` is not a file or folder: give one as `path`, or omit `path`",
        ),
        (Glob(), {"pattern": "*/../x"}, "`..` cannot follow a wildcard"),
        (Glob(), {"pattern": "{a,b}" * 24}, "`{…}` groups give more than 256 alternatives: use a wider pattern"),
    ],
)
async def test_a_pattern_that_cannot_be_used_is_explained(
    tool: Tool, arguments: Mapping[str, object], message: str, workspace: Workspace
) -> None:
    with pytest.raises(ToolError) as caught:
        await tool.run(arguments, workspace)
    assert str(caught.value).startswith(message)


def test_a_pattern_that_leaves_the_folder_shows_where_it_goes(workspace: Workspace) -> None:
    assert [Glob().subjects({"pattern": pattern}, workspace) for pattern in ("/etc/*", "../../**/*.pem", "*")] == [
        ("/etc",),
        (str(workspace.root.parents[1]),),
        (str(workspace.root),),
    ]


async def test_an_expression_that_takes_for_ever_is_ended(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ebbtide.tools.search.files, "SEARCH_TIMEOUT_S", 0.3)
    fill(workspace.root, {"a": "a" * 60 + "b"})
    assert "so lines may be missing" in await found(Grep(), workspace, pattern=SLOW)
    monkeypatch.undo()
    monkeypatch.setenv("PATH", "/nowhere")
    assert await found(Grep(), workspace, pattern="(a+)+$") == "no lines match"


async def test_a_line_on_which_an_expression_explodes_is_left_out_and_told(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ebbtide.tools.search.files, "LINE_TIMEOUT_S", 0.1)
    evil = f"{'a' * 40}b\n"
    fill(workspace.root, {"a": f"caa\n{evil}daa\n", "b": f"{evil}eaa\n"})
    note = "not searched, because the pattern takes too long there: line 2 of `a`{}; avoid nested repetition"
    assert await found(Grep(), workspace, pattern=SLOW) == (
        f"a\n1:caa\n3:daa\nb\n2:eaa\n({note.format(' and 1 other line')})"
    )
    assert await found(Grep(), workspace, pattern=SLOW, path="a", mode="count") == f"a: 2\n({note.format('')})"


async def test_a_search_that_was_ended_tells_how_far_it_came_and_shows_what_it_found(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ebbtide.tools.search.files, "SEARCH_TIMEOUT_S", 3.0)
    lines = "aab\n" * 70_000 + f"aa\n{'a' * 21}b\n" + f"{'a' * 21}b\n" * 100_000
    fill(workspace.root, {"logs/a.log": lines, "z.log": "aa\n"})
    text = await found(Grep(), workspace, pattern=SLOW)
    assert text.startswith("logs/a.log\n70001:aa\n(stopped after 3 s at line 70,0")
    assert text.endswith(" of `logs/a.log`, so lines may be missing from there on: narrow `path` or `glob`)")
    text = await found(Grep(), workspace, pattern=SLOW, path="logs/a.log")
    assert text.endswith("in bash continues)")


@pytest.mark.parametrize("mode", ["content", "files", "count"])
async def test_a_file_with_more_lines_than_are_held_is_handed_over_in_pieces(
    mode: str, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(workspace.root, {"a.txt": "x\n" * 25, "b.txt": "y\n" * 3 + "x\n" * 4, "c.txt": "x\n" * 11})
    whole = await Grep().run({"pattern": "x", "mode": mode, "limit": 30, "context": 1}, workspace)
    for name, limit in (
        ("MAX_BUFFERED_LINES", 1),
        ("MAX_BUFFERED_LINES", 5),
        ("MAX_BUFFERED_LINES", 24),
        ("MAX_BUFFERED_CHARS", 9),
    ):
        monkeypatch.setattr(ebbtide.tools.search.files, name, limit)
        assert await Grep().run({"pattern": "x", "mode": mode, "limit": 30, "context": 1}, workspace) == whole


async def test_what_is_found_in_a_file_is_not_held_without_end(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    query = ebbtide.tools.search.files.LineQuery("x")
    fill(workspace.root, {"a.txt": "x\n" * 20_000})

    def take(lines: Sequence[ebbtide.tools.search.files.FoundLine]) -> ebbtide.tools.search.files.SearchContinuation:
        counts.append(len(lines))
        return "more"

    end = await ebbtide.tools.search.files.search_lines(workspace.root, workspace.root, query, take)
    assert (counts, end) == (
        [ebbtide.tools.search.files.MAX_BUFFERED_LINES] * 4,
        ebbtide.tools.search.files.SearchOutcome("complete"),
    )


async def test_a_cancelled_search_ends(workspace: Workspace) -> None:
    fill(workspace.root, {"a": "a" * 60 + "b"})
    task = asyncio.create_task(found(Grep(), workspace, pattern=SLOW))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_project_cannot_bring_its_own_rg(tmp_path: Path) -> None:
    inside, outside = tmp_path / "project" / "bin", tmp_path / "bin"
    for folder in (inside, outside):
        folder.mkdir(parents=True)
        (folder / "rg").write_text("")
        (folder / "rg").chmod(0o755)
    path = os.pathsep.join([".", "bin", str(inside), str(outside)])
    assert find_ripgrep(path, tmp_path / "project") == str(outside / "rg")


RULES = "*.log build/ /a !keep.log src/*.o **/lib !*.o a/b b/** /src/**/x lib/* !lib/a.py .hid [ab].txt */ !src/ * ?.py"
LINES = ["foo bar", "def x", "Foo", "  föö", "", "end", "a.b{}", "foo\r", "x\t"]
CONTENTS = (b"", b"\n", b"\0foo", b"\ncaf\xe9 foo\n")


def random_tree(root: Path, chance: random.Random) -> list[Path]:
    """A project with nested rules, repositories, binary files and several encodings. Returns its folders."""
    folders = [root]
    for _ in range(20):
        folder = chance.choice(folders) / chance.choice(["a", "b", "src", "build", ".hid", "x y", "ü", "lib"])
        folder.mkdir(exist_ok=True)
        folders.append(folder)
    for number in range(80):
        name = chance.choice(["keep", "x", "ü", f"f{number}"]) + chance.choice([".py", ".txt", ".log", ".o"])
        path = chance.choice(folders) / name
        text = "\n".join(chance.choices(LINES, k=chance.randint(0, 8))).rstrip("\r")
        path.write_bytes(text.encode("utf-16") if chance.random() < 0.1 else text.encode() + chance.choice(CONTENTS))
        os.utime(path, (1e9 + chance.randint(0, 5),) * 2)
    for folder in chance.sample(folders, 6):
        (folder / ".gitignore").write_text("\n".join(chance.sample(RULES.split(), 3)))
    for folder in {root, chance.choice(folders)} if chance.random() < 0.6 else set[Path]():
        write_file(folder / ".git" / "info" / "exclude", chance.choice(RULES.split()))
    return folders


PATTERNS = ["foo", "^foo", "o$", r"\bfoo\b", "(?i)FOO", "[fö]{2}", "^$", "a.b{}", "(?=foo)fo", r"\s$", "."]


@pytest.mark.skipif(RG is None, reason="rg is not installed, and without it there is nothing to compare with")
@pytest.mark.parametrize("seed", range(6))
async def test_rg_finds_the_same_in_the_same_order(
    seed: int, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    folders = random_tree(workspace.root, chance)
    calls: list[tuple[Tool, dict[str, object]]] = []
    for _ in range(3):
        path = str(chance.choice(folders))
        calls.append((Glob(), {"pattern": chance.choice(["*.py", "**/*", "src/*", "{k,x}*"]), "path": path}))
        for mode in ("content", "count", "files"):
            more = {"mode": mode, "context": chance.randint(0, 2), "limit": chance.choice([5, 50])}
            calls.append((Grep(), {"pattern": chance.choice(PATTERNS), "path": path, **more}))
    ours = [await found(tool, workspace, **arguments) for tool, arguments in calls]
    monkeypatch.setenv("PATH", os.path.dirname(str(RG)))
    assert [await found(tool, workspace, **arguments) for tool, arguments in calls] == ours


@pytest.mark.parametrize("name", [".gitignore", "src/.gitignore", ".git/info/exclude", "src/data"])
async def test_a_pipe_in_the_folder_holds_nothing_up(name: str, workspace: Workspace) -> None:
    fill(workspace.root, {"src/a.py": "foo\n", ".git/info/x": ""})
    os.mkfifo(workspace.root / name)
    async with asyncio.timeout(10):
        assert await found(Grep(), workspace, pattern="foo", path="src") == "src/a.py\n1:foo"
        assert "src/a.py" in await found(Glob(), workspace, pattern="**/*.py")


@pytest.fixture(params=["rg", "ours"])
def program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both programs that search."""
    if request.param == "rg":
        if RG is None:
            pytest.skip("rg is not installed here")
        monkeypatch.setenv("PATH", os.path.dirname(RG))


LEGACY: dict[str, str | bytes] = {
    "a.c": 'return "ação"; // foo\n'.encode("latin-1"),
    "b/gbk.c": "int x; // 返回值\nfoo\n".encode("gbk"),
    "b/utf8.c": "// 返回值 foo\n",
    "c.c": "foo /* 表示 */\n".encode("cp932"),
    "d.png": b"\x89PNG\r\n\0foo\n",
    "u16.txt": "返回值 foo\n".encode("utf-16"),
}


@pytest.mark.usefixtures("program")
async def test_in_files_not_in_utf8_it_finds_what_read_shows(workspace: Workspace) -> None:
    fill(workspace.root, LEGACY)
    assert [
        await found(Grep(), workspace, pattern="返回值"),
        await found(Grep(), workspace, pattern="返.值", path="b/gbk.c", context=1),
        await found(Grep(), workspace, pattern='return ".*";'),
        await found(Grep(), workspace, pattern="foo", mode="count"),
        await found(Grep(), workspace, pattern=r"\\"),
        await found(Grep(), workspace, pattern="foo", limit=2),
    ] == [
        "b/gbk.c\n1:int x; // 返回值\nb/utf8.c\n1:// 返回值 foo\nu16.txt\n1:返回值 foo",
        "b/gbk.c\n1:int x; // 返回值\n2-foo",
        'a.c\n1:return "ação"; // foo',
        "a.c: 1\nb/gbk.c: 1\nb/utf8.c: 1\nc.c: 1\nu16.txt: 1",
        "no lines match",
        'a.c\n1:return "ação"; // foo\nb/gbk.c\n2:foo\n'
        "(there are more: these are the first 2 of 5; narrow `pattern`, `path` or `glob`)",
    ]


@pytest.mark.usefixtures("program")
async def test_it_searches_in_the_encoding_that_was_named(workspace: Workspace) -> None:
    fill(workspace.root, {"a.c": "// Ωμέγα\n".encode("cp1253")})
    workspace.seen_files.encodings[workspace.root / "a.c"] = "cp1253"
    assert await found(Grep(), workspace, pattern="Ωμ") == "a.c\n1:// Ωμέγα"
    assert await found(Grep(), workspace, pattern="Ωμ", path="a.c") == "a.c\n1:// Ωμέγα"


CODE = "a == b\nx => y\n-x\nfoo|bar\nfoo\nvector<int>\nend\n"


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("==", "a.c\n1:a == b"),
        ("=>", "a.c\n2:x => y"),
        ("=", "a.c\n1:a == b\n2:x => y"),
        ("-x", "a.c\n3:-x"),
        ("--", "no lines match"),
        (r"foo\|bar", "a.c\n4:foo|bar"),
        (r"vector\<int\>", "a.c\n6:vector<int>"),
        (r"end\|y$", "a.c\n2:x => y\n7:end\n(no line matches the pattern as written; these match `end|y$`)"),
        (r"\<int\>", "a.c\n6:vector<int>"),
        (r"\<end\>", "a.c\n7:end\n(no line matches the pattern as written; these match `\\bend\\b`)"),
        (r"\<en\>", "no lines match"),
        (r"\(en\|fo\)[do]", "a.c\n4:foo|bar\n5:foo\n7:end\n"
         "(no line matches the pattern as written; these match `(en|fo)[do]`)"),
        (r"nowhere(\|end", "a.c\n7:end\n(no line matches the pattern as written; these match `nowhere\\(|end`)"),
    ],
)  # fmt: skip
async def test_a_pattern_means_what_whoever_wrote_it_meant(pattern: str, lines: str, workspace: Workspace) -> None:
    fill(workspace.root, {"a.c": CODE})
    assert await found(Grep(), workspace, pattern=pattern) == lines


@pytest.mark.usefixtures("program")
async def test_what_only_files_have_that_git_ignores_is_counted(workspace: Workspace) -> None:
    fill(
        workspace.root,
        {".gitignore": "out/\n.env\n", "out/a.js": "foo\nfoo\n", "out/b.ts": "foo\n", ".env": "foo=foo\n"},
    )
    (workspace.root / ".git").mkdir()
    assert [
        await found(Grep(), workspace, pattern="foo"),
        await found(Grep(), workspace, pattern="foo", glob="*.ts"),
        await found(Grep(), workspace, pattern="bar"),
        await found(Glob(), workspace, pattern="*.ts"),
        await found(Glob(), workspace, pattern="*.py"),
    ] == [
        "no lines match, but 3 lines in 2 files that git ignores, such as `out/a.js`: give it or its folder as `path`",
        "no lines match, but 1 line in 1 file that git ignores, such as `out/b.ts`: give it or its folder as `path`",
        "no lines match",
        "no files match, but 1 file that git ignores, such as `out/b.ts`: give its folder as `path`",
        "no files match",
    ]


async def test_brackets_in_a_name_are_found_as_they_stand(workspace: Workspace) -> None:
    names = ["app/[id]/page.tsx", "app/i/page.tsx", "app/[[...slug]]/a.ts", "app/(group)/b.ts", "app/[id].ts"]
    fill(workspace.root, dict.fromkeys(names, "foo\n"))
    assert [
        await found(Glob(), workspace, pattern="app/[id]/page.tsx"),
        await found(Glob(), workspace, pattern=r"app/\[id\]/*.tsx"),
        await found(Glob(), workspace, pattern="app/[[...slug]]/*"),
        await found(Glob(), workspace, pattern="app/(group)/*"),
        await found(Glob(), workspace, pattern="[id].ts"),
        await found(Grep(), workspace, pattern="foo", glob="app/[id]/*", mode="files"),
    ] == [
        "app/[id]/page.tsx\napp/i/page.tsx",
        "app/[id]/page.tsx",
        "app/[[...slug]]/a.ts",
        "app/(group)/b.ts",
        "app/[id].ts",
        "app/[id]/page.tsx\napp/i/page.tsx",
    ]


async def test_a_search_follows_no_link_out_of_the_folder(workspace: Workspace) -> None:
    outside = workspace.root.parent / "outside"
    fill(outside, {"a.py": "foo\n"})
    fill(workspace.root, {"src/b.py": "bar\n"})
    (workspace.root / "src" / "folder").symlink_to(outside)
    (workspace.root / "src" / "a.py").symlink_to(outside / "a.py")
    assert await found(Grep(), workspace, pattern="foo") == "no lines match"
    assert await found(Glob(), workspace, pattern="**/*.py") == "src/b.py"


@pytest.mark.parametrize(
    ("arguments", "look"),
    [
        ({"path": "b.py"}, "current"),
        ({"path": "."}, "never"),
        ({"path": "b.py", "mode": "count"}, "never"),
        ({"path": "b.py", "pattern": "nothing"}, "never"),
    ],
)
async def test_lines_of_one_named_file_are_a_look_at_it(
    arguments: dict[str, object], look: str, workspace: Workspace
) -> None:
    fill(workspace.root, TREE)
    path = workspace.root / "b.py"
    await found(Grep(), workspace, **{"pattern": "foo", **arguments})
    assert workspace.seen_files.view_state(path, path.read_bytes()) == look


async def test_a_file_that_changes_while_it_is_searched_was_not_looked_at(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(workspace.root, TREE)
    path = workspace.root / "b.py"
    search = ebbtide.tools.search.files.search_lines

    async def changing(*arguments: Any) -> ebbtide.tools.search.files.SearchOutcome:
        end = await search(*arguments)
        path.write_text("foo = 2\n")
        return end

    monkeypatch.setattr(ebbtide.tools.search.files, "search_lines", changing)
    assert "foo = 1" in await found(Grep(), workspace, pattern="foo", path="b.py")
    assert workspace.seen_files.view_state(path, path.read_bytes()) == "never"


def test_stars_behind_stars_mean_no_more_than_one() -> None:
    pattern = ebbtide.tools.search.globs.parse_glob("**/" * 2000 + "x")
    assert [pattern.matches(path) for path in ("x", "a/b/x", "a/b")] == [True, True, False]


def test_what_is_known_of_a_folder_holds_for_each_of_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ebbtide.tools.search.globs, "_MAX_KNOWN_FOLDERS", 2)
    pattern = ebbtide.tools.search.globs.parse_glob("{a/*.py,**/b/[x],*.md}")
    matching = ["a/1.py", "c.md", "a/b/x", "a/b/[x]", "b/x"]
    others = ["a/1.ts", "c.py", "a/c.md", "a/b/y", "b/1.py", "a/b/1.py", "a", "b", "a/b/c/x"]
    assert [path for path in [*matching, *others] * 2 if pattern.matches(path)] == matching * 2


async def test_a_search_of_a_folder_shows_no_lines_of_files_with_secrets(workspace: Workspace) -> None:
    write_files(workspace.root, (".env", "deploy/server.key", "a.py"), "word = 12\n")
    found = await Grep().run({"pattern": "word"}, workspace)
    hint = "give the file as `path`, so that the user is asked"
    assert (
        found.text == f"a.py\n1:word = 12\n(omitted, because it may contain secrets: `.env` and 1 other file; {hint})"
    )
    assert (await Grep().run({"pattern": "word", "path": ".env"}, workspace)).text == ".env\n1:word = 12"
