"""The tables of the documentation list everything that the code has, and nothing else."""

from __future__ import annotations

import logging
import re
from dataclasses import fields
from inspect import signature
from typing import TYPE_CHECKING, get_args

import pytest
from django.core.management import load_command_class
from django.core.management.base import BaseCommand
from django.dispatch import Signal

import steady_queue
from steady_queue import errors, events, hooks, processes, signals, testing
from steady_queue.checks.installation import _OPTIONS
from steady_queue.concurrency import limits_concurrency
from steady_queue.configuration import Dispatcher, Options, RecurringTask, Worker
from steady_queue.dashboard.site import PAGES
from steady_queue.management.options import BOOLEANS, NUMBERS, PREFIX, STRINGS
from steady_queue.monitoring.jobs.detail import find_detail
from steady_queue.monitoring.jobs.json_values import detail_as_json, row_as_json
from steady_queue.monitoring.jobs.rows import load_rows
from steady_queue.monitoring.jobs.timeline import Ending, Kind
from steady_queue.monitoring.json_values import running_as_json
from steady_queue.monitoring.overview import read_overview
from steady_queue.monitoring.process_jobs import read_running
from steady_queue.monitoring.states import JobState
from steady_queue.monitoring.statistics import Rate
from steady_queue.recurring_task import recurring
from tests.contract.test_public_interface import NAMES
from tests.dashboard.samples import fill
from tests.docs.pages import ROOT, first_names, names, page, tables

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS = page("docs/reference/settings.md")
COMMAND = page("docs/reference/command.md")
OBSERVABILITY = page("docs/guides/observability.md")
DASHBOARD = page("docs/guides/dashboard.md")


def test_every_setting_of_the_module_is_listed() -> None:
    settings = set(steady_queue.__annotations__) - {"annotations"}

    assert sorted(first_names(SETTINGS.section("Module settings"), "setting")) == sorted(settings)


def test_every_option_of_the_backend_is_listed() -> None:
    assert sorted(first_names(SETTINGS.section("The TASKS setting"), "option")) == sorted(_OPTIONS)


@pytest.mark.parametrize("kind", [Worker, Dispatcher, Options, RecurringTask])
def test_every_field_of_the_configuration_is_listed(
    kind: type[Worker | Dispatcher | Options | RecurringTask],
) -> None:
    listed = first_names(SETTINGS.section(f"Configuration.{kind.__name__}"), f"`{kind.__name__}`")

    assert sorted(listed) == sorted(field.name for field in fields(kind))


@pytest.mark.parametrize(
    ("path", "heading", "function"),
    [
        ("docs/guides/concurrency.md", "argument", limits_concurrency),
        ("docs/guides/recurring.md", "argument", recurring),
        ("docs/guides/testing.md", "option", testing.run_pending),
        ("docs/guides/testing.md", "option", testing.arun_pending),
    ],
)
def test_every_argument_of_a_function_is_listed(path: str, heading: str, function: Callable[..., object]) -> None:
    assert sorted(first_names(page(path).text, heading)) == sorted(signature(function).parameters)


def test_every_event_is_listed_with_its_level_and_its_fields() -> None:
    rows = tables(page("docs/reference/events.md").text, "event")
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, events.Event)]

    listed = [(*names(name), level, sorted(names(listed))) for name, level, listed, _ in rows]
    assert sorted(listed) == sorted(
        (kind.__name__, logging.getLevelName(kind.level).removeprefix("Level "), sorted(fields_of(kind)))
        for kind in kinds
        if kind not in (events.Event, events.Fault)
    )


def fields_of(kind: type[events.Event]) -> set[str]:
    named = {name for base in kind.__mro__ for name in getattr(base, "__annotations__", {})}
    return named - {"level", "text"}


def test_the_events_to_alert_on_exist() -> None:
    listed = first_names(OBSERVABILITY.section("What to alert on"), "event")

    assert [name for name in listed if not hasattr(events, name)] == []


def test_every_signal_is_listed() -> None:
    known = [name for name, value in vars(signals).items() if isinstance(value, Signal)]

    assert sorted(first_names(OBSERVABILITY.section("Signals"), "signal")) == sorted(known)


def test_every_hook_is_listed() -> None:
    listed = first_names(OBSERVABILITY.section("Hooks"), "hook")

    assert sorted(listed) == ["on_exit", "on_start", "on_stop"]
    for kind in ("supervisor", "worker", "dispatcher", "scheduler"):
        assert all(hasattr(getattr(hooks, kind), name) for name in listed)


def test_every_error_is_listed() -> None:
    known = {
        name
        for module in (errors, processes)
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, errors.SteadyQueueError)
    }

    assert sorted(first_names(page("docs/reference/errors.md").text, "error")) == sorted(known)


def test_every_system_check_is_listed() -> None:
    sources = [file.read_text() for file in (ROOT / "steady_queue").rglob("*.py")]
    known = {
        number
        for source in sources
        for number in re.findall(r'(?:steady_queue\.|_message\((?:Error|Warning), ")([EW]\d{3})"', source)
    }

    listed = [name.removeprefix("steady_queue.") for name in first_names(page("docs/reference/checks.md").text, "id")]
    assert sorted(listed) == sorted(known)


