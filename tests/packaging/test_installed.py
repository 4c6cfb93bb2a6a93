"""What an installed `ebb` does in a folder of a user: all that the table of subcommands has, each front end, and the
examples of the docs. Once more in a folder with packages that are called as ours are in the checkout."""

import asyncio
import json
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path

import mcp_types
import pexpect
import pyte
import pytest
from acp import spawn_agent_process
from aiohttp import ClientSession
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from ebbtide.tui.cli.arguments import SUBCOMMANDS
from ebbtide.tui.cli.command_tree import all_parsers
from ebbtide.tui.cli.completion import SHELLS
from tests.kit.commands import ROOT, Run
from tests.kit.editor import Editor, said
from tests.kit.files import write_file, write_files
from tests.kit.git import git
from tests.kit.installation import Installation
from tests.kit.pty_terminal import SAYS, left_behind, ready
from tests.kit.web_server import web_server
from tests.tools.test_pdf import pdf

OURS = ("agent", "tui", "tools", "store")
ANSWER = {"summary": "It changes a sum.", "findings": []}
SCRIPTS: Mapping[str, object] = {
    "says": [{"text": "hi there"}] * 9,
    "writes": [{"calls": [{"name": "write", "arguments": {"path": "new.txt", "content": "x\n"}}]}, {"text": "written"}],
    "reviews": [{"text": json.dumps(ANSWER)}],
}
USED: Mapping[str, tuple[str, ...]] = {
    "permissions": ("test", "git status", "--config", "agent.permission_mode=auto"),
    "undo": ("--dry-run",),
    "review": ("-m", "scripted/reviews.json"),
    "batch": ("tasks.jsonl",),
    "claude-code": ("-p", "hi"),
    "completion": ("bash", "--line=ebb sessions ex", "--last=ex"),
    "demo": ("--print",),
}
"""What a subcommand is given that does nothing by itself. A new one is run without arguments."""
SERVERS = ("acp", "serve")
"""They run until who started them ends them, and have tests of their own below."""


@dataclass(frozen=True, slots=True)
class Place:
    """A project of a user, with one session in which the model has written a file."""

    installation: Installation
    project: Path
    home: Path
    start: tuple[str, ...]
    """What starts `ebb`."""
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, str]:
        return {"EBB_MODEL": f"scripted/{self.project / 'says.json'}", **self.env}

    def ebb(self, *arguments: str, env: Mapping[str, str] | None = None) -> Run:
        settings = {**self.settings, **(env or {})}
        return self.installation.run([*self.start, *arguments], cwd=self.project, home=self.home, env=settings)

    @property
    def touched(self) -> str:
        """What was imported, or run, of the project's own packages."""
        path = self.home / "touched"
        return path.read_text() if path.exists() else ""


