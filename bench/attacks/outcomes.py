"""Carries out each row in the way of its area, and counts the outcomes."""

import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from pathlib import Path
from typing import Any

from bench.attacks import faults, files, inputs, scripted_rows, servers, shell, terminals, trust, web
from bench.attacks.rows import AttackFolders, AttackOutcome, Row, policies_for, rows_of


def report(file: Path, wanted: Set[str], *, each: bool = False) -> bool:
    """Print successful attacks and the reasons for rows that were not carried out; return whether any attack succeeded.
    With `each`, print all outcomes."""
    policies, counts, reasons = policies_for(file), Counter[tuple[str, str, str]](), Counter[tuple[str, str]]()
    bad = False
    for row in rows_of(file, wanted):
        began = time.perf_counter()
        for way, outcome in _outcomes(row, policies):
            counts[row["area"], way, outcome.how] += 1
            if outcome.how == "not carried out":
                reasons[row["area"], outcome.why] += 1
            elif outcome.how == "happened" and not way.startswith("control"):
                bad = True
            if each or (outcome.how == "happened" and not way.startswith("control")):
                print(f"  {row['id']}  {way}: {outcome.how}  {outcome.why[:300]}".rstrip(), flush=True)
        if time.perf_counter() - began > 20:
            print(f"  {row['id']}  took {time.perf_counter() - began:.0f} s", flush=True)
    for area, way in sorted({(area, way) for area, way, _ in counts}):
        figures = {how: counts[area, way, how] for how in ("held", "happened", "not carried out")}
        print(f"{area}, {way}: " + ", ".join(f"{count} {how}" for how, count in figures.items() if count))
    for (area, why), count in sorted(reasons.items()):
        print(f"not carried out, {area}: {count} × {why}")
    return bad


def _outcomes(row: Row, policies: Mapping[str, Any]) -> Iterator[tuple[str, AttackOutcome]]:
    for name, carry_out in WAYS.get(row["area"], {"": _unknown}).items():
        folder = tempfile.mkdtemp()
        try:
            yield name, carry_out(row, AttackFolders(Path(folder).resolve()), policies)
        except subprocess.TimeoutExpired as error:
            yield name, AttackOutcome("happened", f"it did not finish within {error.timeout:.0f} s")
        # Folders may be too deep for Python, or not accessible; in the isolation they are in memory anyway.
        subprocess.run(["rm", "-rf", folder], check=False, capture_output=True)


def _unknown(row: Row, places: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    return AttackOutcome("not carried out", "it is not supported")


WAYS: Mapping[str, Mapping[str, Callable[[Row, AttackFolders, Mapping[str, Any]], AttackOutcome]]] = {
    "shell-permission": {way.name: partial(shell.carry_out, way) for way in shell.WAYS},
    "path-escape": {"unasked": files.carry_out, "auto mode": files.auto},
    "config-trust": {"untrusted": trust.carry_out},
    "secrets": {"with canaries": trust.secrets},
    "mcp": {"sandbox off": partial(servers.carry_out, shell.OFF), "sandbox on": partial(servers.carry_out, shell.ON)},
    "provider-faults": {"one message": faults.provider},
    "store-faults": {"started again": faults.store},
    "tool-input": {"all allowed": inputs.carry_out},
    "terminal-escape": {"shown": terminals.escapes},
    "input": {"typed": terminals.check_typed_input},
    "web-fetch": {"called": web.carry_out},
    "played": {"as it says": scripted_rows.carry_out},
    "served": {"to a browser": scripted_rows.run_serve_row},
}
