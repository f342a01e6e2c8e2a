"""The accessibility check: axe-core in the browser (vendor/axe-core)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.browser.chromium import Browser

AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
RUN = """
const [rules, done] = arguments;
const options = {resultTypes: ["violations"]};
if (rules.length) options.runOnly = {type: "rule", values: rules};
axe.run(document, options).then(found => done(found.violations), error => done([{id: String(error), nodes: []}]));
"""
#: The others are advice.
REPORTED = ("serious", "critical", None)


def find_violations(browser: Browser, *rules: str) -> list[str]:
    """What is seriously wrong on the page, by these rules or by all: the rule, and the first element that breaks it."""
    if not browser.run("return 'axe' in window"):
        browser.run(AXE.read_text())
    found = browser.driver.execute_async_script(RUN, rules)
    return [_describe(one) for one in found if one.get("impact") in REPORTED]


def _describe(violation: dict[str, Any]) -> str:
    nodes: Sequence[dict[str, Any]] = violation["nodes"]
    where = f"{nodes[0]['html'][:200]} {nodes[0].get('failureSummary', '')}" if nodes else ""
    return f"{violation['id']} ({len(nodes)}): {where}"
