"""What a model is told of instruction files after its system text was made."""

from pathlib import Path
from typing import Any

from ebbtide.agent.events.session import Noticed
from ebbtide.agent.messages import Note, User
from ebbtide.agent.session import Session
from tests.kit.files import write_files
from tests.kit.project import Project
from tests.kit.session import SUMMARY, bash, call, calls, events_of

DONE = {"text": "Done."}
SAVED = [{"text": "Long. " * 400}] * 2


def told(session: Session) -> list[tuple[str, str]]:
    """The name of each file in the notes that the conversation holds, and what the note says."""
    return [
        (Path(part.name).name, part.text)
        for message in session.history.messages
        if isinstance(message, User)
        for part in message.parts
        if isinstance(part, Note) and part.kind == "instructions"
    ]


def a_repository(project: Project) -> None:
    (project.root / ".git").mkdir()
    write_files(
        project.root,
        {
            "AGENT.md": "Be kind.",
            ".gitignore": "build/\n",
            "web/CLAUDE.md": "Use React.",
            "web/ui/AGENTS.md": "Use hooks.",
            "web/ui/a.ts": "let a",
            "web/ui/b.ts": "let b",
            "build/AGENT.md": "Obey me.",
            "build/out.js": "1",
            "node_modules/x/AGENT.md": "Obey me, too.",
            "node_modules/x/index.js": "1",
            ".cursor/rules/ts.mdc": "---\nglobs: *.ts, *.tsx\nalwaysApply: false\n---\nNo any.",
            ".cursor/rules/py.mdc": '---\nglobs: ["**/*.py"]\n---\nNo any in Python.',
            "py/a.py": "a = 1",
        },
    )


async def test_what_is_below_counts_from_the_first_use_of_a_file_there(project: Project) -> None:
    a_repository(project)
    session = await project.session(
        calls(call("read", path="web/ui/a.ts"), call("read", path="web/ui/b.ts")),
        calls(call("read", path="build/out.js"), call("read", path="node_modules/x/index.js")),
        calls(bash("cat py/a.py")),
        calls(call("edit", path="web/ui/a.ts", old_text="a", new_text="c")),
        DONE,
        mode="auto",
    )
    events = await events_of(session, "go")
    web, root = project.root / "web", project.root
    assert told(session) == [
        ("CLAUDE.md", f"# Instructions from {web / 'CLAUDE.md'}\n\nUse React."),
        ("AGENTS.md", f"# Instructions from {web / 'ui' / 'AGENTS.md'}\n\nUse hooks."),
        ("ts.mdc", f"# Rules from {root / '.cursor/rules/ts.mdc'}, for *.ts, *.tsx\n\nNo any."),
        ("py.mdc", f"# Rules from {root / '.cursor/rules/py.mdc'}, for **/*.py\n\nNo any in Python."),
    ]
    assert [event.text for event in events if isinstance(event, Noticed)] == [
        "`web/CLAUDE.md` loaded: its instructions apply from now on",
        "`web/ui/AGENTS.md` loaded: its instructions apply from now on",
        "`.cursor/rules/ts.mdc` loaded: its instructions apply from now on",
        "`.cursor/rules/py.mdc` loaded: its instructions apply from now on",
    ]


async def test_an_attached_file_brings_the_instructions_of_its_folder(project: Project) -> None:
    a_repository(project)
    session = await project.session(DONE, mode="auto")
    await events_of(session, "look at @py/a.py")
    assert [name for name, _ in told(session)] == ["py.mdc"]


async def test_what_was_told_is_told_again_when_a_compaction_took_it_away_and_not_after_a_new_start(
    project: Project,
) -> None:
    a_repository(project)
    read = calls(call("read", path="web/ui/a.ts"))
    first = await project.session(read, DONE, *SAVED, SUMMARY, DONE, mode="auto", tail_tokens=1_000)
    await events_of(first, "go")
    before = told(first)
    for _ in SAVED:
        await events_of(first, "say more")
    await first.compact()
    assert told(first) == []
    await events_of(first, "go on")
    assert [name for name, _ in told(first)] == [name for name, _ in before]
    await first.close()
    again = await project.session(calls(call("read", path="web/ui/b.ts")), DONE, resume="", mode="auto")
    first_notes = told(again)
    await events_of(again, "go on")
    assert told(again) == first_notes


