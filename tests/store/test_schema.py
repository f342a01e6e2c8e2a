"""The schema: what the migration made is what the models say, and it means the same on every database."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import IntegrityError, connections, models, transaction
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.state import ProjectState

from steady_queue.models import BlockedExecution, Job, LockBucket, Pause, Process, ReadyExecution, ScheduledExecution
from steady_queue.store.names import KEY_LENGTH, LOCK_ID_COUNT, NAME_LENGTH
from steady_queue.store.operations.promote import lock_id
from tests.support.databases.tables import counts, query
from tests.support.store.jobs import job, limited

if TYPE_CHECKING:
    from tests.support.store.stores import Store

MODELS = [model for model in apps.get_app_config("steady_queue").get_models() if not model._meta.proxy]


def constraints(alias: str, model: type[models.Model]) -> dict[str, Any]:
    """What the database knows of a table's indexes and constraints, by their names."""
    connection = connections[alias]
    with connection.cursor() as cursor:
        return dict(connection.introspection.get_constraints(cursor, model._meta.db_table))


# -- models and migrations --------------------------------------------------------------------------------------------


def test_no_migration_is_missing() -> None:
    said = StringIO()
    call_command("makemigrations", check=True, dry_run=True, stdout=said)
    assert "No changes" in said.getvalue()


def test_the_migrations_applied_are_those_of_the_models(database: str) -> None:
    executor = MigrationExecutor(connections[database])
    leaves = executor.loader.graph.leaf_nodes("steady_queue")
    assert leaves
    assert executor.migration_plan(leaves) == []
    detector = MigrationAutodetector(executor.loader.project_state(), ProjectState.from_apps(apps))
    assert detector.changes(graph=executor.loader.graph, trim_to_apps={"steady_queue"}) == {}


def test_the_migrations_after_the_first_only_add_to_the_schema(database: str) -> None:
    migrations = MigrationExecutor(connections[database]).loader.disk_migrations
    later = [one for (app, name), one in migrations.items() if app == "steady_queue" and name != "0001_initial"]
    assert later
    kinds = {type(operation).__name__ for migration in later for operation in migration.operations}
    assert kinds <= {"CreateModel", "AddField", "AddIndex", "AlterModelOptions", "RunPython"}


def test_there_are_no_tables_except_those_of_the_models(database: str) -> None:
    tables = {name for name in connections[database].introspection.table_names() if name.startswith("steady_queue_")}
    assert tables == {model._meta.db_table for model in MODELS}


def test_tables_have_the_columns_of_their_models(database: str) -> None:
    connection = connections[database]
    with connection.cursor() as cursor:
        found = {
            model.__name__: {
                column.name: bool(column.null_ok)
                for column in connection.introspection.get_table_description(cursor, model._meta.db_table)
            }
            for model in MODELS
        }
    assert found == {
        model.__name__: {field.column: field.null for field in model._meta.local_fields} for model in MODELS
    }


def test_tables_have_their_primary_keys_and_no_foreign_keys(database: str) -> None:
    for model in MODELS:
        found = constraints(database, model).values()
        assert [one["columns"] for one in found if one["primary_key"]] == [[model._meta.pk.column]]
        assert [one for one in found if one["foreign_key"]] == []


def test_tables_have_the_indexes_of_their_models_in_the_same_order(database: str) -> None:
    for model in MODELS:
        found = constraints(database, model)
        for index in model._meta.indexes:
            columns = [str(model._meta.get_field(name).column) for name, _ in index.fields_orders]  # type: ignore[union-attr]
            assert found[index.name]["columns"] == columns
            assert found[index.name]["orders"] == ["DESC" if order else "ASC" for _, order in index.fields_orders]


def test_tables_have_only_the_declared_indexes(database: str) -> None:
    # Each would be paid for by every insert. (On PostgreSQL Django adds one for LIKE to a text key: not to hot tables.)
    for model in MODELS:
        wanted = {index.name for index in model._meta.indexes} | {one.name for one in model._meta.constraints}
        found = {name for name, one in constraints(database, model).items() if one["index"] and not one["primary_key"]}
        extra = {name for name in found - wanted if not name.startswith("__unnamed_constraint")}
        assert extra == {
            name
            for name in extra
            if name.endswith("_like") and model.__name__ in ("Pause", "RecurringTask", "UniqueKey")
        }


def test_tables_have_the_unique_constraints_of_their_models(database: str) -> None:
    for model in MODELS:
        wanted = sorted(list(one.fields) for one in model._meta.constraints if isinstance(one, models.UniqueConstraint))
        found = [one for one in constraints(database, model).values() if one["unique"] and not one["primary_key"]]
        assert sorted(one["columns"] for one in found) == wanted


def test_polls_have_an_index_in_their_own_order(database: str) -> None:
    expected: dict[tuple[type[models.Model], str], list[str]] = {
        (ReadyExecution, "sq_ready_by_queue"): ["queue_name", "lane", "priority DESC", "job_id"],
        (ReadyExecution, "sq_ready_all"): ["lane", "priority DESC", "job_id"],
        (BlockedExecution, "sq_blocked_by_key"): ["concurrency_key", "priority DESC", "job_id"],
        (ScheduledExecution, "sq_scheduled_due"): ["scheduled_at", "priority DESC", "job_id"],
    }
    for (model, name), order in expected.items():
        index = constraints(database, model)[name]
        said = [f"{column} {way}" for column, way in zip(index["columns"], index["orders"], strict=True)]
        assert [one.removesuffix(" ASC") for one in said] == order


