"""What the protocol's conformance suite finds wrong is said where users read it, and only there where it is so."""

import re
from pathlib import Path

from tests.conformance.suite import QUICK, exceptions

PAGE = Path(__file__).parents[1] / "docs" / "mcp.md"


def test_the_page_about_servers_lists_the_scenarios_that_do_not_pass() -> None:
    table = PAGE.read_text().partition("| Scenario | Why |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.*`) \| (.*) \|$", table, re.MULTILINE)
    reasons = {name: why for names, why in rows for name in re.findall("`([^`]+)`", names)}
    assert reasons == exceptions()


def test_ci_runs_one_scenario_that_is_known_to_fail() -> None:
    assert [name for name in QUICK if name in exceptions()] == ["auth/client-credentials-basic"]
