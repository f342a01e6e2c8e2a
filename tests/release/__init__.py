"""The release: its files, its installation into an empty environment, and the versions that it supports.

first_steps.py             the commands and files of the README's first steps
environment.py             a virtual environment with the wheel, and a project in it
test_contents.py           what the wheel and the sdist contain
test_first_steps.py        the README's first steps, with the package of the checkout
test_wheel.py              the same with the wheel, on the oldest and the newest versions; `make dist` runs them
test_other_distribution.py the wheel in one environment with the distribution steady-queue; `make dist` runs them
test_versions.py           the classifiers and the table of tested versions
versions.py                `make test-versions`: the contract and the first steps on every version
"""
