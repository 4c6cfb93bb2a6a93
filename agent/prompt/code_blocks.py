"""Code blocks in Markdown text."""

import re

from ebbtide.tools.lazy import dataclass, regex

SHELLS = ("bash", "sh", "shell", "zsh", "console", "terminal", "shell-session", "powershell", "cmd", "bat")
_FENCE = regex(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+.-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """The content of a fenced code block."""

    language: str
    text: str

    @property
    def is_command(self) -> bool:
        return self.language in SHELLS


def parse_code_blocks(text: str) -> tuple[CodeBlock, ...]:
    return tuple(CodeBlock(match[2].lower(), match[3]) for match in _FENCE.finditer(text))


def fenced_lines(text: str, language: str = "") -> tuple[str, str, str]:
    """Return the opening fence, content and closing fence of a code block. The fences are longer than any run of
    backticks in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{fence}{language}", text.rstrip("\n"), fence
