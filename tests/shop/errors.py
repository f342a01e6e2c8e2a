"""Errors of tasks. Nothing imports this module: a result does when its error class is accessed."""

from __future__ import annotations


class OutOfStock(Exception):
    pass
