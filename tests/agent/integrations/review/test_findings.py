"""Reviews in the formats that CI systems read."""

import json
from typing import Any
from xml.etree import ElementTree

from ebbtide.agent.headless.answers import parse_answer
from ebbtide.agent.integrations.review.findings import FORMATTERS, REVIEW_SCHEMA, Review, ReviewFinding, parse_review

EVIL = "50% done\n::error::owned\r\n<b>&\x00 @all | x"


def told(**more: object) -> dict[str, Any]:
    return {
        "path": "./src/a b.py",
        "line": 3,
        "severity": "warning",
        "title": "It breaks",
        "message": "Mend it.",
        **more,
    }


def review(*findings: dict[str, Any]) -> Review:
    text, problems = parse_answer(json.dumps({"summary": "A change.", "findings": findings}), REVIEW_SCHEMA)
    assert not problems
    return parse_review(json.loads(text))


def test_findings_are_put_in_order_and_their_paths_stay_in_the_repository() -> None:
    outside = [told(path=path, line=1, severity="note") for path in ("/etc/passwd", "../x", "a/../../b", ".", "..")]
    found = review(told(), told(), told(severity="error", line=9, end_line=2, title=" a\n b "), *outside)
    assert found.findings == (
        ReviewFinding("src/a b.py", 9, 9, "error", "a b", "Mend it."),
        ReviewFinding("src/a b.py", 3, 3, "warning", "It breaks", "Mend it."),
        ReviewFinding("", 1, 1, "note", "It breaks", "Mend it."),
    )
    assert [found.has_finding_of_severity(least) for least in ("error", "warning", "note", "never")] == [
        True,
        True,
        True,
        False,
    ]
    assert not review(told(severity="note")).has_finding_of_severity("warning")


def test_annotations_of_github_hold_no_command_but_their_own() -> None:
    lines = FORMATTERS["github"](
        review(told(title="a, b: c", message=EVIL, end_line=5), told(path="", severity="note"))
    )
    assert lines.splitlines() == [
        "::warning file=src/a b.py,line=3,endLine=5,title=a%2C b%3A c::"
        "50%25 done%0A::error::owned%0D%0A<b>&\N{REPLACEMENT CHARACTER} @all | x",
        "::notice title=It breaks::Mend it.",
    ]
    assert FORMATTERS["github"](review()) == "::notice title=Review::A change.\n"


def test_sarif_names_each_place_and_keeps_what_it_is_of_when_it_moves() -> None:
    (run,) = json.loads(FORMATTERS["sarif"](review(told(), told(path=""))))["runs"]
    assert [run["tool"]["driver"]["name"], len(run["results"])] == ["Ebbtide", 2]
    placed = next(each for each in run["results"] if "locations" in each)
    assert placed["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "src/a%20b.py", "uriBaseId": "%SRCROOT%"},
                "region": {"startLine": 3, "endLine": 3},
            }
        }
    ]
    assert (placed["ruleId"], placed["level"], placed["message"]["text"]) == (
        "review",
        "warning",
        "It breaks\n\nMend it.",
    )
    assert review(told()).findings[0].fingerprint == review(told(line=99)).findings[0].fingerprint


def test_junit_fails_for_what_is_more_than_a_note() -> None:
    suites = ElementTree.fromstring(FORMATTERS["junit"](review(told(message=EVIL), told(severity="note", line=1))))
    assert suites.attrib == {"name": "ebb review", "tests": "2", "failures": "1", "errors": "0"}
    cases = suites.findall("testsuite/testcase")
    assert [case.get("name") for case in cases] == ["src/a b.py:3: It breaks", "src/a b.py:1: It breaks"]
    assert [[child.tag for child in case] for case in cases] == [["failure"], ["system-out"]]
    nothing = ElementTree.fromstring(FORMATTERS["junit"](review()))
    assert [case.get("name") for case in nothing.findall("testsuite/testcase")] == ["no findings"]


def test_gitlab_is_told_what_has_a_place() -> None:
    (entry,) = json.loads(FORMATTERS["gitlab"](review(told(), told(path=""))))
    assert (entry["location"], entry["severity"]) == ({"path": "src/a b.py", "lines": {"begin": 3, "end": 3}}, "minor")


def test_text_and_tables_are_for_people() -> None:
    assert FORMATTERS["text"](review(told(message="Mend\nit."))) == (
        "A change.\n\nwarning: src/a b.py:3: It breaks\n  Mend\n  it.\n"
    )
    table = FORMATTERS["markdown"](review(told(message=EVIL)))
    row = table.splitlines()[-1]
    assert row.replace("\\|", "").count("|") == 4
    assert "@all" not in table
    assert "\\<b\\>" in table
    assert FORMATTERS["markdown"](review()).splitlines() == ["A change.", "", "No findings."]
    assert json.loads(FORMATTERS["json"](review(told())))["findings"][0]["path"] == "src/a b.py"