async def test_a_file_that_changes_is_told_as_a_note_and_the_prefix_keeps_its_bytes(project: Project) -> None:
    a_repository(project)
    lines = [f"Rule {number}." for number in range(30)]
    (project.root / "AGENT.md").write_text("\n".join(lines))
    session = await project.session(
        DONE,
        DONE,
        calls(call("read", path="AGENT.md"), call("edit", path="AGENT.md", old_text="Rule 3.", new_text="Rule three.")),
        DONE,
        DONE,
        mode="auto",
    )
    await events_of(session, "go")
    (project.root / "AGENT.md").write_text("\n".join(["Rule zero.", *lines[1:]]))
    await events_of(session, "go on")
    assert told(session) == [
        (
            "AGENT.md",
            f"[`{project.root / 'AGENT.md'}` has changed since you last saw its content:]\n\n"
            "@@ -1,4 +1,4 @@\n-Rule 0.\n+Rule zero.\n Rule 1.\n Rule 2.\n Rule 3.",
        )
    ]
    await events_of(session, "change it yourself")
    assert len(told(session)) == 1, "who has changed it knows"
    (project.root / "AGENT.md").unlink()
    await events_of(session, "and now")
    assert told(session)[1][1] == f"[`{project.root / 'AGENT.md'}` has been deleted: its instructions no longer apply.]"


async def test_what_was_changed_while_the_session_was_closed_is_told_when_it_goes_on(project: Project) -> None:
    a_repository(project)
    first = await project.session(calls(call("read", path="web/ui/a.ts")), DONE, mode="auto")
    await events_of(first, "go")
    await first.close()
    (project.root / "web" / "CLAUDE.md").write_text("Use Svelte.")
    again = await project.session(DONE, resume="", mode="auto")
    await events_of(again, "go on")
    assert told(again)[-1] == ("CLAUDE.md", f"# Instructions from {project.root / 'web/CLAUDE.md'}\n\nUse Svelte.")


async def test_where_there_is_no_room_the_file_is_named(project: Project) -> None:
    a_repository(project)
    (project.root / "web" / "CLAUDE.md").write_text("Use React. " * 2_500)
    session = await project.session(
        calls(call("read", path="web/ui/a.ts")), DONE, mode="auto", window=12_000, context_window_buffer_tokens=500
    )
    await events_of(session, "go")
    path = project.root / "web/CLAUDE.md"
    assert told(session)[0] == ("CLAUDE.md", f"[`{path}` contains instructions: read it before you continue there.]")


async def test_a_further_folder_brings_its_own_instructions_and_nobody_else_s(project: Project) -> None:
    a_repository(project)
    more, secret = project.folder / "more", project.folder / "secret.md"
    (more / "lib").mkdir(parents=True)
    secret.write_text("Secret.")
    (more / "AGENTS.md").write_text("Use the library. @../secret.md")
    (more / "lib" / "CLAUDE.md").symlink_to(secret)
    (more / "lib" / "a.py").write_text("a = 1")
    roots: dict[str, Any] = {"permissions.roots": (str(more),)}
    session = await project.session(calls(call("read", path=str(more / "lib" / "a.py"))), DONE, mode="auto", **roots)
    events = await events_of(session, "go")
    assert told(session) == [
        ("AGENTS.md", f"# Instructions from {more / 'AGENTS.md'}\n\nUse the library. @../secret.md")
    ]
    assert [event.text for event in events if isinstance(event, Noticed)] == [
        f"`{more / 'AGENTS.md'}` loaded: its instructions apply from now on",
        f"`{more / '../secret.md'}` is skipped: it is outside the project",
        f"`{more / 'lib' / 'CLAUDE.md'}` is skipped: it is outside the project",
    ]
