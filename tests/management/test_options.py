"""Options of the command line, the environment and settings.py, and which of them takes precedence."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

import steady_queue
from steady_queue.configuration import Dispatcher, Options, RecurringTask, Worker, problems
from steady_queue.management.commands.steady_queue import Command
from steady_queue.management.options import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steady_queue.management.options import ResolvedOptions

OURS = "steady_queue.backend.SteadyQueueBackend"
QUEUES = ["default", "mail", "reports"]

#: Options of the settings, with no value by default.
CONFIGURED = Options(
    workers=[
        Worker(
            queues=["mail*"],
            exclude_queues=["mail_slow"],
            coroutines=11,
            threads=12,
            processes=13,
            polling_interval=timedelta(seconds=2),
        ),
        Worker(queues=["reports"], coroutines=14, threads=15),
    ],
    max_tasks=16,
    max_rss=17,
    max_stuck_threads=18,
    log_format="json",
    only_work=True,
    skip_recurring=True,
)


def from_line(*arguments: str, environ: dict[str, str] | None = None, options: Options = CONFIGURED) -> ResolvedOptions:
    """The options of a command line, parsed as the command does it."""
    parser = Command().create_parser("manage.py", "steady_queue")
    return resolve(options, vars(parser.parse_args(list(arguments))), environ or {})


def facts(found: ResolvedOptions) -> dict[str, Any]:
    """Everything that can be overridden."""
    options, first = found.options, found.options.workers[0]
    return {
        "queues": [list(worker.queues) for worker in options.workers],
        "exclude_queues": [list(worker.exclude_queues) for worker in options.workers],
        "coroutines": first.coroutines,
        "threads": first.threads,
        "processes": first.processes,
        "max_tasks": options.max_tasks,
        "max_rss": options.max_rss,
        "max_stuck_threads": options.max_stuck_threads,
        "log_format": options.log_format,
        "only_work": options.only_work,
        "skip_recurring": options.skip_recurring,
        "async": found.in_one_loop,
        "drain": found.drain,
    }


IN_SETTINGS = {
    "queues": [["mail*"], ["reports"]],
    "exclude_queues": [["mail_slow"], []],
    "coroutines": 11,
    "threads": 12,
    "processes": 13,
    "max_tasks": 16,
    "max_rss": 17,
    "max_stuck_threads": 18,
    "log_format": "json",
    "only_work": True,
    "skip_recurring": True,
    "async": False,
    "drain": False,
}

#: The option, its text in the environment and its value; its words on the command line, and its value.
EACH = [
    ("queues", "a, b*", [["a", "b*"]], ["--queues", "c,d"], [["c", "d"]]),
    ("exclude_queues", "a, b*", [["a", "b*"]] * 2, ["--exclude-queues", "c,d"], [["c", "d"]] * 2),
    ("coroutines", "21", 21, ["--coroutines", "31"], 31),
    ("threads", "22", 22, ["--threads=0"], 0),
    ("processes", " 23 ", 23, ["--processes", "33"], 33),
    ("max_tasks", "26", 26, ["--max-tasks", "36"], 36),
    ("max_rss", "27", 27, ["--max-rss", "37"], 37),
    ("max_stuck_threads", "28", 28, ["--max-stuck-threads", "38"], 38),
    ("log_format", "text", "text", ["--log-format", "json"], "json"),
    ("only_work", "0", False, ["--only-work"], True),
    ("skip_recurring", "off", False, ["--skip-recurring"], True),
    ("async", "True", True, ["--no-async"], False),
    ("drain", "yes", True, ["--no-drain"], False),
]


def test_without_overrides_the_settings_are_obeyed() -> None:
    found = from_line()
    assert facts(found) == IN_SETTINGS
    assert found.options == CONFIGURED
    assert (found.problems, found.named_queues) == ([], [])
    assert facts(from_line(environ={f"STEADY_QUEUE_{name.upper()}": "" for name, *_ in EACH})) == IN_SETTINGS


@pytest.mark.parametrize(("name", "text", "value", "words", "wins"), EACH, ids=[name for name, *_ in EACH])
def test_the_environment_wins_over_the_settings_and_the_command_line_over_both(
    name: str, text: str, value: object, words: list[str], wins: object
) -> None:
    environ = {f"STEADY_QUEUE_{name.upper()}": text, "STEADY_QUEUE_CHILDREN": "x"}
    # The exclusions of the settings belong to the queues of the settings.
    expected = {**IN_SETTINGS, "exclude_queues": [[]]} if name == "queues" else IN_SETTINGS
    found = from_line(environ=environ)
    assert facts(found) == {**expected, name: value}
    assert found.problems == []
    found = from_line(*words, environ=environ)
    assert facts(found) == {**expected, name: wins}
    assert found.problems == []


def test_a_number_is_for_every_worker_and_named_queues_are_for_one_like_the_first() -> None:
    found = from_line("--threads", "9", "--coroutines", "0")
    assert [(worker.threads, worker.coroutines) for worker in found.options.workers] == [(9, 0), (9, 0)]
    (worker,) = from_line("--queues", "a").options.workers
    assert worker.polling_interval == timedelta(seconds=2)
    assert from_line("--queues", "a").named_queues == ["a"]
    assert from_line("--queues", "a*", "--exclude-queues", "ab").named_queues == ["a*", "ab"]
    (worker,) = from_line("--queues", "a", options=Options(workers=[])).options.workers
    assert (worker.queues, worker.threads) == (["a"], Worker().threads)


def test_code_may_give_values_instead_of_texts() -> None:
    given = {"queues": ["a", "b"], "threads": 4, "async": True, "drain": False}
    found = resolve(CONFIGURED, given, {"STEADY_QUEUE_DRAIN": "1"})
    assert facts(found) == {**IN_SETTINGS, "queues": [["a", "b"]], "exclude_queues": [[]], "threads": 4, "async": True}


@pytest.mark.parametrize("name", ["coroutines", "threads", "processes", "max_tasks", "max_rss", "max_stuck_threads"])
@pytest.mark.parametrize("value", ["many", "1.5", "1e3", "٣x"])
def test_what_is_no_whole_number_is_named_where_it_stands(name: str, value: str) -> None:
    found = from_line(environ={f"STEADY_QUEUE_{name.upper()}": value})
    assert found.problems == [f"STEADY_QUEUE_{name.upper()} must be an integer, not {value!r}"]
    assert found.options == CONFIGURED
    option = f"--{name.replace('_', '-')}"
    assert from_line(f"{option}={value}").problems == [f"{option} must be an integer, not {value!r}"]
    assert from_line(f"{option}=").problems == [f"{option} must be an integer, not ''"]


@pytest.mark.parametrize("name", ["async", "drain", "only_work", "skip_recurring"])
def test_a_switch_that_is_neither_on_nor_off_is_named(name: str) -> None:
    found = from_line(environ={f"STEADY_QUEUE_{name.upper()}": "perhaps"})
    assert found.problems == [f"STEADY_QUEUE_{name.upper()} must be 1 or 0, not 'perhaps'"]
    assert facts(found) == IN_SETTINGS


def test_queues_without_a_name_are_named() -> None:
    assert from_line(environ={"STEADY_QUEUE_QUEUES": " , "}).problems == [
        "STEADY_QUEUE_QUEUES must name at least one queue, not ' , '"
    ]
    assert from_line("--queues", "").problems == ["--queues must name at least one queue, not ''"]
    assert from_line("--exclude-queues", "").problems == ["--exclude-queues must name at least one queue, not ''"]


# -- the options themselves -------------------------------------------------------------------------------------------


def test_options_come_back_from_json_as_they_were() -> None:
    options = Options(
        workers=[Worker(queues=["a", "b*"], polling_interval=timedelta(milliseconds=250), orm_lanes=2), Worker()],
        dispatchers=[Dispatcher(polling_interval=timedelta(minutes=1), concurrency_maintenance=False)],
        recurring_tasks=[
            RecurringTask(key="a", class_name="tests.shop.tasks.noop", schedule="0 9 * * *"),
            RecurringTask(
                key="b",
                class_name="tests.shop.tasks.anything",
                schedule="@every 5",
                arguments={"args": [1, None], "kwargs": {"b": {"c": [1.5]}}},
                queue_name="mail",
                priority=3,
                description="ü",
                time_zone="Europe/Madrid",
                catch_up="last",
            ),
        ],
        max_tasks=5,
        log_format="json",
        only_work=True,
    )
    for each in (options, Options(), *options.per_process()):
        text = json.dumps(each.to_dict())
        back = Options.from_dict(json.loads(text))
        assert json.dumps(back.to_dict()) == text
        assert list(back.problems()) == []
    assert Options.from_dict(options.to_dict()) == options


def test_what_options_do_not_have_is_an_error() -> None:
    values = Options().to_dict()
    with pytest.raises(ValueError, match="Options has no colour"):
        Options.from_dict({**values, "colour": "red"})
    with pytest.raises(ValueError, match="Worker has no colour, size"):
        Options.from_dict({**values, "workers": [{"size": 1, "colour": "red"}]})
    with pytest.raises(ValueError, match="Dispatcher has no colour"):
        Options.from_dict({**values, "dispatchers": [{"colour": "red"}]})
    with pytest.raises(ValueError, match="RecurringTask has no colour"):
        Options.from_dict({**values, "recurring_tasks": [{"colour": "red"}]})


def test_each_process_has_one_part() -> None:
    options = Options(workers=[Worker(queues=["a"], processes=2), Worker(queues=["b"])])
    parts = options.per_process()
    assert [[list(worker.queues) for worker in part.workers] for part in parts] == [[["a"]], [["a"]], [["b"]], []]
    assert [part.only_work for part in parts] == [True, True, True, False]
    assert [worker.processes for part in parts for worker in part.workers] == [1, 1, 1]
    (additional,) = options.additional_processes()
    assert [list(worker.queues) for worker in additional.workers] == [["a"]]
    assert Options(only_work=True).per_process()[0].only_work
    assert len(Options(only_work=True).per_process()) == 1


# -- refused ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def _restricted() -> Iterator[None]:
    """Every backend of Steady Queue lists its queues."""
    with override_settings(TASKS={"default": {"BACKEND": OURS, "QUEUES": QUEUES}}):
        yield


def refusal(*arguments: str, environ: dict[str, str] | None = None, **options: Any) -> list[str]:
    """The lines of the error with which the command is refused."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (environ or {}).items():
            patch.setitem(os.environ, name, value)
        with pytest.raises(CommandError) as raised:
            call_command("steady_queue", *arguments, stderr=StringIO(), **options)
    assert raised.value.returncode == 1
    return str(raised.value).splitlines()


