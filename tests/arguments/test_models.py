from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync
from django.apps import apps
from django.apps.registry import Apps
from django.db import connections, models

from steady_queue.arguments import DeserializationError, aloads, dumps, loads, view, view_text
from steady_queue.errors import ArgumentError
from tests.shop.models import Customer
from tests.support.arguments import same

if TYPE_CHECKING:
    from collections.abc import Iterator


class HiddenRows(models.Manager[Any]):
    def get_queryset(self) -> models.QuerySet[Any]:
        return super().get_queryset().none()


@pytest.fixture
def regular() -> Iterator[Any]:
    """Return a proxy of Customer whose default manager finds nothing."""

    class Regular(Customer):
        objects = HiddenRows()

        class Meta:
            proxy = True
            app_label = "shop"

    yield Regular
    del apps.all_models["shop"]["regular"]
    apps.clear_cache()


@pytest.fixture
def ada(database: str) -> Customer:
    return Customer.objects.using(database).create(name="Ada")


def back(value: object) -> Any:
    (result,), _ = loads(dumps((value,), {}))
    return result


def no_queries(*_: Any) -> None:
    pytest.fail("the database was asked")


def test_a_saved_instance_comes_back_from_its_own_database(ada: Customer, database: str) -> None:
    result = back(ada)
    assert type(result) is Customer
    assert result == ada
    assert result.name == "Ada"
    assert result._state.db == database


def test_an_instance_is_a_reference_and_not_a_copy(ada: Customer, database: str) -> None:
    text = dumps((), {"customer": ada})
    Customer.objects.using(database).update(name="Grace")
    assert loads(text)[1]["customer"].name == "Grace"  # type: ignore[attr-defined]


def test_instances_come_back_inside_containers_and_as_keys(ada: Customer) -> None:
    value = {"list": [ada], "pair": (ada, 1), "set": {ada}, "keys": {ada: ada}}
    assert same(back(value), value)


def test_a_deferred_instance_comes_back_whole(ada: Customer, database: str) -> None:
    partial = Customer.objects.using(database).only("pk").get(pk=ada.pk)
    result = back(partial)
    assert type(result) is Customer
    assert result.get_deferred_fields() == set()


def test_a_proxy_keeps_its_class_and_is_found_past_its_own_manager(regular: Any, ada: Customer, database: str) -> None:
    proxied = regular._base_manager.using(database).get(pk=ada.pk)
    result = back(proxied)
    assert type(result) is regular
    assert result.pk == ada.pk


def test_a_row_that_is_gone_is_named(ada: Customer, database: str) -> None:
    text, pk = dumps((ada,), {}), ada.pk
    ada.delete()
    with pytest.raises(DeserializationError, match=rf"shop\.Customer {pk} is no longer in the database '{database}'"):
        loads(text)
    assert view_text(text) == ([f"shop.Customer:{pk}"], {})


def test_a_deleted_instance_is_refused(ada: Customer) -> None:
    ada.delete()
    with pytest.raises(ArgumentError, match="not saved"):
        dumps((ada,), {})


@pytest.mark.parametrize(
    "customer", [Customer(name="new"), Customer(pk=5, name="new")], ids=["without a key", "with a key"]
)
def test_an_unsaved_instance_is_refused(customer: Customer) -> None:
    with pytest.raises(ArgumentError, match=r"args\[0\]\['who'\]: this shop\.Customer is not saved; save it first"):
        dumps(({"who": customer},), {})


def test_an_instance_of_a_class_that_its_app_does_not_have_is_refused() -> None:
    class Ghost(models.Model):
        class Meta:
            app_label = "shop"
            apps = Apps()

    ghost = Ghost(pk=1)
    ghost._state.adding = False
    with pytest.raises(ArgumentError, match=r"args\[0\]"):
        dumps((ghost,), {})

    class Customer(models.Model):
        class Meta:
            app_label = "shop"
            apps = Apps()

    double = Customer(pk=1)
    double._state.adding = False
    with pytest.raises(ArgumentError, match="not the one registered in its app"):
        dumps((double,), {})


def test_a_key_of_several_columns_is_part_of_the_reference() -> None:
    class Seat(models.Model):
        pk = models.CompositePrimaryKey("row", "number")
        row: Any = models.IntegerField()
        number: Any = models.IntegerField()

        class Meta:
            app_label = "shop"

    try:
        seat = Seat(row=3, number=4)
        seat._state.adding = False
        assert view((seat,), {}) == view_text(dumps((seat,), {})) == (["shop.Seat:[3, 4]"], {})
        seat.number = None
        with pytest.raises(ArgumentError, match="not saved"):
            dumps((seat,), {})
    finally:
        del apps.all_models["shop"]["seat"]
        apps.clear_cache()


def test_a_key_that_cannot_be_stored_is_named() -> None:
    values: Any = {"pk": object()}
    customer = Customer(**values)
    customer._state.adding = False
    with pytest.raises(ArgumentError, match=r"args\[0\]\.pk: an object cannot be stored"):
        dumps((customer,), {})


def test_an_instance_is_shown_without_asking_the_database(ada: Customer, database: str) -> None:
    seen = ([f"shop.Customer:{ada.pk}"], {"who": [f"shop.Customer:{ada.pk}"]})
    with connections[database].execute_wrapper(no_queries):
        assert view((ada,), {"who": (ada,)}) == seen
        assert view_text(dumps((ada,), {"who": (ada,)})) == seen


def test_an_event_loop_fetches_instances_in_a_thread(ada: Customer) -> None:
    assert async_to_sync(aloads)(dumps((ada,), {})) == ([ada], {})


def test_reading_instances_synchronously_inside_an_event_loop_is_a_deserialization_error(ada: Customer) -> None:
    async def read() -> None:
        loads(dumps((ada,), {}))

    with pytest.raises(DeserializationError, match="SynchronousOnlyOperation"):
        asyncio.run(read())
