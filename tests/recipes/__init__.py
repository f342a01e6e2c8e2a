"""The recipes of the documentation work as they are written.

The tests in `with_packages` need packages that the test environment does not have: `make test-recipes` runs them.

projects.py                  a project that consists of the files of a recipe
mail_server.py               a mail server that keeps what it receives
test_mail.py                 mail as tasks
test_deployments.py          the commands for Compose and Kubernetes
test_changing_passwords.py   the password of the database changes while a worker runs
test_several_databases.py    the queue in a database of its own
conftest.py                  leaves `with_packages` out where its packages are missing
with_packages/               Wagtail, pytest-django, Sentry, structlog, web servers, files of deployments
"""
