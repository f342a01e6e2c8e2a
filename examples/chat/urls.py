from __future__ import annotations

from django.urls import path
from talk import views

urlpatterns = [
    path("", views.ask, name="ask"),
    path("answers/<uuid:answer_id>/", views.show, name="show"),
    path("answers/<uuid:answer_id>/events/", views.events, name="events"),
]
