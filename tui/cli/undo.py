"""`ebb undo`: reverts or reapplies a turn's file changes."""

import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from ebbtide.agent.checkpoints.file_state import PlannedPath, RestorePlan, path_label
from ebbtide.agent.checkpoints.project import ProjectCheckpoints
from ebbtide.agent.checkpoints.session_checkpoints import open_project
from ebbtide.agent.checkpoints.undo_points import PointKind, UndoPoint, selected_point
from ebbtide.agent.errors import RestoreFailed, UsageError
from ebbtide.agent.headless.printing import print_json
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.cli.arguments import (
    create_subcommand_parser,
    parse_integer,
    parse_subcommand_args,
    read_settings_with_warnings,
)
from ebbtide.tui.text.sanitise import sanitise_line

NOT_COVERED_NOTE = (
    "Cannot revert: ignored files that commands changed, other folders, commits and branches, databases, and anything "
    "sent over the network."
)


def run(arguments: Sequence[str]) -> int:
    """Run `ebb undo`; return the exit code. Raises `AgentError` if nothing can be restored."""
    parser = create_subcommand_parser("undo", "Revert the agent's file changes in this folder.", NOT_COVERED_NOTE)
    parser.add_argument("id", nargs="?", type=parse_integer, help="id from `--list` (default: the last turn)")
    parser.add_argument("--list", action="store_true", help="list what can be reverted, most recent first")
    parser.add_argument("--redo", action="store_true", help="reapply what was reverted last")
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and exit")
    conflict_group = parser.add_mutually_exclusive_group()
    conflict_group.add_argument("--force", action="store_true", help="also overwrite files that were changed since")
    conflict_group.add_argument("--skip", action="store_true", help="skip files that were changed since")
    options = parse_subcommand_args(parser, arguments, "JSON")
    root, config = read_settings_with_warnings(options)
    if not config.checkpoints_enabled:
        raise UsageError("checkpoints are off: `checkpoints.enabled` is false")
    with closing(open_project(config, root.resolve())) as project:
        if project.damage_notice:
            print(f"ebb: {sanitise_line(project.damage_notice)}", file=sys.stderr)
        for path in project.finish_interrupted_restores():
            print(f"ebb: finished an interrupted undo: {sanitise_line(path_label(path))}", file=sys.stderr)
        project.finish_interrupted_turns("")
        points = project.points()
        if options.list:
            _list(project, points, as_json=options.json)
            return 0
        point = selected_point(points, options.id, is_redo=options.redo)
        plan = project.plan_undo((point.id,))
        if not options.dry_run:
            if sessions := project.sessions_in_turn():  # files restored now would be attributed to that turn
                session_names = " and ".join(f"`{session}`" for session in sessions)
                raise RestoreFailed(
                    f"nothing changed: session {session_names} is working in this folder; try again when it is done"
                )
            _refuse_overwriting(plan, is_allowed=options.force or options.skip)
            kind: PointKind = "undo" if point.kind == "turn" else "redo"
            restore_result = project.restore(plan, point.turn_key, kind, is_forced=options.force)
            # Some files may not have been restored, for example because git changed them in the meantime.
            unrestored_by_path = {planned.path: planned for planned in restore_result.unrestored}
            plan = replace(plan, paths=tuple(unrestored_by_path.get(planned.path, planned) for planned in plan.paths))
        _print_outcome(point, plan, options.force, 0 if options.dry_run else restore_result.point, as_json=options.json)
    return 0


def _refuse_overwriting(plan: RestorePlan, *, is_allowed: bool) -> None:
    if plan.paths_with_outcome("ask") and not is_allowed:
        reasons = "; ".join(
            f"`{sanitise_line(planned.path)}`: {planned.reason}" for planned in plan.paths_with_outcome("ask")[:5]
        )
        files = pluralize(len(plan.paths_with_outcome("ask")), "file")
        raise RestoreFailed(
            f"nothing changed: {files} would lose newer changes: {reasons}. Use `--force` to overwrite them (`--redo` "
            "restores them), or `--skip` to leave those files alone"
        )


def _list(project: ProjectCheckpoints, points: Sequence[UndoPoint], *, as_json: bool) -> None:
    for point in reversed(points):
        files = [path_label(change.path) for change in project.merged_changes((point.id,))]
        if as_json:
            print_json(
                sys.stdout,
                {
                    "id": point.id, "session": point.session, "kind": point.kind, "undone": point.is_undone,
                    "at": point.at, "title": point.title, "files": files,
                },
            )  # fmt: skip
            continue
        time_text = time.strftime("%Y-%m-%d %H:%M", time.localtime(point.at))
        title = point.title + ("  (reverted)" if point.is_undone else "")
        print(
            sanitise_line(f"{point.id:>5}  {time_text}  {point.kind:<6}  {pluralize(len(files), 'path'):>9}  {title}")
        )
    if not points and not as_json:
        print("no recorded file changes in this folder")


def _print_outcome(point: UndoPoint, plan: RestorePlan, is_forced: bool, restore_point: int, *, as_json: bool) -> None:
    restored_paths = {planned.path for planned in plan.paths_to_restore(is_forced=is_forced)}
    if as_json:
        rows = [
            {
                "path": path_label(planned.path),
                "outcome": _outcome(planned, planned.path in restored_paths),
                "why": planned.reason,
            }
            for planned in plan.paths
        ]
        print_json(sys.stdout, {"point": point.id, "kind": point.kind, "made": restore_point or None, "paths": rows})
        return
    outcome_text = "reverted" if restore_point else "would revert"
    print(sanitise_line(f"{outcome_text} {point.kind} {point.id}: {point.title}"))
    for planned in plan.paths:
        reason_text = f" ({planned.reason})" if planned.reason else ""
        print(
            sanitise_line(
                f"  {_outcome(planned, planned.path in restored_paths):<10} {path_label(planned.path)}{reason_text}"
            )
        )
    if restore_point:
        print(f"to restore it, run `ebb undo {restore_point}`")


def _outcome(planned: PlannedPath, is_restored: bool) -> str:
    if planned.outcome == "unchanged":
        return "unchanged"
    if not is_restored:
        return "left"
    return "removed" if planned.target.kind == "absent" else "restored"
