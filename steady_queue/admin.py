"""The dashboard in the Django admin: see steady_queue.dashboard."""

from __future__ import annotations

from django.contrib import admin

from steady_queue.dashboard.site import PAGES

for _model, _page in PAGES.items():
    admin.site.register(_model, _page)
