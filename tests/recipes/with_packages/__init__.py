"""Recipes that need packages of `.venv-recipes`."""