@pytest.fixture(scope="module")
def plain(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Place:
    project, home = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("home")
    return _begun(Place(installation, project, home, (installation.ebb,)))


@pytest.fixture(scope="module")
def hostile(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """With a file for each module of ours, where modules are looked for first, that tells when it is run."""
    project, home = tmp_path_factory.mktemp("hostile"), tmp_path_factory.mktemp("home")
    code = f"with open({str(home / 'touched')!r}, 'a') as file:\n    file.write(__file__ + '\\n')\n"
    for module in (path for name in OURS for path in (ROOT / name).rglob("*.py")):
        write_file(project / module.relative_to(ROOT), code)
    start = (installation.python, "-m", "ebbtide")
    return _begun(Place(installation, project, home, start, {"PYTHONPATH": os.curdir}))


@pytest.fixture(params=["plain", "hostile"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


def _begun(place: Place) -> Place:
    project = place.project
    write_files(project, {"tasks.jsonl": '{"prompt": "hi"}\n', "a.txt": "what is wanted\n"})
    (project / "a.pdf").write_bytes(pdf(["one"]))
    for name, replies in SCRIPTS.items():
        (project / f"{name}.json").write_text(json.dumps({"reply": replies}))
    for arguments in (("init", "-q"), ("add", "a.txt"), ("commit", "-qm", "first")):
        git(project, *arguments)
    run = place.ebb("-p", "write it", "--permission-mode", "accept-edits", "-m", "scripted/writes.json")
    assert (run.code, run.out) == (0, "written\n"), run.err
    return place


def test_only_the_program_and_what_it_requires_can_be_imported(installation: Installation, tmp_path: Path) -> None:
    names = (
        "import importlib.metadata as m; print(*sorted({one.metadata['Name'].lower() for one in m.distributions()}))"
    )
    found = installation.run([installation.python, "-c", names], cwd=tmp_path, home=tmp_path).out.split()
    tools = {"build", "hatchling", "hypothesis", "mypy", "pexpect", "pytest", "ruff", "textual-serve", "pip"}
    assert ("ebbtide" in found, "textual" in found, tools & {*found}) == (True, True, set())
    places = "import sys; print(*sys.path, sep='\\n')"
    assert str(ROOT) not in installation.run([installation.python, "-c", places], cwd=tmp_path, home=tmp_path).out


@pytest.mark.parametrize("words", [words for words, _ in all_parsers()], ids=" ".join)
def test_each_command_has_a_help(installation: Installation, words: tuple[str, ...], tmp_path: Path) -> None:
    run = installation.run(["ebb", *words, "--help"], cwd=tmp_path, home=tmp_path)
    assert (run.code, run.out.startswith(" ".join(("usage: ebb", *words))), run.err) == (0, True, "")


@pytest.mark.parametrize("name", [name for name in SUBCOMMANDS if name not in SERVERS])
def test_each_subcommand_runs(place: Place, name: str) -> None:
    run = place.ebb(name, *USED.get(name, ()))
    assert (run.code, run.out != "", "Traceback" in run.err, place.touched) == (0, True, False, ""), run


def test_every_module_is_the_programs_own(hostile: Place) -> None:
    walk = (
        "import pkgutil, sys; from importlib import import_module; import ebbtide as app\n"
        "names = [one.name for one in pkgutil.walk_packages(app.__path__, app.__name__ + '.')]\n"
        "for name in names: import_module(name)\n"
        f"print(len(names), {{*sys.modules}} & {{*{OURS}}})"
    )
    env = {"PYTHONPATH": os.pathsep.join((os.curdir, hostile.installation.extras))}
    start = (hostile.installation.python, "-c", walk)
    run = hostile.installation.run(start, cwd=hostile.project, home=hostile.home, env=env)
    count = sum(1 for name in OURS for _ in (ROOT / name).rglob("*.py")) + len([*(ROOT / "ebbtide").glob("*.py")]) - 1
    assert (run.out, run.err, hostile.touched) == (f"{count} set()\n", "", "")


def test_each_program_of_its_own_that_it_starts_is_found(hostile: Place, tmp_path: Path) -> None:
    for number in range(120):  # so many that several processes read them
        (hostile.project / f"part{number}.py").write_text(f"def part{number}():\n    pass\n")
    with web_server(lambda _: (200, b"<p>The <b>tide</b>", {"content-type": "text/html"})) as url:
        host = url.removeprefix("http://")
        calls = (
            ("grep", {"pattern": "w[h]at", "glob": "*.txt"}),
            ("read", {"path": "a.pdf"}),
            ("repo_map", {"focus": ["part7"]}),
            ("web_fetch", {"url": f"http://{host}/page.html"}),
            ("bash", {"command": "for i in {1..3000}; do echo line $i of them; done"}),
            ("read_result", {"ref_id": "r5", "pattern": "line 207 "}),
        )
        wanted = [{"calls": [{"name": name, "arguments": given}]} for name, given in calls]
        (hostile.project / "calls.json").write_text(json.dumps({"reply": [*wanted, {"text": "done"}]}))
        run = hostile.ebb(
            "-p", "go", "-m", "scripted/calls.json", "--permission-mode", "auto", "--output-format", "stream-json",
            "--config", f'web.private=["{host}"]', env={"PATH": "/nowhere"},  # there is no rg
        )  # fmt: skip
    ended = [event["text"] for event in run.lines if event["type"] == "tool_finished"]
    assert (run.code, run.err, hostile.touched) == (0, "", "")
    assert (ended[:2], ended[-1]) == (["a.txt\n1:what is wanted", "[page 1]\none"], "207:line 207 of them")
    assert (ended[2].startswith("part7.py:\n1\tdef part7()\n"), ended[3].endswith("\n\nThe **tide**")) == (True, True)


def test_the_terminal_opens_and_closes(place: Place, tmp_path: Path) -> None:
    env = {**place.installation.environment(place.home, place.env), "TERM": "xterm-256color"}
    with ready(tmp_path, SAYS, command=place.start, env=env) as terminal:
        terminal.send("hi\r", until="Said.")
        assert "Resume: ebb -r" in left_behind(terminal).decode()
    assert place.touched == ""


EXAMPLES = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "docs" / "python.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
)
REPLIES = (
    [{"calls": [{"name": "write", "arguments": {"path": "fixed.txt", "content": ""}}]}, {"text": "They pass."}],
    [
        {
            "calls": [
                {"name": "stock", "arguments": {"name": "pear"}},
                {"name": "stock", "arguments": {"name": "apple"}},
            ]
        },
        {"calls": [{"name": "order", "arguments": {"name": "apple", "count": 2}}]},
        {"text": "Two are ordered."},
        {"text": "Five."},
    ],
)
PRINTED = (
    "They pass. fixed.txt\n",
    "[stock: there is no pear; there are apple]\n[stock: 3]\n[order: ordered]\nTwo are ordered.\n"
    "answered {'apple': 5}\n",
)


@pytest.mark.parametrize(
    ("example", "replies", "printed"), zip(EXAMPLES, REPLIES, PRINTED, strict=True), ids=("run", "session")
)
def test_the_examples_run_beside_packages_with_our_names(
    hostile: Place, example: str, replies: object, printed: str
) -> None:
    (hostile.project / "replies.json").write_text(json.dumps({"reply": replies}))
    watched = f"import sys\nbefore = list(sys.path)\n{example}\nassert sys.path == before\n"
    settings = {**hostile.settings, "EBB_MODEL": "scripted/replies.json"}
    start = (hostile.installation.python, "-c", watched)
    run = hostile.installation.run(start, cwd=hostile.project, home=hostile.home, env=settings)
    assert (run, hostile.touched) == (Run(0, printed, ""), "")


async def test_an_editor_has_a_session(place: Place) -> None:
    editor = Editor()
    env = place.installation.environment(place.home, place.settings)
    async with spawn_agent_process(editor, *place.start, "acp", env=env, cwd=place.project) as (agent, process):  # type: ignore[arg-type]  # it has no terminals
        await agent.initialize(1)
        new = await agent.new_session(cwd=str(place.project), mcp_servers=[])
        assert await said(agent, new.session_id) == "end_turn"
    assert (process.returncode, editor.said, place.touched) == (0, "hi there", "")


async def test_another_agent_is_served(place: Place) -> None:
    program, *words = place.start
    env = place.installation.environment(place.home, place.settings)
    target = StdioServerParameters(command=program, args=[*words, "mcp", "serve"], env=env, cwd=str(place.project))
    async with Client(stdio_client(target)) as client:
        answer = await client.call_tool("sessions_search", {"query": "write"})
    (content,) = answer.content
    assert isinstance(content, mcp_types.TextContent)
    assert ("write it" in content.text, place.touched) == (True, "")


async def test_a_browser_has_the_terminal(place: Place) -> None:
    path = os.pathsep.join(filter(None, (place.env.get("PYTHONPATH"), place.installation.extras)))
    env = {**place.installation.environment(place.home, place.settings), "TERM": "dumb", "PYTHONPATH": path}
    process = await asyncio.create_subprocess_exec(
        *place.start, "serve", cwd=place.project, env=env, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        printed = b"".join([await process.stdout.readline() for _ in range(2)]).decode()
        (address,) = re.findall(r"http://127\.0\.0\.1:\d+/\?token=\S+", printed)
        origin, screen = address.split("/?")[0], pyte.Screen(100, 30)
        stream = pyte.ByteStream(screen)
        async with ClientSession() as browser:
            async with browser.get(address, allow_redirects=False) as page:
                cookie, folder = next(iter(SimpleCookie(page.headers["Set-Cookie"]).values())), page.headers["Location"]
            headers = {"Cookie": f"{cookie.key}={cookie.value}", "Origin": origin}
            socket = await browser.ws_connect(f"{origin}{folder}ws/{'0' * 32}?width=100&height=30", headers=headers)
            waiting = {"Ask, or / for commands": "hi\r", "hi there": ""}
            async with asyncio.timeout(60):
                for words, typed in waiting.items():
                    while words not in "\n".join(screen.display):
                        stream.feed((await socket.receive()).data)
                    await socket.send_json(["stdin", typed])
    finally:
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
    assert place.touched == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_installed_for_a_shell_is_what_it_prints(plain: Place, shell: str) -> None:
    names = {"bash": "bash-completion/completions/ebb", "fish": "fish/vendor_completions.d/ebb.fish"}
    installed = plain.installation.shared_data / names.get(shell, "zsh/site-functions/_ebb")
    assert plain.ebb("completion", shell).out == installed.read_text("utf-8")


def test_a_real_bash_completes_with_it(plain: Place) -> None:
    env = {**plain.installation.environment(plain.home, plain.settings), "TERM": "xterm", "PS1": "> "}
    completion = plain.installation.shared_data / "bash-completion" / "completions" / "ebb"
    bash = ["--norc", "--noprofile", "-i"]
    child = pexpect.spawn("bash", bash, env=env, cwd=plain.project, encoding="utf-8", timeout=60)
    try:
        child.sendline(f"source {completion} && echo loaded=$?")
        child.expect_exact("loaded=0")
        child.send("ebb sess\tex\t")
        child.expect_exact("ebb sessions export ")
    finally:
        child.close(force=True)


def test_the_manual_is_found_beside_the_program(plain: Place) -> None:
    page = plain.installation.shared_data / "man" / "man1" / "ebb.1"
    assert page.read_text("utf-8") == (ROOT / "docs" / "ebb.1").read_text("utf-8")


def test_what_is_missing_is_named_with_the_command_that_installs_it(plain: Place) -> None:
    run = plain.ebb("serve")
    assert (run.code, run.err) == (
        2,
        "ebb: `ebb serve` needs additional packages; install them with: "
        f"uv pip install --python {plain.installation.python} 'textual-serve<2,>=1.1.3'\n",
    )
