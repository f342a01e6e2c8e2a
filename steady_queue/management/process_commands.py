"""`manage.py steady_queue processes`: lists processes as a tree, shows one, and asks them to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from steady_queue import actions
from steady_queue.errors import UnknownProcess
from steady_queue.management.confirmation import confirm, find_user
from steady_queue.management.shell_output import ShellOutput, age_text
from steady_queue.management.tables import COLOURS, Cell, Column
from steady_queue.monitoring.json_values import process_as_json, running_as_json
from steady_queue.monitoring.process_jobs import read_running
from steady_queue.monitoring.process_list import each_process, read_processes
from steady_queue.monitoring.states import level_of
from steady_queue.monitoring.text import show_line, show_memory, show_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from django.core.management.base import OutputWrapper

    from steady_queue.monitoring.process_list import ProcessRow


def handle_processes(out: OutputWrapper, err: OutputWrapper, options: Mapping[str, Any]) -> int:
    """List or stop what the command line names, and return the exit status."""
    output = ShellOutput.of(out, err, options)
    names = list(dict.fromkeys(options["ids"]))
    tree = read_processes()
    if not names:
        if options["stop"]:
            raise CommandError("--stop needs the ids or names of processes")
        _write_list(output, tree)
        return 0
    everything = list(each_process(tree))
    found = [row for row in everything if row.name in names or str(row.id) in names]
    unknown = [name for name in names if not any(name in (row.name, str(row.id)) for row in everything)]
    dead: list[str] = []
    if options["stop"]:
        alive, problems = _split(found)
        stopped, gone = _stop(alive, options) if alive else ([], [])
        dead = list(problems)
        _write_stopped(output, stopped, [*unknown, *gone], dead)
        unknown += gone
        for name, problem in problems.items():
            output.note(f"{show_line(name)} {problem}: it was not asked to stop")
    else:
        _write_details(output, found)
    for name in unknown:
        output.note(f"{show_line(name)}: there is no such process: it has stopped, or was pruned")
    return 1 if unknown or dead else 0


def process_lines(output: ShellOutput, rows: Sequence[ProcessRow]) -> Iterable[str]:
    """Return the processes as a table, with each child below its supervisor."""
    if not rows:
        return [output.style.dim("No process is registered.")]
    columns = [
        Column("process", may_cut=True),
        Column("kind"),
        Column("state"),
        Column("lanes"),
        Column("running", is_number=True),
        Column("heartbeat", is_number=True),
        Column("lag", is_number=True),
        Column("memory", is_number=True),
        Column("queues", may_cut=True),
    ]
    return output.table(columns, list(_rows(rows, 0)))


def _rows(rows: Sequence[ProcessRow], depth: int) -> Iterator[list[str | Cell]]:
    for row in rows:
        indent = f"{'  ' * (depth - 1)}└ " if depth else ""
        yield [
            f"{indent}{row.name}",
            row.kind,
            Cell(row.state, COLOURS[level_of(row.state)]),
            " ".join(f"{lane.name} {lane.used}/{lane.size}" for lane in row.lanes),
            f"{row.running:,}",
            show_seconds(max(0.0, row.heartbeat_age_seconds)),
            show_seconds(row.loop_lag_seconds),
            show_memory(row.memory_bytes),
            ",".join(row.queues),
        ]
        yield from _rows(row.children, depth + 1)


def _write_list(output: ShellOutput, tree: Sequence[ProcessRow]) -> None:
    if output.as_json:
        output.write_json({"processes": [process_as_json(row) for row in tree]})
    else:
        output.write(*process_lines(output, tree))


def _write_details(output: ShellOutput, found: Sequence[ProcessRow]) -> None:
    """Write processes with the tasks that run in them."""
    running = {row.id: read_running(row.id) for row in found}
    if output.as_json:
        jobs = {id_: [running_as_json(job) for job in its] for id_, its in running.items()}
        output.write_json({"processes": [{**process_as_json(row), "running_jobs": jobs[row.id]} for row in found]})
        return
    columns = [
        Column("id"),
        Column("task", may_cut=True, cuts_start=True),
        Column("queue", may_cut=True),
        Column("started", is_number=True),
    ]
    for row in found:
        version = f", version {row.version}" if row.version else ""
        output.write(*process_lines(output, [row]))
        output.write(show_line(f"id {row.id}, pid {row.pid} on {row.hostname}{version}"))
        if running[row.id]:
            rows = [[str(job.id), job.task_path, job.queue_name, age_text(job.claimed_at)] for job in running[row.id]]
            output.write(*output.table(columns, rows))


def _split(found: Sequence[ProcessRow]) -> tuple[list[ProcessRow], dict[str, str]]:
    """Return the processes that can be asked to stop, and by their names why the others cannot."""
    problems = {row.name: problem for row in found if (problem := row.explain_dead())}
    return [row for row in found if row.is_alive], problems


def _stop(found: Sequence[ProcessRow], options: Mapping[str, Any]) -> tuple[list[dict[str, str]], list[str]]:
    """Ask processes to stop; returns the requests, and the names of those that have stopped meanwhile."""
    confirm(f"Ask {', '.join(show_line(row.name) for row in found)} to stop?", options)
    stopped, gone = [], []
    for row in found:
        try:
            request_id = actions.stop_process(row.id, by=find_user(options))
        except UnknownProcess:
            gone.append(row.name)
        except ValueError as error:
            raise CommandError(str(error)) from error
        else:
            stopped.append({"id": str(row.id), "name": row.name, "request_id": request_id})
    return stopped, gone


def _write_stopped(
    output: ShellOutput, stopped: Sequence[Mapping[str, str]], unknown: Sequence[str], dead: Sequence[str]
) -> None:
    if output.as_json:
        output.write_json({"action": "stop", "stopped": stopped, "unknown": unknown, "dead": dead})
        return
    for row in stopped:
        output.write(f"{show_line(row['name'])} is asked to stop: it ends when its running tasks have ended")
