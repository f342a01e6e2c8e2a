from __future__ import annotations

from typing import TYPE_CHECKING

from django.forms import modelform_factory
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from orders.checkout import place
from orders.models import Order
from orders.states import state_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

SHOWN = 10

OrderForm = modelform_factory(Order, fields=["item", "email"])


@require_http_methods(["GET", "HEAD", "POST"])
def order_form(request: HttpRequest) -> HttpResponse:
    """Show the form; store an order together with its tasks."""
    form = OrderForm(request.POST or None)
    if form.is_valid():
        place(form.instance)
        return redirect("list")
    return render(request, "orders/form.html", {"form": form})


@require_safe
def order_list(request: HttpRequest) -> HttpResponse:
    """Show the newest orders with the current states of their tasks."""
    newest = Order.objects.order_by("-pk").prefetch_related("steps")[:SHOWN]
    orders = [(order, [state_of(step) for step in order.steps.all()]) for order in newest]
    return render(request, "orders/list.html", {"orders": orders})
