"""The recipes of the documentation work as they are written.

The tests in `with_packages` need packages that the test environment does not have: `make test-recipes` runs them.
"""
