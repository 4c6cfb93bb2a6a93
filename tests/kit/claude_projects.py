"""Three repositories as people set them up for Claude Code, written anew: instructions in several folders, skills with
scripts, commands, agents, hooks and servers, each in another way that public ones have."""

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.kit.files import write_file

SERVER = Path(__file__).with_name("mcp_program.py")


@dataclass(frozen=True, slots=True)
class ClaudeProject:
    """A repository, and what is to be seen of each of its parts in a run."""

    files: Mapping[str, str]
    """Texts by their paths; those that begin with `#!` are programs."""
    instructions: tuple[str, ...]
    """What its instructions say to a session at the top of it."""
    nested: Mapping[str, str]
    """A file that is read, and what instructions near it say from then on."""
    skills: Mapping[str, str]
    """The command of each skill's script by the path of the skill, and what it prints."""
    edited: tuple[str, str]
    """A file that is written, and what a hook has to say to that."""
    refused: tuple[str, str]
    """A command that a hook refuses, and why."""
    noted: str
    """What the third hook adds."""
    servers: tuple[str, str]
    """A tool of each."""
    agents: tuple[str, str]
    commands: Mapping[str, str]
    """What is typed, and what the model gets of it."""
    links: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Puts it there, with its servers."""
        for name, text in self.files.items():
            path = write_file(folder / name, text)
            path.chmod(0o755 if text.startswith("#!") else 0o644)
        for name, target in self.links.items():
            (folder / name).symlink_to(target)
        for name in self.servers:
            _, server, tool = name.split("__")
            place = folder / "servers" / server
            place.mkdir(parents=True)
            shutil.copy(SERVER, place / "server.py")
            (place / "tools.json").write_text(json.dumps({tool: f"Looks into {server}."}))
            (place / "instructions").write_text(f"Ask {server} before you guess.")


def _skill(name: str, description: str, text: str, more: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n\n# {name}\n\n{text}\n"


def _settings(**hooks: tuple[str, str]) -> str:
    commands = {
        event: [{"matcher": matcher, "hooks": [{"type": "command", "command": command, "timeout": 30}]}]
        for event, (matcher, command) in hooks.items()
    }
    more = {"permissions": {"allow": ["Bash(git status:*)"], "deny": ["Read(./.env)"]}, "env": {"PROJECT_MODE": "dev"}}
    return json.dumps({"$schema": "https://json.schemastore.org/claude-code-settings.json", **more, "hooks": commands})


def _servers(*names: str, form: str = "plain") -> str:
    root = "${CLAUDE_PROJECT_DIR:-.}/" if form == "variable" else ""
    return json.dumps(
        {
            "mcpServers": {
                name: {
                    "type": "stdio", "command": sys.executable,
                    "args": [f"{root}servers/{name}/server.py", f"{root}servers/{name}"],
                    "env": {"LEVEL": "${SERVER_LEVEL:-info}"},
                }
                for name in names
            }
        }
    )  # fmt: skip


LIBRARY = ClaudeProject(
    files={
        "CLAUDE.md": "# CLAUDE.md\n\nThis file guides Claude Code in this library.\n\n- Types are strict.\n\n"
        "See @docs/conventions.md for the rest.\n",
        "docs/conventions.md": "Names of tests are sentences.\n",
        "src/parser/CLAUDE.md": "The parser never raises; it returns `Problem`.\n",
        "src/parser/read.py": "def read(text: str) -> str:\n    return text\n",
        "tests/CLAUDE.md": "No mocks here.\n",
        "pyproject.toml": "[project]\nname = 'library'\n",
        ".claude/settings.json": _settings(
            PreToolUse=("Bash", '"$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh'),
            PostToolUse=("Edit|Write|MultiEdit", "$CLAUDE_PROJECT_DIR/.claude/hooks/lint.py"),
            UserPromptSubmit=("", "echo 'Branch: main, 2 files changed.'"),
        ),
        ".claude/hooks/guard.sh": "#!/bin/bash\nif grep -qE 'push +(-f|--force)'; then\n"
        "  echo 'no forced pushes here' >&2\n  exit 2\nfi\n",
        ".claude/hooks/lint.py": "#!/usr/bin/env python3\nimport json, sys\n"
        "told = json.load(sys.stdin)\npath = told['tool_input']['file_path']\n"
        "if path.endswith('.py') and 'print(' in open(path).read():\n"
        "    print(f'{path}: print found, use the logger', file=sys.stderr)\n    sys.exit(2)\n",
        ".claude/skills/release/SKILL.md": _skill(
            "release", "Makes a release. Use it when the user says release.", "Run `scripts/next.sh PART`.",
            "allowed-tools: Bash, Read, Edit, Write, mcp__docs, mcp__tickets\n",
        ),
        ".claude/skills/release/scripts/next.sh": "#!/bin/sh\necho \"next is $1.0.0\"\n",
        ".claude/skills/coverage/SKILL.md": _skill(
            "coverage", "Finds what tests do not reach.", "Read [how](reference.md), then run `scripts/gaps.py`."
        ),
        ".claude/skills/coverage/reference.md": "Lines that no test runs are gaps.\n",
        ".claude/skills/coverage/scripts/gaps.py": "#!/usr/bin/env python3\nprint('3 gaps')\n",
        ".claude/commands/fix-issue.md": "---\ndescription: Fix an issue\nargument-hint: [number]\n---\n"
        "Fix issue #$ARGUMENTS. Write the test first.\n",
        ".claude/commands/commit.md": "---\nallowed-tools: Bash(git status:*)\ndescription: Commit\n---\n"
        "## Context\n\n- Project: !`head -1 pyproject.toml`\n\n## Your task\n\nMake one commit.\n",
        ".claude/commands/explain.md": "Explain @src/parser/read.py as if to $1.\n",
        ".claude/commands/docs/update.md": "---\ndescription: Update the docs\n---\nBring docs/ up to date.\n",
        ".claude/commands/bump.md": "Bump the $1 version of $2.\n",
        ".claude/agents/test-writer.md": "---\nname: test-writer\ndescription: Writes tests. Use PROACTIVELY.\n"
        "tools: Read, Grep, Glob, Bash\nmodel: sonnet\ncolor: green\n---\n\nYou write tests.\n",
        ".claude/agents/reviewer.md": "---\nname: reviewer\ndescription: Reviews changes\n---\n\nYou review.\n",
        ".mcp.json": _servers("docs", "tickets"),
    },
    instructions=("This file guides Claude Code in this library.", "Names of tests are sentences."),
    nested={"src/parser/read.py": "The parser never raises"},
    skills={
        ".claude/skills/release/SKILL.md": "next is 2.0.0|.claude/skills/release/scripts/next.sh 2",
        ".claude/skills/coverage/SKILL.md": "3 gaps|.claude/skills/coverage/scripts/gaps.py",
    },
    edited=("src/parser/show.py", "print found, use the logger"),
    refused=("git push --force origin main", "no forced pushes here"),
    noted="Branch: main, 2 files changed.",
    servers=("mcp__docs__search", "mcp__tickets__find"),
    agents=("test-writer", "reviewer"),
    commands={
        "/fix-issue 42": "Fix issue #42. Write the test first.",
        "/commit": "- Project: [project]",
        "/explain 'a newcomer'": "def read(text: str) -> str:",
        "/docs:update": "Bring docs/ up to date.",
        "/bump minor core": "Bump the minor version of core.",
    },
)  # fmt: skip

MONOREPO = ClaudeProject(
    files={
        "AGENTS.md": "# Shop\n\nOne repository for web and api. Use pnpm, never npm.\n",
        "packages/web/CLAUDE.md": "Components are functions. @../../docs/web.md\n",
        "docs/web.md": "Colours come from tokens.\n",
        "packages/web/src/app.tsx": "export const App = () => null\n",
        "packages/api/CLAUDE.md": "Every route has a schema.\n",
        "package.json": '{"name": "shop", "private": true}\n',
        ".claude/settings.json": _settings(
            PreToolUse=(
                "Bash",
                "python3 -c \"import json,sys; c=json.load(sys.stdin)['tool_input']['command']; "
                "c.startswith('npm ') and print(json.dumps({'hookSpecificOutput': {'hookEventName': 'PreToolUse', "
                "'permissionDecision': 'deny', 'permissionDecisionReason': 'use pnpm'}}))\"",
            ),
            PostToolUse=(
                "Write|Edit",
                "python3 -c \"import json,sys; p=json.load(sys.stdin)['tool_input']['file_path']; "
                "print(json.dumps({'hookSpecificOutput': {'hookEventName': 'PostToolUse', "
                "'additionalContext': 'formatted ' + p.rpartition('/')[2]}}))\"",
            ),
            SessionStart=("startup", "echo 'Node 22, pnpm 9.'"),
        ),
        ".claude/skills/component/SKILL.md": _skill(
            "component", "Makes a component with its story.", "Run `node scripts/make.sh NAME`."
        ),
        ".claude/skills/component/scripts/make.sh": "#!/usr/bin/env bash\nset -e\necho \"made $1.tsx\"\n",
        ".claude/skills/component/templates/story.tsx": "export default {}\n",
        ".claude/skills/migrate/SKILL.md": _skill("migrate", "Writes a migration.", "See scripts/plan.sh."),
        ".claude/skills/migrate/scripts/plan.sh": "#!/bin/sh\necho planned\n",
        ".claude/commands/web/story.md": "Write a story for $ARGUMENTS.\n",
        ".claude/commands/api/route.md": "---\ndescription: Add a route\n---\nAdd $1 $2.\n",
        ".claude/commands/why.md": "Why is @packages/web/src/app.tsx so?\n",
        ".claude/commands/state.md": "---\ndescription: State\n---\n!`cat package.json`\n",
        ".claude/commands/ship.md": "---\ndescription: Ship\ndisable-model-invocation: true\n---\nShip it.\n",
        ".claude/agents/web/designer.md": "---\nname: designer\ndescription: >\n  Judges how\n  it looks\ntools:\n"
        "  - Read\n  - Glob\n---\nYou judge.\n",
        ".claude/agents/api.md": "---\nname: api\ndescription: \"Knows: the api\"\nmodel: inherit\n---\nYou know.\n",
        ".mcp.json": _servers("figma", "logs", form="variable"),
    },
    links={"CLAUDE.md": "AGENTS.md"},
    instructions=("Use pnpm, never npm.",),
    nested={"packages/web/src/app.tsx": "Colours come from tokens."},
    skills={
        ".claude/skills/component/SKILL.md": "made Card.tsx|.claude/skills/component/scripts/make.sh Card",
        ".claude/skills/migrate/SKILL.md": "planned|.claude/skills/migrate/scripts/plan.sh",
    },
    edited=("packages/web/src/card.tsx", "formatted card.tsx"),
    refused=("npm install", "use pnpm"),
    noted="Node 22, pnpm 9.",
    servers=("mcp__figma__frame", "mcp__logs__tail"),
    agents=("designer", "api"),
    commands={
        "/web:story Card": "Write a story for Card.",
        "/api:route GET /users": "Add GET /users.",
        "/why": "export const App",
        "/state": '{"name": "shop", "private": true}',
        "/ship": "Ship it.",
    },
)  # fmt: skip

SERVICE = ClaudeProject(
    files={
        ".claude/CLAUDE.md": "A service in Go.\n\nErrors are wrapped with `%w`.\n",
        ".claude/rules/sql.md": "---\npaths: \"db/**/*.sql\"\n---\nNo `select *`.\n",
        "internal/auth/CLAUDE.md": "Tokens are never logged.\n",
        "db/users.sql": "select id from users;\n",
        "go.mod": "module example.org/service\n",
        ".claude/settings.json": _settings(
            PreToolUse=("Bash|Write", ".claude/hooks/deny.sh"),
            PostToolUse=("*", ".claude/hooks/log.sh"),
            Stop=("", ".claude/hooks/stop.sh"),
        ),
        ".claude/hooks/deny.sh": "#!/bin/sh\nread -r told\ncase \"$told\" in *'rm -rf'*)\n"
        "  echo '{\"decision\": \"block\", \"reason\": \"nothing is removed so\"}' ;;\nesac\n",
        ".claude/hooks/log.sh": "#!/bin/sh\nread -r told\n"
        "case \"$told\" in *'\"tool_name\": \"Write\"'*|*'\"tool_name\":\"Write\"'*)\n"
        "  echo '{\"decision\": \"block\", \"reason\": \"gofmt would change it\"}' ;;\nesac\n",
        ".claude/hooks/stop.sh": "#!/bin/sh\nread -r told\n[ -e .stopped ] && exit 0\ntouch .stopped\n"
        "echo '{\"decision\": \"block\", \"reason\": \"run the tests before you stop\"}'\n",
        ".claude/skills/trace/SKILL.md": _skill("trace", "Reads traces.", "`scripts/trace.sh ID`"),
        ".claude/skills/trace/scripts/trace.sh": "#!/bin/sh\necho \"trace $1: 3 spans\"\n",
        ".agents/skills/deploy/SKILL.md": _skill("deploy", "Deploys.", "`scripts/dry.sh`", "license: MIT\n"),
        ".agents/skills/deploy/scripts/dry.sh": "#!/bin/sh\necho 'would deploy'\n",
        ".claude/commands/oncall.md": "---\ndescription: On call\n---\n```!\ncat go.mod\necho second\n```\nLook.\n",
        ".claude/commands/rotate.md": "Rotate $1, then $2. All: $ARGUMENTS\n",
        ".claude/commands/sql.md": "Check @db/users.sql\n",
        ".claude/commands/plain.md": "# Plain\n\nDo the usual.\n",
        ".claude/commands/db/seed.md": "---\nargument-hint: <n>\n---\nSeed $ARGUMENTS[0] rows.\n",
        ".claude/agents/sre.md": "---\nname: sre\ndescription: Reads logs\ntools: Read, mcp__logs__tail\n---\nRead.\n",
        ".claude/agents/dba.md": "---\nname: dba\ndescription: Knows SQL\npermissionMode: plan\n---\nKnow.\n",
        ".mcp.json": _servers("logs", "pager"),
    },
    instructions=("Errors are wrapped with `%w`.",),
    nested={"db/users.sql": "No `select *`."},
    skills={
        ".claude/skills/trace/SKILL.md": "trace 7: 3 spans|.claude/skills/trace/scripts/trace.sh 7",
        ".agents/skills/deploy/SKILL.md": "would deploy|.agents/skills/deploy/scripts/dry.sh",
    },
    edited=("internal/auth/token.go", "gofmt would change it"),
    refused=("rm -rf build", "nothing is removed so"),
    noted="run the tests before you stop",
    servers=("mcp__logs__tail", "mcp__pager__page"),
    agents=("sre", "dba"),
    commands={
        "/oncall": "module example.org/service\nsecond",
        "/rotate key cert": "Rotate key, then cert. All: key cert",
        "/sql": "select id from users;",
        "/plain now": "ARGUMENTS: now",
        "/db:seed 5": "Seed 5 rows.",
    },
)  # fmt: skip

PROJECTS = {"library": LIBRARY, "monorepo": MONOREPO, "service": SERVICE}