@pytest.mark.parametrize(
    ("command", "section"), [("steady_queue", "steady_queue"), ("steady_queue_clear", "Clear old tasks")]
)
def test_every_option_of_a_command_is_listed(command: str, section: str) -> None:
    listed = [
        found for row in tables(COMMAND.section(section), "option") for found in re.findall(r"`(--?[\w-]+)", row[0])
    ]

    known = options_of(load_command_class("steady_queue", command)) - options_of(BaseCommand())
    assert sorted(set(listed) - {"-v"}) == sorted(known)
    assert len(listed) - listed.count("-v") == len(known)


def options_of(command: BaseCommand) -> set[str]:
    """The long options of a command, without the negative forms of switches."""
    parser = command.create_parser("manage.py", "command")
    return {action.option_strings[0] for action in parser._actions if action.option_strings}


def test_every_environment_variable_is_listed() -> None:
    listed = [name for row in tables(COMMAND.section("steady_queue"), "option") for name in names(row[1])]

    assert sorted(listed) == sorted(f"{PREFIX}{name.upper()}" for name in (*NUMBERS, *BOOLEANS, *STRINGS))


def test_every_action_of_the_command_is_shown() -> None:
    parser = load_command_class("steady_queue", "steady_queue").create_parser("manage.py", "steady_queue")
    (actions,) = [action.choices for action in parser._actions if action.dest == "action"]

    for action in set(actions or ()) - {"run"}:
        assert f"\npython manage.py steady_queue {action} " in COMMAND.text


def test_every_public_name_is_on_the_page_about_stability() -> None:
    rows = tables(page("docs/stability.md").section("What is public"), "module")

    listed = {names(module)[0]: " ".join(names(cell)) for module, cell in rows}
    assert listed == NAMES


def test_every_permission_of_the_dashboard_is_listed() -> None:
    pages = [model._meta for model in PAGES]
    views = [f"view_{options.model_name}" for options in pages]
    changes = [codename for options in pages for codename, _ in options.permissions]
    forms = [f"{change}_recurringtask" for change in ("add", "change", "delete")]

    listed = first_names(DASHBOARD.section("Permissions"), "permission of `steady_queue`")

    assert sorted(listed) == sorted([*views, *changes, *forms])


@pytest.mark.usually_on("sqlite")
def test_every_key_of_the_json_is_listed(database: str) -> None:
    fill(database)
    found = read_overview().as_json()
    values = [found[part][0] for part in ("queues", "processes", "hour", "attention")]

    rows = tables(DASHBOARD.section("JSON"), "key")

    listed = [name for row in rows for name in names(row[0])]
    assert sorted(listed) == sorted(key for value in values for key in value)
    (kinds,) = [names(row[1]) for row in rows if "unserved_queue" in row[1]]
    assert {finding["kind"] for finding in found["attention"]} <= set(kinds)


@pytest.mark.usually_on("sqlite")
def test_every_key_of_a_task_in_the_json_is_listed(database: str) -> None:
    sample = fill(database)
    failed = sample.states[JobState.FAILED].id
    (row,) = map(row_as_json, load_rows([failed]))
    detail = find_detail(failed)
    assert detail is not None
    shown = detail_as_json(detail)
    (attempt,) = [entry["attempt"] for entry in shown["timeline"] if entry["kind"] == "attempt"]
    (running,) = map(running_as_json, read_running(sample.worker))

    text = DASHBOARD.section("Keys of tasks")

    assert sorted(first_names(text, "key of a task")) == sorted(row)
    assert sorted(first_names(text, "more of a task")) == sorted(shown.keys() - row.keys())
    assert sorted(first_names(text, "key of an entry")) == sorted(shown["timeline"][0])
    assert sorted(first_names(text, "key of an attempt")) == sorted(attempt)
    assert sorted(first_names(text, "key of a running task")) == sorted(running)
    assert sorted(first_names(text, "key of a rate")) == sorted(Rate._fields)


@pytest.mark.parametrize(("heading", "key", "values"), [("entry", "kind", Kind), ("attempt", "ending", Ending)])
def test_every_kind_of_what_happened_to_a_task_is_listed(heading: str, key: str, values: object) -> None:
    (listed,) = [
        cell for name, cell in tables(DASHBOARD.section("Keys of tasks"), f"key of an {heading}") if key in name
    ]

    assert re.findall(r"`([\w ]+)`", listed) == list(get_args(values))


def test_every_kind_of_reason_why_a_task_waits_is_listed() -> None:
    source = (ROOT / "steady_queue/monitoring/jobs/waiting_reasons.py").read_text()
    (listed,) = [row[1] for row in tables(DASHBOARD.section("Keys of tasks"), "more of a task") if "waiting" in row[0]]

    assert set(names(listed)) - {"text", "kind"} == set(re.findall(r'WaitingReason\("(\w+)"', source))
