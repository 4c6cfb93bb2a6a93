"""Logs of real tools, long ones, each with the line that decides. They were taken by running the tool, or written in
its documented form where `@from` says so; what repeats in them is written once."""

from collections.abc import Iterator
from pathlib import Path

from ebbtide.agent.view.previews import OffloadLimits, StreamedPreview, stored_excerpt
from ebbtide.tools.lazy import dataclass

FOLDER = Path(__file__).parents[1] / "agent" / "view" / "logs"


@dataclass(frozen=True, slots=True)
class ToolLog:
    tool: str
    decisive: str
    text: str

    def shown(self) -> str:
        """What the model is shown of it, with each run of blanks as one."""
        skim = StreamedPreview()
        skim.add_chunk(self.text.encode())
        text = stored_excerpt(
            "bash", "r12", skim.size, skim.line_count, *skim.excerpt_and_error_lines(OffloadLimits())
        ).text
        return " ".join(text.split())


def tool_logs() -> tuple[ToolLog, ...]:
    return tuple(_read(path) for path in sorted(FOLDER.glob("*.txt")))


def _read(path: Path) -> ToolLog:
    head, decisive, *lines = path.read_text(encoding="utf-8").splitlines()
    assert head.startswith("@from ")
    return ToolLog(path.stem, decisive.removeprefix("@decisive "), "\n".join(_expanded(iter(lines))) + "\n")


def _expanded(lines: Iterator[str]) -> Iterator[str]:
    """`@repeat N` repeats the lines up to `@end`, with the number of the round for `{n}`."""
    for line in lines:
        if line.startswith("@repeat "):
            block = list(iter(lambda: next(lines), "@end"))
            for number in range(int(line.removeprefix("@repeat "))):
                yield from (one.replace("{n}", str(number)) for one in block)
        else:
            yield line
