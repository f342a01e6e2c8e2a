"""Steady Queue in a project that `startproject` has made, served by each ASGI server with its own command line.

`make test` uses the servers of the environment of the tests. `make test-servers` builds the wheel and installs it with
the servers into an empty environment.

environments.py      the environment of the tests, or an empty one with the wheel
fresh_project.py     the project, its views and tasks, and its database
asgi_servers.py      the servers: command lines, exit statuses, and one that runs
conftest.py          the fixtures: one environment, and a project for each test
test_asgi_servers.py each server is stopped under load
"""
