"""The routers: a queue in a database of its own, shared with other apps, or in the default one; migrated for real."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connections, router, transaction
from django.test import override_settings

from steady_queue.models import Job, ReadyExecution
from steady_queue.testing import run_pending
from tests.shop import tasks
from tests.shop.models import Customer
from tests.support.databases.aliases import extra_database, pointed_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROUTER = "steady_queue.db_router.SteadyQueueRouter"
ONLY = "steady_queue.db_router.SteadyQueueOnlyRouter"


@contextmanager
def routed(path: str, alias: str) -> Iterator[None]:
    with override_settings(DATABASE_ROUTERS=[path]), pointed_at(alias):
        yield


@pytest.fixture
def application(tmp_path: Path) -> Iterator[str]:
    """The alias of a second database, without any table."""
    settings = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(tmp_path / "application.sqlite3"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
    with extra_database("application", settings) as alias:
        yield alias


def migrate(alias: str, *labels: str) -> set[str]:
    """The tables that the database has then."""
    call_command("migrate", *labels, database=alias, run_syncdb=not labels, verbosity=0)
    with connections[alias].cursor() as cursor:
        return set(connections[alias].introspection.table_names(cursor)) - {"django_migrations", "sqlite_sequence"}


def ours(tables: set[str]) -> set[str]:
    return {table for table in tables if table.startswith("steady_queue_")}


@pytest.mark.parametrize("path", [ROUTER, ONLY])
@pytest.mark.only_on("sqlite")
def test_models_of_the_queue_are_where_it_is_and_others_are_where_they_were(database: str, path: str) -> None:
    with routed(path, database):
        assert (router.db_for_read(Job), router.db_for_write(ReadyExecution)) == (database, database)
        assert (router.db_for_read(Customer), router.db_for_write(ContentType)) == ("default", "default")
    with routed(path, "default"):
        assert router.db_for_write(Job) == "default"
        assert router.allow_migrate("default", "steady_queue")
        assert router.allow_migrate("default", "shop")
        assert router.allow_migrate(database, "shop")
        assert not router.allow_migrate(database, "steady_queue")


@pytest.mark.only_on("sqlite")
def test_relations_between_rows_of_the_queue_are_allowed_and_others_get_no_opinion(database: str) -> None:
    one, other, customer = Job(), ReadyExecution(), Customer()
    with routed(ROUTER, database):
        one._state.db, other._state.db, customer._state.db = database, "default", "default"
        assert router.allow_relation(one, other)
        assert not router.allow_relation(one, customer)
        customer._state.db = database
        assert router.allow_relation(one, customer)


def test_each_of_two_databases_gets_its_own_tables(unmigrated: str, application: str) -> None:
    with routed(ONLY, unmigrated):
        theirs, queue = migrate(application), migrate(unmigrated)
    assert ours(theirs) == set()
    assert {"shop_customer", "django_content_type"} <= theirs
    assert queue == ours(queue)
    assert "steady_queue_job" in queue


def test_the_queue_alone_is_migrated_when_it_is_named(unmigrated: str, application: str) -> None:
    with routed(ROUTER, unmigrated):
        queue = migrate(unmigrated, "steady_queue")
        assert migrate(application, "steady_queue") == set()
    assert queue == ours(queue)
    assert "steady_queue_job" in queue


def test_a_queue_in_a_database_of_its_own_works_without_naming_it(unmigrated: str) -> None:
    with routed(ONLY, unmigrated):
        migrate(unmigrated)
        result = tasks.add.enqueue(1, 2)
        assert Job.objects.get(pk=result.id).ready_execution.queue_name == "default"
        (done,) = run_pending()
        assert (done.id, done.return_value) == (result.id, 3)
        assert Job.objects.filter(finished_at__isnull=False).count() == 1


def test_a_database_may_be_shared_with_other_apps_and_their_transactions(unmigrated: str) -> None:
    with routed(ROUTER, unmigrated):
        tables = migrate(unmigrated)
        assert {"shop_customer", "steady_queue_job"} <= tables
        with transaction.atomic(using=unmigrated):
            Customer.objects.using(unmigrated).create(name="Ada")
            tasks.add.enqueue(1)
        try:
            with transaction.atomic(using=unmigrated):
                Customer.objects.using(unmigrated).create(name="Eve")
                tasks.add.enqueue(2)
                raise KeyError
        except KeyError:
            pass
        assert [done.return_value for done in run_pending()] == [1]
        assert Customer.objects.using(unmigrated).count() == 1


@pytest.mark.parametrize("path", [ROUTER, ONLY])
def test_the_default_database_may_hold_the_queue_and_other_apps(unmigrated: str, path: str) -> None:
    settings: dict[str, Any] = connections.databases[unmigrated]
    before = connections.databases["default"]
    connections["default"].close()
    del connections["default"]
    connections.databases["default"] = settings
    try:
        with routed(path, "default"):
            tables = migrate("default")
    finally:
        connections["default"].close()
        del connections["default"]
        connections.databases["default"] = before
    assert {"shop_customer", "django_content_type", "steady_queue_job"} <= tables


def test_a_task_is_stored_in_its_database_while_a_transaction_is_open_on_another(
    database: str, unmigrated: str
) -> None:
    with routed(ROUTER, database):
        with transaction.atomic(using=unmigrated), transaction.atomic(using="default"):
            now = tasks.at_once.enqueue()
            later = tasks.add.enqueue(1)
            assert [str(pk) for pk in Job.objects.values_list("pk", flat=True)] == [now.id]
        assert {str(pk) for pk in Job.objects.values_list("pk", flat=True)} == {now.id, later.id}


def test_with_a_queue_in_another_database_a_rollback_leaves_only_what_did_not_wait_for_it(database: str) -> None:
    with routed(ROUTER, database):
        with transaction.atomic(using="default"):
            now = tasks.at_once.enqueue()
            tasks.add.enqueue(1)
            transaction.set_rollback(True, using="default")
        assert [str(pk) for pk in Job.objects.values_list("pk", flat=True)] == [now.id]
