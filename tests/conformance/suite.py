"""Runs the protocol's own conformance suite against our client: `make conformance`.

Every scenario must pass but those in `exceptions.toml`, and those must fail: whoever mends one takes it out of there.
`quick` behind the folder stands for what CI runs.
"""

import asyncio
import json
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

EXCEPTIONS = Path(__file__).with_name("exceptions.toml")
"""What does not pass, and why."""
QUICK = (
    *("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"),
    *("auth/metadata-default", "auth/pre-registration", "auth/scope-step-up", "auth/client-credentials-basic"),
)
"""What CI runs, in about ten seconds: each kind of scenario, and one that is known to fail."""
CLIENT = f"{sys.executable} -m tests.conformance.client"
PATIENCE = 60
"""Seconds for a scenario."""
AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Suite:
    """Where the suite is installed, with the Node that it needs."""

    folder: Path

    async def run(self, *arguments: str) -> tuple[int, str]:
        """The exit code and all that was printed."""
        node = self.folder / "node_modules" / ".bin" / "node"
        program = self.folder / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
        process = await asyncio.create_subprocess_exec(
            str(node), str(program), *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        printed, _ = await process.communicate()
        return process.returncode or 0, printed.decode("utf-8", "replace")

    async def scenarios(self) -> tuple[str, ...]:
        """All scenarios for clients."""
        _, printed = await self.run("list")
        _, _, clients = printed.partition("Client scenarios")
        return tuple(line.split()[1] for line in clients.splitlines() if line.startswith("  - "))


def exceptions() -> dict[str, str]:
    """Scenarios that do not pass, with the reason."""
    return tomllib.loads(EXCEPTIONS.read_text(encoding="utf-8"))


async def main(folder: Path, wanted: Sequence[str]) -> int:
    """0 when everything is as expected."""
    suite, room, known = Suite(folder), asyncio.Semaphore(AT_ONCE), exceptions()
    scenarios = await suite.scenarios()
    if not scenarios:
        print("no scenarios are listed: is the suite installed?", file=sys.stderr)
        return 2

    async def tried(scenario: str) -> bool:
        async with room:
            code, printed = await suite.run(
                "client", "--command", CLIENT, "--scenario", scenario, "--timeout", str(PATIENCE * 1000)
            )
        is_expected = (code == 0) == (scenario not in known)
        verdict = "passes" if code == 0 else f"fails: {known.get(scenario, 'unexpected')}"
        print(f"{'  ' if is_expected else '! '}{scenario:<48} {verdict}", flush=True)
        if not is_expected:
            print(json.dumps(printed[-3000:]))
        return is_expected

    tried_ones = QUICK if list(wanted) == ["quick"] else tuple(wanted) or scenarios
    results = await asyncio.gather(*map(tried, tried_ones))
    failing = sum(each in known for each in tried_ones)
    print(f"{sum(results)} of {len(results)} as expected, {failing} of them known to fail")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]), sys.argv[2:])))
