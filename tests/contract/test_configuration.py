"""The seed's "Configuration": the options, the queues that workers take, and the settings of the module."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections
from django.test import override_settings

import steady_queue
from steady_queue.aio import running
from steady_queue.checks.preflight import at_start, examine
from steady_queue.configuration import Configuration, alive_threshold, read_options
from steady_queue.models import Job
from steady_queue.testing import run_pending
from tests.contract.examples import greet, note
from tests.support.databases.tables import count, query
from tests.support.processes.scripts import run_script
from tests.support.runtime import in_thread, wait_for_results

if TYPE_CHECKING:
    from pathlib import Path

STEADY_QUEUE = Configuration.Options(
    dispatchers=[Configuration.Dispatcher(polling_interval=timedelta(seconds=1), batch_size=500)],
    workers=[Configuration.Worker(queues=["*"], threads=3, polling_interval=timedelta(seconds=0.1))],
)


# -- workers, dispatchers and scheduler -------------------------------------------------------------------------------


def test_configuration_the_example_is_what_runs_without_one() -> None:
    """`STEADY_QUEUE = Configuration.Options(...)`, and "If no configuration is provided"."""
    with override_settings(STEADY_QUEUE=STEADY_QUEUE):
        assert read_options() is STEADY_QUEUE
    default = read_options()
    assert list(default.workers[0].queues) == ["*"]
    assert [default.dispatchers, default.workers[0].threads] == [STEADY_QUEUE.dispatchers, 3]
    assert default.workers[0].polling_interval == timedelta(seconds=0.1)
    assert default.workers[0].processes == 1
    assert default.dispatchers[0].concurrency_maintenance
    assert default.dispatchers[0].concurrency_maintenance_interval == timedelta(seconds=600)


@pytest.mark.anyio
async def test_configuration_the_example_runs_tasks(database: str) -> None:
    """The same, run."""
    with override_settings(STEADY_QUEUE=STEADY_QUEUE):
        async with running() as process:
            (done,) = await wait_for_results(await note.using(queue_name="any queue").aenqueue("here"))
    assert done.return_value == "here"
    assert done.worker_ids == [process.name]


def test_configuration_what_is_left_out_has_its_default() -> None:
    """ "no configuration is given for workers or dispatchers"."""
    only_workers = Configuration.Options(workers=[Configuration.Worker(threads=9)])
    assert only_workers.dispatchers == [Configuration.Dispatcher()]
    only_dispatchers = Configuration.Options(dispatchers=[Configuration.Dispatcher(batch_size=1)])
    assert only_dispatchers.workers == [Configuration.Worker()]


# -- queues -----------------------------------------------------------------------------------------------------------


async def order_of(queues: list[str], *calls: tuple[str, int]) -> list[str]:
    """The order in which one thread of a worker on these queues runs tasks that waited, of which each is a queue's."""
    calls_made = [
        await note.using(queue_name=queue, priority=priority).aenqueue(f"{queue} {priority}")
        for queue, priority in calls
    ]
    options = Configuration.Options(workers=[Configuration.Worker(queues=queues, threads=1)])
    sentinel = await note.using(queue_name=_last_of(queues), priority=-100).aenqueue("the last")
    async with running(options):
        await wait_for_results(sentinel)
    for result in calls_made:
        await result.arefresh()
    taken = sorted((result for result in calls_made if result.is_finished), key=lambda result: result.started_at)
    return [str(result.return_value) for result in taken]


def _last_of(queues: list[str]) -> str:
    """A queue that the worker takes after all others."""
    name = queues[-1]
    return "zzz" if name == "*" else f"{name[:-1]}~" if name.endswith("*") else name


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        (["*"], ["background 50", "backend 20", "beta1 5", "beta2 2", "real_time 1"]),
        (["beta*"], ["beta1 5", "beta2 2"]),
        (["background", "backend"], ["background 50", "backend 20"]),
        (["back*"], ["backend 20", "background 50"]),
        (["real_time", "background"], ["real_time 1", "background 50"]),
        (["beta*", "background"], ["beta1 5", "beta2 2", "background 50"]),
        (["*_some_queue", "beta1"], ["beta1 5"]),
    ],
    ids=["all", "a prefix", "names", "another prefix", "order before priority", "prefix and name", "a star elsewhere"],
)
async def test_queues_that_a_worker_takes(database: str, queues: list[str], expected: list[str]) -> None:
    """`queues=['*']`, `['beta*']`, `['background', 'backend']`, `['back*']`, `['real_time', 'background']`, mixes."""
    calls = [("real_time", 1), ("backend", 20), ("background", 50), ("beta1", 5), ("beta2", 2)]
    assert await order_of(queues, *calls) == expected
    assert await in_thread(count, database, "readyexecution") == len(calls) - len(expected)


