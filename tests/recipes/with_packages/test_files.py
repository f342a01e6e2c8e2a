"""The files for Compose and Kubernetes are YAML, and the backend for IAM signs a token for each connection."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.recipes.projects import files_of

if TYPE_CHECKING:
    from tests.recipes.projects import Project

READ = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.argv[1])))"
CONNECT = """
import time
from django.db import connections

tokens = set()
while len(tokens) < 2:
    tokens.add(connections["default"].get_connection_params()["password"])
    time.sleep(0.2)  # a token has the time of its signature, in seconds
print(*tokens)
"""
DATABASE = """
DATABASES["default"] = {
    "ENGINE": "project.iam", "NAME": "shop", "USER": "clerk", "HOST": "db.example.com", "PORT": "5432",
}
"""


@pytest.mark.parametrize(("recipe", "file"), [("Compose", "compose.yaml"), ("Kubernetes", "worker.yaml")])
def test_a_file_is_yaml(project: Project, recipe: str, file: str) -> None:
    read = json.loads(project.run("-c", READ, files_of(recipe)[file]))
    if recipe == "Compose":
        assert read["services"].keys() == {"migrate", "web", "worker"}
    else:
        pod = read["spec"]["template"]["spec"]
        assert (pod["terminationGracePeriodSeconds"], len(pod["containers"])) == (30, 1)
        assert read["spec"]["selector"]["matchLabels"] == read["spec"]["template"]["metadata"]["labels"]


def test_each_connection_has_a_token_of_its_own(project: Project) -> None:
    project.append("project/iam/base.py", files_of("Passwords that change")["project/iam/base.py"])
    project.append("project/settings.py", DATABASE)
    account = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_DEFAULT_REGION": "eu-central-1"}
    tokens = project.run_script(CONNECT, **account).split()
    assert len(tokens) == 2
    assert all(token.startswith("db.example.com:5432/?Action=connect&DBUser=clerk&") for token in tokens)
    assert all("X-Amz-Expires=900" in token for token in tokens)