# -- names ------------------------------------------------------------------------------------------------------------

#: Pairwise different, and yet equal under one or another default collation: by case, accents, composition, width,
#: trailing spaces, characters without weight.
NAMES = [
    *("a", "A", "\u00e1", "a\u0301", "\uff41", "a ", " a", "a\u200b", "a-", "-"),
    *("ss", "SS", "\u00df", "i", "I", "\u0131", "\u0130"),
    *("\U0001f600", "\U0001f601", "", " ", "\u200b"),
]


def test_queue_names_are_equal_only_when_their_bytes_are(store: Store) -> None:
    jobs = [job(queue_name=name) for name in NAMES]
    store.enqueue(*jobs)
    worker = store.worker()
    for new in jobs:
        assert [claim.job_id for claim in store.claim(worker, 99, queues=[new.queue_name])] == [new.id]


def test_concurrency_keys_are_equal_only_when_their_bytes_are(store: Store) -> None:
    store.enqueue(*[limited(name) for name in NAMES])
    assert counts(store.alias) == {"ready": len(NAMES)}
    store.enqueue(*[limited(name) for name in NAMES])
    assert counts(store.alias) == {"ready": len(NAMES), "blocked": len(NAMES)}


def test_pauses_are_unique_by_their_bytes(database: str) -> None:
    for name in NAMES:
        query(database, "INSERT INTO steady_queue_pause (queue_name, created_at) VALUES (%s, '2024-01-01')", name)
    for name in NAMES:
        assert list(Pause.objects.using(database).filter(queue_name=name).values_list("queue_name", flat=True)) == [
            name
        ]
    with pytest.raises(IntegrityError), transaction.atomic(using=database):
        query(database, "INSERT INTO steady_queue_pause (queue_name, created_at) VALUES ('a', '2024-01-01')")


def test_names_sort_by_their_bytes(database: str) -> None:
    for name in NAMES:
        query(database, "INSERT INTO steady_queue_pause (queue_name, created_at) VALUES (%s, '2024-01-01')", name)
    found = list(Pause.objects.using(database).order_by("queue_name").values_list("queue_name", flat=True))
    assert found == sorted(NAMES, key=str.encode)


def test_the_longest_names_fit_in_characters_not_in_bytes(store: Store) -> None:
    new = limited(
        "😀" * KEY_LENGTH, queue_name="😀" * NAME_LENGTH, task_path="é" * NAME_LENGTH, backend="é" * NAME_LENGTH
    )
    store.enqueue(new, limited("😀" * KEY_LENGTH))
    (record,) = store.find(new)
    assert (record.queue_name, record.task_path) == (new.queue_name, new.task_path)
    assert counts(store.alias) == {"ready": 1, "blocked": 1}


# -- what only one server has -----------------------------------------------------------------------------------------


def test_there_is_a_lock_bucket_for_every_lock_id(database: str) -> None:
    ids = {id_ for (id_,) in query(database, "SELECT id FROM steady_queue_lockbucket")}
    assert ids >= set(range(LOCK_ID_COUNT))


@pytest.mark.only_on("mariadb")
def test_emptied_lock_buckets_heal_themselves(store: Store) -> None:
    before = query(store.alias, "SELECT id FROM steady_queue_lockbucket ORDER BY id")
    try:
        query(store.alias, "DELETE FROM steady_queue_lockbucket")
        keys = [f"key {n}" for n in range(20)]
        store.enqueue(*[limited(key) for key in keys for _ in range(2)])
        assert counts(store.alias) == {"ready": 20, "blocked": 20}
        found = {id_ for (id_,) in query(store.alias, "SELECT id FROM steady_queue_lockbucket")}
        assert found == {lock_id(key) for key in keys}
    finally:
        buckets = [LockBucket(id=id_) for (id_,) in before]
        LockBucket._base_manager.using(store.alias).bulk_create(buckets, ignore_conflicts=True)


@pytest.mark.only_on("postgres")
def test_hot_tables_are_vacuumed_soon(database: str) -> None:
    options = dict(query(database, "SELECT relname, reloptions FROM pg_class WHERE reloptions IS NOT NULL"))
    hot = ("readyexecution", "claimedexecution", "scheduledexecution", "blockedexecution", "semaphore", "process")
    for table in hot:
        found = dict(option.split("=") for option in options[f"steady_queue_{table}"])
        assert float(found["autovacuum_vacuum_scale_factor"]) <= 0.05
        assert float(found["autovacuum_analyze_scale_factor"]) <= 0.05
        assert found["autovacuum_vacuum_cost_delay"] == "0"
    assert "fillfactor=50" in options["steady_queue_process"]


@pytest.mark.only_on("postgres")
def test_heartbeats_stay_on_their_page(database: str) -> None:
    # An index on the time of the heartbeat would make every beat write to it.
    assert [one["columns"] for one in constraints(database, Process).values()] == [["id"]]


@pytest.mark.only_on("mariadb")
def test_ids_sort_by_time_on_mariadb(store: Store) -> None:
    # Versions before 10.11.6 sort UUIDv7 by their last bytes.
    jobs = [job() for _ in range(50)]
    store.enqueue(*reversed(jobs))
    assert list(Job.objects.using(store.alias).order_by("id").values_list("id", flat=True)) == [new.id for new in jobs]
