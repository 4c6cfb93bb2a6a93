"""Rules of other programs that say what files they are for."""

import os
from pathlib import Path

from ebbtide.agent.input.instruction_files import InstructionReader
from ebbtide.agent.input.scoped_rules import read_rules
from tests.kit.files import write_files

FILES = {
    ".cursor/rules/always.mdc": "---\nalwaysApply: true\n---\nBe kind.",
    ".cursor/rules/deep/ts.mdc": "---\ndescription: Types\nglobs: src/**/*.{ts,tsx},*.mts\n---\nNo any.",
    ".cursor/rules/offered.mdc": "---\ndescription: How to release\nalwaysApply: false\n---\nSteps.",
    ".cursor/rules/manual.mdc": "---\ndescription:\nglobs:\nalwaysApply: false\n---\nOnly when named.",
    ".cursor/rules/notes.txt": "not a rule",
    ".cursor/rules/broken.mdc": "---\n- globs\n---\nx",
    ".cursor/rules/open.mdc": "---\nglobs: a",
    ".github/instructions/all.instructions.md": '---\napplyTo: "**"\n---\nFor all.',
    ".github/instructions/py.instructions.md": "---\napplyTo: '**/*.py,/docs/'\n---\nFor Python.",
    ".claude/rules/plain.md": "No head at all.",
    ".claude/rules/api.md": "---\npaths:\n  - src/api/**/*.ts\n---\nFor the API.",
}


def test_the_head_of_a_rule_says_what_it_is_for(tmp_path: Path) -> None:
    write_files(tmp_path, FILES)
    os.mkfifo(tmp_path / ".cursor/rules/pipe.mdc")
    (tmp_path / ".cursor/rules/out.mdc").symlink_to("/etc/passwd")
    reader = InstructionReader()
    rules = {rule.path.name: rule for rule in read_rules(tmp_path, tmp_path, reader)}
    assert {name: rule.scope for name, rule in rules.items()} == {
        "always.mdc": "always",
        "ts.mdc": "matching",
        "offered.mdc": "listed",
        "manual.mdc": "never",
        "all.instructions.md": "always",
        "py.instructions.md": "matching",
        "plain.md": "always",
        "api.md": "matching",
    }
    assert [problem.split("rules/")[1] for problem in reader.problems] == [
        "broken.mdc` is skipped: line 2: the front matter is not a list of `key: value`",
        "open.mdc` is skipped: line 1: the front matter is not closed with `---`",
        "out.mdc` is skipped: it is outside the project",
        "pipe.mdc` is skipped: it is not a file",
    ]
    covered = {
        name: [path for path in ("src/a.ts", "src/x/b.tsx", "c.mts", "a.ts", "d/e.py", "docs/x", "src/api/v1/z.ts")
               if rule.applies_to(tmp_path / path)]
        for name, rule in rules.items() if rule.scope == "matching"
    }  # fmt: skip
    assert covered == {
        "ts.mdc": ["src/a.ts", "src/x/b.tsx", "c.mts", "src/api/v1/z.ts"],
        "py.instructions.md": ["d/e.py", "docs/x"],
        "api.md": ["src/api/v1/z.ts"],
    }
    assert rules["offered.mdc"].section.section_text == (
        f"# Rules to read when they are needed: {tmp_path / '.cursor/rules/offered.mdc'}\n\nHow to release"
    )
