"""Errors of tasks. Nothing imports this module: whoever reads a result does, when asked for the class."""

from __future__ import annotations


class OutOfStock(Exception):
    pass
