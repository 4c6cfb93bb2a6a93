"""Review findings: the schema of the model's answer, and its conversion to formats that CI systems read."""

import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias
from urllib.parse import quote
from xml.etree import ElementTree

from ebbtide.version import VERSION

Severity: TypeAlias = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""Severities of a finding, worst first."""

REVIEW_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "required": ["summary", "findings"],
    "additionalProperties": False,
    "properties": {
        "summary": {"type": "string", "description": "what the change does and how good it is, in two sentences"},
        "findings": {
            "type": "array",
            "maxItems": 500,
            "items": {
                "type": "object",
                "required": ["path", "line", "severity", "title", "message"],
                "additionalProperties": False,
                "properties": {
                    "path": {"type": "string", "description": "path of the file, relative to the repository root"},
                    "line": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "the first line, in the file's current version",
                    },
                    "end_line": {"type": "integer", "minimum": 1},
                    "severity": {
                        "enum": [*SEVERITIES],
                        "description": "error: it breaks something; warning: it may; note: it could be better",
                    },
                    "title": {"type": "string", "description": "what is wrong, in under ten words"},
                    "message": {"type": "string", "description": "why it is wrong, and what to do"},
                },
            },
        },
    },
}
"""JSON Schema of the model's answer."""

_INVALID_IN_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Characters that are not allowed in XML."""


@dataclass(frozen=True, slots=True)
class ReviewFinding:
    path: str
    """Path relative to the top of the repository; empty if the model gave no valid path."""
    line: int
    """Line number, from 1."""
    end_line: int
    severity: Severity
    title: str
    message: str

    @property
    def fingerprint(self) -> str:
        """A digest that stays the same when the finding moves to another line."""
        return hashlib.sha256(json.dumps([self.path, self.title]).encode()).hexdigest()

    @property
    def location(self) -> str:
        return f"{self.path}:{self.line}" if self.path else "the change"


@dataclass(frozen=True, slots=True)
class Review:
    summary: str
    findings: tuple[ReviewFinding, ...]
    """Worst first, then by path and line."""

    def has_finding_of_severity(self, min_severity: str) -> bool:
        """Whether there is a finding of at least this severity. False for `never`."""
        return min_severity in SEVERITIES and any(
            SEVERITIES.index(finding.severity) <= SEVERITIES.index(min_severity) for finding in self.findings
        )


def parse_review(answer: Mapping[str, Any]) -> Review:
    """Parse an answer that matches the schema."""
    findings = {_parse_finding(finding): None for finding in answer["findings"]}
    sorted_findings = sorted(
        findings, key=lambda finding: (SEVERITIES.index(finding.severity), finding.path, finding.line)
    )
    return Review(_xml_safe(answer["summary"]), tuple(sorted_findings))


def _parse_finding(fields: Mapping[str, Any]) -> ReviewFinding:
    title, message = " ".join(_xml_safe(fields["title"]).split()), _xml_safe(fields["message"]).strip()
    end_line = max(fields["line"], fields.get("end_line", fields["line"]))
    return ReviewFinding(
        _repository_path(_xml_safe(fields["path"])), fields["line"], end_line, fields["severity"], title, message
    )


def _repository_path(text: str) -> str:
    """Return the normalised path if it is inside the repository; empty if it is not."""
    path = posixpath.normpath(text.strip())
    return "" if path in (".", "") or path.startswith(("/", "../")) or path == ".." or "\n" in path else path


def _xml_safe(text: str) -> str:
    return _INVALID_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def as_text(review: Review) -> str:
    """Format a review as plain text."""
    lines = [review.summary.strip()]
    for finding in review.findings:
        indented = finding.message.replace("\n", "\n  ")
        lines.append(f"\n{finding.severity}: {finding.location}: {finding.title}\n  {indented}")
    return "\n".join(lines) + "\n"


def as_json(review: Review) -> str:
    return json.dumps(asdict(review), ensure_ascii=False, indent=1) + "\n"


def as_github(review: Review) -> str:
    """Format a review as GitHub Actions workflow commands, which become annotations. Commands inside findings are
    escaped."""
    command_by_severity: Mapping[Severity, str] = {"error": "error", "warning": "warning", "note": "notice"}
    lines = []
    for finding in review.findings:
        location = (
            {"file": finding.path, "line": str(finding.line), "endLine": str(finding.end_line)} if finding.path else {}
        )
        properties = ",".join(
            f"{name}={_escape_command(value, ',:')}" for name, value in (*location.items(), ("title", finding.title))
        )
        lines.append(f"::{command_by_severity[finding.severity]} {properties}::{_escape_command(finding.message)}\n")
    return "".join(lines) or f"::notice title=Review::{_escape_command(review.summary)}\n"


def _escape_command(text: str, extra_characters: str = "") -> str:
    return "".join(
        f"%{ord(character):02X}" if character in f"%\r\n{extra_characters}" else character for character in text
    )


def as_sarif(review: Review) -> str:
    """Format a review as SARIF 2.1.0, which GitHub code scanning and many editors read."""
    results = []
    for finding in review.findings:
        result: dict[str, Any] = {
            "ruleId": "review",
            "level": finding.severity,
            "message": {"text": f"{finding.title}\n\n{finding.message}"},
            "partialFingerprints": {"finding/v1": finding.fingerprint},
        }
        if finding.path:
            region = {"startLine": finding.line, "endLine": finding.end_line}
            location = {"artifactLocation": {"uri": quote(finding.path), "uriBaseId": "%SRCROOT%"}, "region": region}
            result["locations"] = [{"physicalLocation": location}]
        results.append(result)
    rule = {"id": "review", "shortDescription": {"text": "A finding of a review"}}
    driver = {"name": "Ebbtide", "version": VERSION, "rules": [rule]}
    return _json_text(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
        }
    )


def as_junit(review: Review) -> str:
    """Format a review as JUnit XML: one test case per finding; errors and warnings are failures."""
    failure_count = sum(finding.severity != "note" for finding in review.findings)
    case_count = str(max(1, len(review.findings)))
    attributes = {"name": "ebb review", "tests": case_count, "failures": str(failure_count), "errors": "0"}
    suites = ElementTree.Element("testsuites", attributes)
    suite = ElementTree.SubElement(suites, "testsuite", attributes)
    for finding in review.findings:
        labels = {"name": f"{finding.location}: {finding.title}", "classname": finding.path or "review"}
        location = {"file": finding.path, "line": str(finding.line)} if finding.path else {}
        case = ElementTree.SubElement(suite, "testcase", {**labels, **location})
        if finding.severity == "note":
            ElementTree.SubElement(case, "system-out").text = finding.message
        else:
            failure_attributes = {"message": finding.title, "type": finding.severity}
            ElementTree.SubElement(case, "failure", failure_attributes).text = f"{finding.location}\n{finding.message}"
    if not review.findings:
        ElementTree.SubElement(suite, "testcase", {"name": "no findings", "classname": "review"})
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def as_gitlab(review: Review) -> str:
    """Format a review as a GitLab code quality report, shown next to the changed lines."""
    severities: Mapping[Severity, str] = {"error": "major", "warning": "minor", "note": "info"}
    return _json_text(
        [
            {
                "description": f"{finding.title}: {finding.message}",
                "check_name": "ebb review",
                "fingerprint": finding.fingerprint,
                "severity": severities[finding.severity],
                "location": {"path": finding.path, "lines": {"begin": finding.line, "end": finding.end_line}},
            }
            for finding in review.findings
            if finding.path
        ]
    )


def as_markdown(review: Review) -> str:
    """Format a review as Markdown, for a summary or a comment."""
    rows: Sequence[str] = [
        f"| {finding.severity} | {_table_cell(finding.location)} | **{_table_cell(finding.title)}** "
        f"{_table_cell(finding.message)} |\n"
        for finding in review.findings
    ]
    table = f"\n| | where | what |\n| --- | --- | --- |\n{''.join(rows)}" if rows else "\nNo findings.\n"
    return f"{_table_cell(review.summary)}\n{table}"


def _table_cell(text: str) -> str:
    """Escape text for a table cell, and prevent it from mentioning users."""
    one_line_text = " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
    return re.sub(r"([<>`*_\[\]#])", r"\\\1", one_line_text).replace("@", "@\N{ZERO WIDTH SPACE}")


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


FORMATTERS: Mapping[str, Callable[[Review], str]] = {
    "text": as_text,
    "json": as_json,
    "github": as_github,
    "gitlab": as_gitlab,
    "sarif": as_sarif,
    "junit": as_junit,
    "markdown": as_markdown,
}
"""The function that produces each format."""
