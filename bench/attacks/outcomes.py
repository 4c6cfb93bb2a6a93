"""Carries out each row in the ways defined for its area, and counts the outcomes."""

import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from pathlib import Path
from typing import Any

from bench.attacks import faults, files, inputs, scripted_rows, servers, shell, terminals, trust, web
from bench.attacks.rows import AttackFolders, AttackOutcome, AttackRow, load_policies, read_rows


def print_report(file: Path, selected: Set[str], *, each: bool = False) -> bool:
    """Print successful attacks and the reasons for skipped rows. Return whether any attack succeeded. With `each`,
    print all outcomes."""
    policies, counts, reasons = load_policies(file), Counter[tuple[str, str, str]](), Counter[tuple[str, str]]()
    has_succeeded = False
    for row in read_rows(file, selected):
        began = time.perf_counter()
        for run_name, outcome in _row_outcomes(row, policies):
            counts[row["area"], run_name, outcome.result] += 1
            if outcome.result == "not carried out":
                reasons[row["area"], outcome.reason] += 1
            elif outcome.result == "happened" and not run_name.startswith("control"):
                has_succeeded = True
            if each or (outcome.result == "happened" and not run_name.startswith("control")):
                print(f"  {row['id']}  {run_name}: {outcome.result}  {outcome.reason[:300]}".rstrip(), flush=True)
        if time.perf_counter() - began > 20:
            print(f"  {row['id']}  took {time.perf_counter() - began:.0f} s", flush=True)
    for area, run_name in sorted({(area, run_name) for area, run_name, _ in counts}):
        figures = {how: counts[area, run_name, how] for how in ("held", "happened", "not carried out")}
        print(f"{area}, {run_name}: " + ", ".join(f"{count} {how}" for how, count in figures.items() if count))
    for (area, why), count in sorted(reasons.items()):
        print(f"not carried out, {area}: {count} × {why}")
    return has_succeeded


def _row_outcomes(row: AttackRow, policies: Mapping[str, Any]) -> Iterator[tuple[str, AttackOutcome]]:
    for name, carry_out in AREA_RUNS.get(row["area"], {"": _skip_unknown_area}).items():
        folder = tempfile.mkdtemp()
        try:
            yield name, carry_out(row, AttackFolders(Path(folder).resolve()), policies)
        except subprocess.TimeoutExpired as error:
            yield name, AttackOutcome("happened", f"it did not finish within {error.timeout:.0f} s")
        # `rm` is used because folders may be too deep for Python. Failures do not matter: in the isolation, the folders
        # are in memory.
        subprocess.run(["rm", "-rf", folder], check=False, capture_output=True)


def _skip_unknown_area(row: AttackRow, dirs: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    return AttackOutcome("not carried out", "it is not supported")


AREA_RUNS: Mapping[str, Mapping[str, Callable[[AttackRow, AttackFolders, Mapping[str, Any]], AttackOutcome]]] = {
    "shell-permission": {way.name: partial(shell.carry_out, way) for way in shell.RUN_MODES},
    "path-escape": {"unasked": files.carry_out, "auto mode": files.carry_out_in_auto_mode},
    "config-trust": {"untrusted": trust.carry_out},
    "secrets": {"with canaries": trust.check_secrets},
    "mcp": {
        "sandbox off": partial(servers.carry_out, shell.SANDBOX_OFF),
        "sandbox on": partial(servers.carry_out, shell.SANDBOX_ON),
    },
    "provider-faults": {"one message": faults.run_provider_fault},
    "store-faults": {"started again": faults.run_store_fault},
    "tool-input": {"all allowed": inputs.carry_out},
    "terminal-escape": {"shown": terminals.check_displayed_text},
    "input": {"typed": terminals.check_typed_input},
    "web-fetch": {"called": web.carry_out},
    "played": {"as it says": scripted_rows.carry_out},
    "served": {"to a browser": scripted_rows.run_serve_row},
}