@pytest.mark.only_on("sqlite")
@pytest.mark.usefixtures("_restricted")
def test_all_problems_are_reported_at_once(database: str) -> None:
    reported = refusal(
        "--async",
        "--threads=99999999999999999999",
        "--coroutines=many",
        "--max-tasks=0",
        "--log-format=xml",
        environ={"STEADY_QUEUE_MAX_RSS": "0", "STEADY_QUEUE_DRAIN": "maybe", "STEADY_QUEUE_PROCESSES": "0"},
    )
    assert reported == [
        "--coroutines must be an integer, not 'many'",
        "STEADY_QUEUE_DRAIN must be 1 or 0, not 'maybe'",
        "workers[0]: threads must be at most 1,000, not 99,999,999,999,999,999,999",
        "workers[0]: processes must be an integer of at least 1, not 0",
        "max_tasks must be an integer of at least 1, not 0",
        "max_rss must be an integer of at least 1, not 0",
        "log_format must be 'text' or 'json', not 'xml'",
    ]


@pytest.mark.only_on("sqlite")
@pytest.mark.usefixtures("_restricted")
def test_a_queue_that_no_backend_has_is_named_with_a_suggestion(database: str) -> None:
    assert refusal("--async", "--queues", "mial,default") == [
        "workers[0]: no backend in TASKS has a queue 'mial' in its QUEUES. Did you mean 'mail'?"
    ]
    (reported,) = refusal("--async", environ={"STEADY_QUEUE_QUEUES": "xyzzy"})
    assert reported.endswith(f"no backend in TASKS has a queue 'xyzzy' in its QUEUES. The queues are {QUEUES}.")


