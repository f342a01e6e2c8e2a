"""A Django project with one task, for the peers that are backends of Django's task framework."""
