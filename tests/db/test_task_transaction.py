"""The transaction of a task on a connection that was open before."""

from __future__ import annotations

import pytest
from django.db import connections

from steady_queue.db.task_transaction import TaskTransaction
from tests.shop.models import Customer

pytestmark = pytest.mark.usually_on("postgres", "mariadb", "sqlite")
INSERT = "INSERT INTO shop_customer (name) VALUES ('Ada')"


def customers(alias: str) -> int:
    return Customer.objects.using(alias).count()


def test_nothing_can_be_executed_on_the_drivers_connection_before_the_begin(database: str) -> None:
    connection = connections[database]
    connection.ensure_connection()
    kept = connection.connection
    with pytest.raises(AttributeError), TaskTransaction(database):
        connection.connection.cursor().execute(INSERT)
    assert connection.connection is kept
    assert connection.get_autocommit()
    assert customers(database) == 0


def test_what_is_executed_on_the_drivers_connection_is_part_of_the_transaction(database: str) -> None:
    connection = connections[database]
    connection.ensure_connection()
    kept = connection.connection
    with pytest.raises(ZeroDivisionError), TaskTransaction(database):
        connection.ensure_connection()
        connection.connection.cursor().execute(INSERT)
        raise ZeroDivisionError
    assert customers(database) == 0
    with TaskTransaction(database) as transaction:
        connection.ensure_connection()
        connection.connection.cursor().execute(INSERT)
        transaction.check()
    assert customers(database) == 1
    assert connection.connection is kept
    assert connection.get_autocommit()