@pytest.mark.only_on("sqlite")
@pytest.mark.usefixtures("_restricted")
def test_exclusions_that_are_unknown_or_leave_nothing_are_refused(database: str) -> None:
    assert refusal("--async", "--exclude-queues", "mial") == [
        "workers[0]: no backend in TASKS has a queue 'mial' in its QUEUES. Did you mean 'mail'?"
    ]
    (everything,) = refusal("--async", "--exclude-queues", "*")
    assert everything.startswith("workers[0]: exclude_queues (*) excludes every queue of the worker (*): it could not")
    (reported,) = refusal("--async", "--queues", "mail,rep*", environ={"STEADY_QUEUE_EXCLUDE_QUEUES": "r*,mail"})
    assert "exclude_queues (r*, mail) excludes every queue of the worker (mail, rep*)" in reported
    assert refusal("--async", "--exclude-queues", "mail,default,reports") == [
        f"workers[0]: the excluded queues leave none of the queues {QUEUES}. Exclude fewer queues."
    ]


@pytest.mark.only_on("sqlite")
def test_an_empty_configuration_is_refused_with_a_message(database: str) -> None:
    with override_settings(STEADY_QUEUE=Options(workers=[])):
        assert refusal("--async", "--only-work") == ["there is nothing to run: no workers and no dispatchers"]
    with override_settings(STEADY_QUEUE={"workers": []}):
        (message,) = refusal("--async")
    assert message.startswith(
        "STEADY_QUEUE must be Configuration.Options(...), not {'workers': []}: from steady_queue."
    )
    assert refusal("--async", "--threads=0", "--coroutines=0") == [
        "workers[0]: coroutines and threads are both 0: the worker could not run any task"
    ]


