"""Steady Queue in a project that `startproject` has made, served by each ASGI server with its own command line.

`make test` uses the servers of the environment of the tests. `make test-servers` builds the wheel and installs it with
the servers into an empty environment.
"""