@pytest.mark.only_on("sqlite")
def test_queues_a_star_elsewhere_is_ignored_with_a_warning(database: str) -> None:
    """ "you can't specify queue names such as `*_some_queue`. These will be ignored."."""
    options = Configuration.Options(workers=[Configuration.Worker(queues=["*_some_queue", "mail"])])
    found = at_start(options)
    assert found.errors == ()
    (warning,) = found.warnings
    assert "'*_some_queue'" in warning


def test_queues_the_two_polling_queries(database: str) -> None:
    """ "Steady Queue only does two types of polling queries": with our table, and the larger priority first."""
    for queue, priority in (("a", 0), ("b", 5), ("a", 9)):
        note.using(queue_name=queue, priority=priority).enqueue(queue)
    lock = " FOR UPDATE SKIP LOCKED" if connections[database].features.has_select_for_update_skip_locked else ""
    table = "SELECT queue_name, priority FROM steady_queue_readyexecution"
    order = f"ORDER BY priority DESC, job_id ASC LIMIT 10{lock}"
    assert query(database, f"{table} {order}") == [("a", 9), ("b", 5), ("a", 0)]
    assert query(database, f"{table} WHERE queue_name = %s {order}", "a") == [("a", 9), ("a", 0)]
    names = "SELECT DISTINCT(queue_name) FROM steady_queue_readyexecution"
    assert query(database, f"{names} WHERE queue_name LIKE %s", "b%") == [("b",)]
    assert sorted(query(database, names)) == [("a",), ("b",)]
    run_pending()


# -- other configuration settings -------------------------------------------------------------------------------------

DEFAULTS: dict[str, Any] = {
    "process_heartbeat_interval": timedelta(seconds=60),
    "process_alive_threshold": timedelta(minutes=5),
    "shutdown_timeout": timedelta(seconds=5),
    "supervisor_pidfile": None,
    "preserve_finished_jobs": True,
    "clear_finished_jobs_after": timedelta(days=1),
    "default_concurrency_control_period": timedelta(minutes=3),
}


def test_settings_their_defaults() -> None:
    """ "Other configuration settings", each; a pidfile is written only where one is named."""
    defaults = run_script(f"import steady_queue; print([getattr(steady_queue, name) for name in {list(DEFAULTS)}])")
    assert defaults == f"{list(DEFAULTS.values())}\n"


def test_settings_are_assigned_in_settings_py(tmp_path: Path) -> None:
    """`import steady_queue; steady_queue.process_heartbeat_interval = timedelta(minutes=5)`, and each of the others."""
    values: dict[str, Any] = {
        "process_heartbeat_interval": timedelta(minutes=5),
        "process_alive_threshold": timedelta(minutes=20),
        "shutdown_timeout": timedelta(seconds=50),
        "supervisor_pidfile": "tmp/pids/steady_queue_supervisor.pid",
        "preserve_finished_jobs": False,
        "clear_finished_jobs_after": timedelta(days=7),
        "default_concurrency_control_period": timedelta(minutes=30),
    }
    assert values.keys() == DEFAULTS.keys()
    assigned = "".join(f"steady_queue.{name} = {value!r}\n" for name, value in values.items())
    imports = "import datetime\nfrom tests.settings import *\nimport steady_queue\n"
    (tmp_path / "assigned_settings.py").write_text(imports + assigned)
    script = f"""
import os, sys
sys.path.insert(0, {str(tmp_path)!r})
os.environ["DJANGO_SETTINGS_MODULE"] = "assigned_settings"
import django
django.setup()
import steady_queue
from steady_queue.checks.preflight import at_start
from steady_queue.configuration import Options
print([getattr(steady_queue, name) for name in {list(values)}], at_start(Options()).errors)
"""
    assert run_script(script) == f"{list(values.values())} ()\n"


@pytest.mark.only_on("sqlite")
def test_settings_a_longer_heartbeat_alone_takes_the_threshold_along(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example sets the interval alone: processes must not be taken for dead between two beats."""
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(minutes=5))
    assert (examine().errors, alive_threshold()) == ((), timedelta(minutes=10))
    monkeypatch.setattr(steady_queue, "process_alive_threshold", timedelta(minutes=9))
    (error,) = examine().errors
    assert "process_alive_threshold" in error


def test_settings_finished_jobs_that_are_not_preserved(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`preserve_finished_jobs`."""
    greet.enqueue("kept")
    run_pending(raising=True)
    assert count(database, "job") == 1
    monkeypatch.setattr(steady_queue, "preserve_finished_jobs", False)
    greet.enqueue("gone")
    run_pending(raising=True)
    assert count(database, "job") == 1


def test_settings_clearing_finished_jobs(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Job.objects.clear_finished_in_batches()`, by `clear_finished_jobs_after`."""
    for name in ("one", "two", "three"):
        greet.enqueue(name)
    run_pending(raising=True)
    greet.enqueue("waits")
    assert Job.objects.clear_finished_in_batches() == 0
    monkeypatch.setattr(steady_queue, "clear_finished_jobs_after", timedelta(0))
    assert Job.objects.clear_finished_in_batches(batch_size=2) == 3
    assert count(database, "job") == 1