@pytest.mark.only_on("sqlite")
def test_code_that_calls_the_command_may_start_no_processes(database: str) -> None:
    assert refusal() == [
        "call_command requires '--async': call_command('steady_queue', '--async')",
    ]
    assert refusal("--async", "--processes", "2") == ["call_command cannot start child processes: processes must be 1"]
    with override_settings(STEADY_QUEUE=Options(workers=[Worker(processes=2)])):
        assert refusal("--async") == ["call_command cannot start child processes: processes must be 1"]


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(CommandError, match="unrecognized arguments: --thread-count=5"):
        call_command("steady_queue", "--thread-count=5")
    with pytest.raises(CommandError, match="invalid choice: 'sing'"):
        call_command("steady_queue", "sing")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shutdown_timeout", 30),
        ("shutdown_timeout", timedelta(seconds=-5)),
        ("clear_finished_jobs_after", 5),
        ("clear_finished_jobs_after", timedelta(days=-1)),
        ("clear_failed_jobs_after", "7d"),
        ("process_heartbeat_interval", 1),
        ("process_alive_threshold", None),
        ("supervisor_pidfile", 5),
        ("preserve_finished_jobs", "no"),
        ("notify", "no"),
    ],
)
def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    monkeypatch.setattr(steady_queue, name, value)
    (problem,) = problems(Options())
    assert problem.startswith(f"{name} must be")
    assert repr(value) in problem


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (Options(workers=None), "workers must be a list, not None"),  # type: ignore[arg-type]
        (Options(workers=Worker()), "workers must be a list, not Worker("),  # type: ignore[arg-type]
        (Options(workers=[{"threads": 3}]), "workers[0] must be Configuration.Worker(...), not {"),  # type: ignore[list-item]
        (Options(dispatchers=[Worker()]), "dispatchers[0] must be Configuration.Dispatcher(...), not Worker("),  # type: ignore[list-item]
        (Options(workers=[Worker(queues={"a"})]), "workers[0]: queues must be a list of queue names, not {'a'}"),  # type: ignore[arg-type]
        (Options(workers=[Worker(queues=["a", " "])]), "workers[0]: queues contains an invalid queue name: ' '"),
        (
            Options(workers=[Worker(exclude_queues={"a"})]),  # type: ignore[arg-type]
            "workers[0]: exclude_queues must be a list of queue names, not {'a'}",
        ),
        (Options(workers=[Worker(exclude_queues="")]), "workers[0]: exclude_queues contains an invalid queue name: ''"),
        (Options(workers=[Worker(processes=1001)]), "workers[0]: processes must be at most 1,000, not 1,001"),
        (Options(only_work="no"), "only_work must be True or False, not 'no'"),  # type: ignore[arg-type]
    ],
)
def test_options_of_a_wrong_kind_are_named_also_where_they_would_be_changed(options: Options, problem: str) -> None:
    resolved = resolve(options, {"threads": "5"}, {})
    (found,) = resolved.options.problems()
    assert found.startswith(problem)


def test_without_settings_one_worker_takes_everything_and_one_dispatcher_moves_what_is_due() -> None:
    (worker,), (dispatcher,) = Options().workers, Options().dispatchers
    assert (list(worker.queues), worker.coroutines, worker.threads, worker.processes) == (["*"], 100, 3, 1)
    assert worker.polling_interval == timedelta(seconds=0.1)
    assert (dispatcher.polling_interval, dispatcher.batch_size) == (timedelta(seconds=1), 500)
    assert [len(part.workers) for part in Options().per_process()] == [1, 0]
    assert list(problems(Options())) == []
