from __future__ import annotations

from django.contrib import admin
from django.urls import path
from orders import views

urlpatterns = [
    path("", views.order_form, name="form"),
    path("orders/", views.order_list, name="list"),
    path("admin/", admin.site.urls),
]
