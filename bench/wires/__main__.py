"""See `bench.wires`."""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import bench.wires
from bench.wires.compare import reading_differences
from bench.wires.replay import read_row, replay_server
from bench.wires.rows import WIRE_PROVIDERS, RecordedAnswer, recorded_answers


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        "python -m bench.wires", description=bench.wires.__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="ids; default: all")
    parser.add_argument("--wire", choices=tuple(WIRE_PROVIDERS), help="only the rows of this wire")
    options = parser.parse_args(arguments)
    return asyncio.run(_compare(options.folder, options.rows, options.wire))


async def _compare(folder: Path, ids: Collection[str], wire: str | None) -> int:
    correct, total = Counter[str](), Counter[str]()
    async for row, found in compare_answers(folder, ids, wire):
        kind = "errors" if row.is_error else str(row.wire)
        total[kind] += 1
        correct[kind] += not found
        for sentence in found:
            print(f"{row.id}: {sentence}", flush=True)
    for kind in sorted(total):
        print(f"{kind}: {correct[kind]} of {total[kind]} right")
    return int(correct != total)


async def compare_answers(
    folder: Path, ids: Collection[str] = (), wire: str | None = None
) -> AsyncIterator[tuple[RecordedAnswer, list[str]]]:
    """Yield each recorded answer with the differences between the recording and what was read."""
    async with replay_server() as server:
        for row in recorded_answers(folder):
            if (not ids or row.id in ids) and wire in (None, row.wire):
                yield row, reading_differences(row, await read_row(server, row))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
