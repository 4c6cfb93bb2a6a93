"""Which calls the `if` of a hook names."""

import pytest

from ebbtide.agent.hooks.conditions import may_match
from ebbtide.agent.hooks.tool_names import ClaudeToolCall


def command(line: str) -> ClaudeToolCall:
    return ClaudeToolCall("Bash", {"command": line})


def file(path: str) -> ClaudeToolCall:
    return ClaudeToolCall("Edit", {"file_path": path}, ("MultiEdit",))


def page(url: str) -> ClaudeToolCall:
    return ClaudeToolCall("WebFetch", {"url": url})


@pytest.mark.parametrize(
    ("condition", "view", "expected"),
    [
        ("Bash", command("ls"), True),
        ("Bash(*)", command("ls"), True),
        ("Edit", command("ls"), False),
        ("Bash(git push *)", command("git push"), True),
        ("Bash(git push:*)", command("git status && git push -f"), True),
        ("Bash(git push *)", command("echo git push"), False),
        ("Bash(git push *)", command("A=1 git push origin"), True),
        ("Bash(git push *)", command("sudo -E git push"), True),
        ("Bash(git push *)", command('bash -c "git push"'), True),
        ("Bash(git push *)", command("eval $X"), True),
        ("Bash(git *)", command("gitk"), False),
        ("Bash(npm run build)", command("npm run build"), True),
        ("Bash(npm run build)", command("npm run build:all"), False),
        ("Bash(* --force*)", command("git push --force-with-lease"), True),
        ("Bash(a.c *)", command("abc x"), False),
        ("Edit(*.ts)", file("/p/sub/a/b.ts"), True),
        ("Edit(*.ts)", file("/elsewhere/b.ts"), True),
        ("MultiEdit(*.ts)", file("/p/b.ts"), True),
        ("Edit(*.ts)", file("/p/b.tsx"), False),
        ("Edit(src/**)", file("/p/sub/src/x/y.py"), True),
        ("Edit(src/**)", file("/p/src/x.py"), False),
        ("Edit(/src/**)", file("/p/src/x.py"), True),
        ("Edit(src/*.{ts,js})", file("/p/sub/src/a.js"), True),
        ("Edit(build/)", file("/p/sub/build/x/y"), True),
        ("Edit(//etc/**)", file("/etc/a/b"), True),
        ("Edit(~/.zshrc)", file("/home/u/.zshrc"), True),
        ("Edit(~/.zshrc)", file("/p/.zshrc"), False),
        ("Edit(src/{a,b)", file("/p/sub/src/c"), False),
        ("mcp__github", ClaudeToolCall("mcp__github__push", {}), True),
        ("mcp__github__*", ClaudeToolCall("mcp__github__push", {}), True),
        ("mcp__git", ClaudeToolCall("mcp__github__push", {}), False),
        ("WebFetch(domain:example.org)", page("https://Example.org/x"), True),
        ("WebFetch(domain:*.example.org)", page("https://example.org/x"), False),
        ("WebFetch(domain:example.org)", page("https://[bad"), True),
        ("Task(explore)", ClaudeToolCall("Task", {"subagent_type": "explore", "prompt": "x"}), True),
        ("Task(explore)", ClaudeToolCall("Task", {"subagent_type": "review"}), False),
    ],
)
def test_a_condition_names_calls_as_a_permission_rule_does(
    condition: str, view: ClaudeToolCall, expected: bool
) -> None:
    assert may_match(condition, view, "/p/sub", "/p", "/home/u") is expected
