"""`dibs setup CLIENT`: connect a coding agent to dibs, take that back, or check it. Also `dibs setup agents-md`."""

from __future__ import annotations

import os
import sys

from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.agents.setup.clients import Client
    from dibs.agents.setup.plan import Plan

#: The exit code if something is wrong, or if the person did not agree.
NOT_DONE = 1


def setup_options(parser: Parser) -> None:
    parser.argument("client", "claude, codex, cursor, gemini, opencode or copilot")
    parser.option("--project", help="only for sessions in this project")
    parser.option("--remove", help="take back what setup wrote")
    parser.option("--check", help="only say what is not as setup leaves it")
    parser.yes()


def setup(cli: Cli) -> int:
    from dibs.agents.setup.clients import AGENTS_MD, Client
    from dibs.agents.setup.lock import locked
    from dibs.agents.setup.place import Place

    args = cli.args
    if args.remove and args.check:
        raise UsageError("choose one of --remove and --check", field="check")
    in_project = args.project or args.client == AGENTS_MD
    place = Place.here(os.getcwd(), os.environ, project=in_project)
    if args.check:
        return _check(cli, Client(args.client, place))
    # From the first look to the last write, the question included: what is shown is what is written.
    with locked(place.home):
        return _plan_and_write(cli, Client(args.client, place))


def _plan_and_write(cli: Cli, client: Client) -> int:
    args = cli.args
    plan = client.plan(remove=args.remove)
    files = [{"path": change.path, "diff": "\n".join(change.diff())} for change in plan.changes]
    answer = {"client": args.client, "files": files, "folders": plan.folders, "kept": plan.kept, "written": False}
    answer |= {"sessions": plan.sessions}
    if not plan.changes and not plan.folders:
        line = "nothing to remove" if args.remove else f"{args.client} is set up already"
        cli.reply(answer, line, *_notes(cli, client, plan))
        return 0
    if not cli.json:
        _show(cli, plan, remove=args.remove)
    if not _agreed(cli):
        cli.reply(answer, "nothing was changed")
        return NOT_DONE
    client.carry_out(plan, remove=args.remove)
    cli.reply({**answer, "written": True}, "removed" if args.remove else "written", *_notes(cli, client, plan))
    return 0


def _check(cli: Cli, client: Client) -> int:
    found = client.problems()
    advice = f"what to do: dibs setup {cli.args.client}{' --project' if cli.args.project else ''}"
    lines = [f"{cli.paint('✗', 'red')} {problem}" for problem in found]
    fine = f"{cli.paint('✓', 'green')} {cli.args.client} is set up"
    cli.reply({"client": cli.args.client, "problems": found}, *(([*lines, f"  {advice}"]) if found else [fine]))
    return NOT_DONE if found else 0


def _show(cli: Cli, plan: Plan, *, remove: bool) -> None:
    """Every file and every line, before anything is written."""
    colours = {"+": "green", "-": "red"}
    for change in plan.changes:
        cli.print(*(cli.paint(line, colours[line[0]]) if line[:1] in colours else line for line in change.diff()))
    for folder in plan.folders:
        cli.print(f"{'remove, if it is empty,' if remove else 'make'} the folder {folder}")
    for session in plan.sessions:
        cli.print(f"stop renewing the claims of session {session}, which is open: they last until their TTL has passed")


def _agreed(cli: Cli) -> bool:
    if cli.args.yes:
        return True
    if not identity.can_confirm(cli):
        raise UsageError("nothing was changed; to write this, add --yes", field="yes")
    sys.stdout.flush()
    return identity.confirm("write this")


def _notes(cli: Cli, client: Client, plan: Plan) -> list[str]:
    kept = [f"{path} was changed since setup, and stays" for path in plan.kept]
    return kept if cli.args.remove else kept + client.setup.notes
