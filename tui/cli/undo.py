"""`ebb undo`: reverts a turn's file changes, or reapplies them."""

import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from ebbtide.agent.checkpoints.file_state import PlannedPath, RestorePlan, path_label
from ebbtide.agent.checkpoints.project import ProjectCheckpoints
from ebbtide.agent.checkpoints.session_checkpoints import open_project
from ebbtide.agent.checkpoints.undo_points import PointKind, UndoPoint, chosen_point
from ebbtide.agent.errors import RestoreFailed, UsageError
from ebbtide.agent.headless.json_line import print_json
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.cli.arguments import parse_subcommand_args, parser_of, read_settings_with_warnings, whole_number
from ebbtide.tui.text.sanitise import sanitised_line

NOT_COVERED = (
    "What it cannot take back: ignored files that commands changed, other folders, commits and branches, databases, "
    "and whatever went over the network."
)


def run(arguments: Sequence[str]) -> int:
    """Run `ebb undo`; return 0 if files were restored or there was nothing to do."""
    parser = parser_of("undo", "Takes back what the agent changed in the files of this folder.", NOT_COVERED)
    parser.add_argument("id", nargs="?", type=whole_number, help="a point of `--list`; the last turn without it")
    parser.add_argument("--list", action="store_true", help="the points that there are, the newest first")
    parser.add_argument("--redo", action="store_true", help="take back what was taken back last")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    others = parser.add_mutually_exclusive_group()
    others.add_argument("--force", action="store_true", help="also over what somebody else has changed since")
    others.add_argument("--skip", action="store_true", help="leave what somebody else has changed since as it is")
    options = parse_subcommand_args(parser, arguments, "JSON")
    root, config = read_settings_with_warnings(options)
    if not config.checkpoints_enabled:
        raise UsageError("no checkpoints are kept here: `checkpoints.enabled` is false")
    with closing(open_project(config, root.resolve())) as project:
        if project.set_aside:
            print(f"ebb: {sanitised_line(project.set_aside)}", file=sys.stderr)
        for path in project.recover():
            print(f"ebb: an undo that was cut off was finished: {sanitised_line(path_label(path))}", file=sys.stderr)
        project.finish_interrupted("")
        points = project.points()
        if options.list:
            _list(project, points, as_json=options.json)
            return 0
        point = chosen_point(points, options.id, redo=options.redo)
        plan = project.plan((point.id,))
        if not options.dry_run:
            if sessions := project.at_work():  # what is brought back now would be taken for that turn's work
                named = " and ".join(f"`{session}`" for session in sessions)
                raise RestoreFailed(
                    f"nothing was changed: session {named} works in this folder just now; try it again once it is done"
                )
            _refuse_unasked(plan, asked=options.force or options.skip)
            kind: PointKind = "undo" if point.kind == "turn" else "redo"
            restored = project.restore(plan, point.place, kind, forced=options.force)
            left = {one.path: one for one in restored.left}  # git may have been at work meanwhile
            plan = replace(plan, paths=tuple(left.get(one.path, one) for one in plan.paths))
        _print_outcome(point, plan, options.force, 0 if options.dry_run else restored.point, as_json=options.json)
    return 0


def _refuse_unasked(plan: RestorePlan, *, asked: bool) -> None:
    if plan.of("ask") and not asked:
        told = "; ".join(f"`{sanitised_line(one.path)}`: {one.why}" for one in plan.of("ask")[:5])
        count = pluralize(len(plan.of("ask")), "file")
        raise RestoreFailed(
            f"nothing was changed, since {count} would lose what is in it now: {told}. "
            "`--force` overwrites that (`--redo` brings it back), `--skip` leaves it"
        )


def _list(project: ProjectCheckpoints, points: Sequence[UndoPoint], *, as_json: bool) -> None:
    for point in reversed(points):
        files = [path_label(change.path) for change in project.changes_of((point.id,))]
        if as_json:
            print_json(
                sys.stdout,
                {
                    "id": point.id, "session": point.session, "kind": point.kind, "undone": point.is_undone,
                    "at": point.at, "title": point.title, "files": files,
                },
            )  # fmt: skip
            continue
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(point.at))
        undone = "  (taken back)" if point.is_undone else ""
        print(
            sanitised_line(
                f"{point.id:>5}  {when}  {point.kind:<6}  {pluralize(len(files), 'path'):>9}  {point.title}{undone}"
            )
        )
    if not points and not as_json:
        print("no turn has changed files in this folder, as far as that is kept")


def _print_outcome(point: UndoPoint, plan: RestorePlan, forced: bool, made: int, *, as_json: bool) -> None:
    chosen = {one.path for one in plan.paths_to_restore(forced=forced)}
    if as_json:
        rows = [
            {"path": path_label(one.path), "outcome": _outcome(one, one.path in chosen), "why": one.why}
            for one in plan.paths
        ]
        print_json(sys.stdout, {"point": point.id, "kind": point.kind, "made": made or None, "paths": rows})
        return
    done = "took back" if made else "would take back"
    print(sanitised_line(f"{done} {point.kind} {point.id}: {point.title}"))
    for one in plan.paths:
        why = f" ({one.why})" if one.why else ""
        print(sanitised_line(f"  {_outcome(one, one.path in chosen):<10} {path_label(one.path)}{why}"))
    if made:
        print(f"`ebb undo {made}` brings it back")


def _outcome(one: PlannedPath, is_chosen: bool) -> str:
    if one.outcome == "as_before":
        return "unchanged"
    if not is_chosen:
        return "left"
    return "removed" if one.back.kind == "absent" else "restored"
