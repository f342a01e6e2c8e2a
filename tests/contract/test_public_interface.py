"""What users import, set, call and query: none of it may disappear without a deprecation."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module

import pytest
from django.apps import apps
from django.core.management import BaseCommand, load_command_class
from django.dispatch import Signal

import steady_queue
from steady_queue import configuration, errors, signals
from steady_queue.aio.process.watchdog import EXIT_FORCED
from steady_queue.management.options import BOOLEANS, NUMBERS, PREFIX, STRINGS

NAMES = {
    "steady_queue": (
        "SteadyQueueTask __version__ adisable_recurring_task aenable_recurring_task aenqueue_all "
        "aschedule_recurring_task aunschedule_recurring_task disable_recurring_task enable_recurring_task enqueue_all "
        "schedule_recurring_task task unschedule_recurring_task GiveUp Interrupted RetryLater Snooze SteadyQueueResult "
        "TaskContext TaskState Unique exponential fixed steps Progress LogLine StateChanged Update"
    ),
    "steady_queue.actions": (
        "aclear_queue adiscard adiscard_many adiscard_where apause aresume aretry aretry_many aretry_where arun_now "
        "arun_now_many clear_queue discard discard_many discard_where pause resume retry retry_many retry_where "
        "run_now run_now_many CancelOutcome acancel acancel_many acancel_where cancel cancel_many cancel_where "
        "ProcessReply aread_reply arequest_stack astop_process read_reply request_stack stop_process"
    ),
    "steady_queue.aio": "Process running",
    "steady_queue.arguments": "DeserializationError SerializationError",
    "steady_queue.asgi": "SteadyQueue",
    "steady_queue.backend": "SteadyQueueBackend",
    "steady_queue.concurrency": "limits_concurrency",
    "steady_queue.configuration": "Configuration Dispatcher Options RecurringTask Worker",
    "steady_queue.db_router": "SteadyQueueOnlyRouter SteadyQueueRouter",
    "steady_queue.dashboard.site": "PAGES",
    "steady_queue.errors": (
        "ArgumentError ConcurrencyKeyError ConfigurationError DeserializationError EnqueueError JobIsRunning "
        "OrmThreadTimeout ProcessExitError ProcessMissingError ProcessPrunedError SteadyQueueError StoreBug "
        "StoreConflict StoreDataError StoreError StoreNotMigrated StoreUnavailable TransactionLeftOpen "
        "UnknownRecurringTask UnknownTaskError TaskTimeout TaskCancelled TaskExpired ClaimLost DuplicateTask "
        "CompletionError TransactionEndedByTask "
        "UniqueKeyError JobIsNotRunning UnknownProcess UnknownRequest"
    ),
    "steady_queue.events": "Event Events Fault Subscription emit log subscribe unsubscribe",
    "steady_queue.hooks": "Actor dispatcher on_error remove scheduler supervisor worker",
    "steady_queue.models": (
        "BlockedExecution ClaimedExecution FailedExecution Job LockBucket Pause Process ReadyExecution "
        "RecurringExecution RecurringTask ScheduledExecution Semaphore Cancellation Expiry SchemaVersion UniqueKey "
        "ProcessRequest TaskStatistics"
    ),
    "steady_queue.processes": "ProcessExitError ProcessMissingError ProcessPrunedError",
    "steady_queue.queues": "Queue",
    "steady_queue.recurring_task": "recurring",
    "steady_queue.signals": (
        "ProcessLifecycle QueueLifecycle process_restarted process_started process_stopped queue_paused queue_resumed"
    ),
    "steady_queue.testing": "arun_pending assert_enqueued assert_not_enqueued enqueued run_pending",
}


@pytest.mark.parametrize("module", NAMES)
def test_every_public_name_can_be_imported(module: str) -> None:
    found = import_module(module)
    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []


def test_every_error_is_public() -> None:
    classes = {name for name, value in vars(errors).items() if isinstance(value, type) and not name.startswith("_")}
    assert classes == set(NAMES["steady_queue.errors"].split())


def test_settings() -> None:
    assert set(steady_queue.__annotations__) == {
        *(
            "check_arguments",
            "clear_failed_jobs_after",
            "clear_finished_jobs_after",
            "code_version",
            "database",
            "default_concurrency_control_period",
        ),
        *("notify", "orm_thread_timeout", "preserve_finished_jobs", "process_alive_threshold", "redacted_arguments"),
        *("process_heartbeat_interval", "shutdown_timeout", "statistics_retention", "supervisor_pidfile"),
    }


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (
            configuration.Options,
            (
                "workers dispatchers recurring_tasks only_work skip_recurring max_tasks max_rss max_stuck_threads "
                "log_format"
            ),
        ),
        (
            configuration.Worker,
            "queues exclude_queues coroutines threads subprocesses processes polling_interval orm_lanes",
        ),
        (
            configuration.Dispatcher,
            "polling_interval batch_size concurrency_maintenance concurrency_maintenance_interval",
        ),
        (
            configuration.RecurringTask,
            (
                "key class_name schedule arguments queue_name priority description time_zone catch_up command "
                "skip_if_unfinished"
            ),
        ),
    ],
)
def test_options_in_settings(kind: type, names: str) -> None:
    assert [field.name for field in fields(kind)] == names.split()


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (
            "steady_queue",
            (
                "--async --coroutines --drain --exclude-queues --failed --force --json --log-format --max-age "
                "--max-rss --max-stuck-threads --max-tasks --no-async --no-drain --no-only-work --no-skip-recurring "
                "--only-work --pdb --processes --queues --reload --rollback --skip-recurring --stored --threads "
                "--by --no-input --noinput --queue --reason --status --task "
                "--after --before --cancel --clear --discard --error --key --limit --pause --resume --retry --run-now "
                "--since --state --stop --text --watch --worker --yes"
            ),
        ),
        ("steady_queue_clear", "--batch --dry-run --failed-before --finished-before --queue --task"),
    ],
)
def test_options_of_the_commands(command: str, options: str) -> None:
    parser = load_command_class("steady_queue", command).create_parser("manage.py", command)
    known = {text for action in parser._actions for text in action.option_strings}
    of_django = {text for action in BaseCommand().create_parser("", "")._actions for text in action.option_strings}
    assert known - of_django == set(options.split())


def test_environment_variables() -> None:
    names = {f"{PREFIX}{name.upper()}" for name in (*NUMBERS, *BOOLEANS, *STRINGS)}
    assert names == {
        *("STEADY_QUEUE_ASYNC", "STEADY_QUEUE_COROUTINES", "STEADY_QUEUE_DRAIN", "STEADY_QUEUE_LOG_FORMAT"),
        *("STEADY_QUEUE_MAX_RSS", "STEADY_QUEUE_MAX_TASKS", "STEADY_QUEUE_ONLY_WORK", "STEADY_QUEUE_PROCESSES"),
        *("STEADY_QUEUE_EXCLUDE_QUEUES", "STEADY_QUEUE_QUEUES", "STEADY_QUEUE_SKIP_RECURRING", "STEADY_QUEUE_THREADS"),
        "STEADY_QUEUE_MAX_STUCK_THREADS",
    }


def test_signals() -> None:
    known = {name for name, value in vars(signals).items() if isinstance(value, Signal)}
    assert known == {name for name in NAMES["steady_queue.signals"].split() if name.islower()}


def test_tables() -> None:
    models = apps.get_app_config("steady_queue").get_models()
    names = "blockedexecution claimedexecution failedexecution job lockbucket pause process readyexecution"
    names += " recurringexecution recurringtask scheduledexecution semaphore cancellation expiry"
    names += " schemaversion uniquekey processrequest taskstatistics"
    assert {model._meta.db_table for model in models} == {f"steady_queue_{name}" for name in names.split()}


def test_the_exit_status_of_a_process_that_lost_its_lease() -> None:
    assert EXIT_FORCED == 75
