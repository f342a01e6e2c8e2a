"""Takes the pictures of the documentation: `make screenshots` starts the example shop and opens its dashboard.

The shop runs its own tasks. The statistics of an hour, which would take an hour to see, are written by this script.
"""

from __future__ import annotations

import re
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.browser.chromium import chromium
from tests.browser.conditions import wait_for
from tests.docs.example_projects import started
from tests.docs.helpers import EXAMPLES, ROOT, python

if TYPE_CHECKING:
    from tests.browser.chromium import Browser, Scheme
    from tests.docs.example_projects import Project

IMAGES = ROOT / "docs" / "images"
WIDTH, MAX_HEIGHT = 1280, 1000
MAX_BYTES = 150_000
#: Tracebacks have the directory of the checkout, which is different on each machine.
SHORTEN_PATHS = """
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(arguments[0], "/srv");
"""
#: Runs in the project: what a process would have counted in the last hour.
HISTORY = """
import math, random, uuid
from datetime import timedelta
import django
django.setup()
from django.utils import timezone
from steady_queue.models import TaskStatistics

random.seed(13)
minute = timezone.now().replace(second=0, microsecond=0)
tasks = {
    "stock.tasks.count_shelf": ("stock", 72), "stock.tasks.fetch_prices": ("stock", 6),
    "orders.tasks.confirm": ("mail", 18), "orders.tasks.charge": ("payments", 18),
    "orders.tasks.pack": ("warehouse", 17),
}
rows = []
for ago in range(1, 60):
    busy = 1 + 0.5 * math.sin(ago / 7)
    for path, (queue, usual) in tasks.items():
        number = round(usual * busy * random.uniform(0.8, 1.2))
        may_fail = path.endswith(("fetch_prices", "pack")) and 20 < ago < 32
        failed = round(number * 0.4 * random.random()) if may_fail else 0
        run, wait = number * random.randint(80, 260), round(number * 40 * busy * random.uniform(0.5, 3))
        rows.append(TaskStatistics(
            seconds=60, starts_at=minute - timedelta(minutes=ago), process_id=uuid.UUID(int=1), queue_name=queue,
            task_path=path, started=number, finished=number - failed, failed=failed, retried=0, run_milliseconds=run,
            longest_run_milliseconds=900, waits=number, wait_milliseconds=wait,
            longest_wait_milliseconds=wait // number * 4))
TaskStatistics.objects.bulk_create(rows)
"""


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, started("shop", Path(name)) as shop, chromium(Path(name)) as browser:
        write_history(shop, Path(name))
        for item in ("teapot", "unicorn", "lamp"):
            shop.post(item=item, email="ada@example.com")
        log_in(browser, shop)
        wait_until_it_is_busy(shop)
        take_pictures(browser)


def write_history(shop: Project, directory: Path) -> None:
    environment = {"DJANGO_SETTINGS_MODULE": "settings", "SHOP_DATABASE": str(shop.database)}
    path = f"{ROOT}:{EXAMPLES / 'shop'}"
    done = python("-c", HISTORY, directory=directory, PYTHONPATH=path, **environment)
    assert done.returncode == 0, done.stderr


def log_in(browser: Browser, shop: Project) -> None:
    found = re.search(r"^Log in as (\w+) with the password (\S+)$", shop.printed, re.MULTILINE)
    assert found is not None
    browser.address = shop.address.rstrip("/")
    browser.open("/admin/")
    browser.run("localStorage.setItem('django.admin.navSidebarIsOpen', 'false')")
    browser.fill("#id_username", found[1])
    browser.fill("#id_password", found[2])
    browser.one("[type=submit]").click()
    browser.one("#user-tools")


def wait_until_it_is_busy(shop: Project) -> None:
    """Wait for a task that shows its progress, one that is blocked and one that is to be retried or has failed."""
    for table in ("blockedexecution", "failedexecution", "claimedexecution"):
        wait_for(partial(shop.rows, f"SELECT 1 FROM steady_queue_{table}"), table)
    wait_for(lambda: shop.rows("SELECT 1 FROM steady_queue_job WHERE progress IS NOT NULL"), "progress")


def take_pictures(browser: Browser) -> None:
    start = "/admin/steady_queue"
    take(browser, "overview", f"{start}/overview/")
    take(browser, "overview-dark", f"{start}/overview/", "dark")
    take(browser, "tasks", f"{start}/job/?state=failed")
    take(browser, "task", str(browser.one("tr[id^=sq-job-] th a").get_attribute("href")).removeprefix(browser.address))
    take(browser, "queues", f"{start}/queue/")
    take(browser, "processes", f"{start}/process/")
    take(browser, "recurring", f"{start}/recurringtask/")


def take(browser: Browser, name: str, path: str, scheme: Scheme = "light") -> None:
    """Open a page and store its picture, as high as its content."""
    browser.show((WIDTH, 600), scheme)
    browser.open(path)
    browser.run(SHORTEN_PATHS, str(ROOT))
    height = min(int(browser.run("return document.documentElement.scrollHeight")), MAX_HEIGHT)
    browser.show((WIDTH, height), scheme)
    file = browser.screenshot(name)
    content = file.read_bytes()
    assert len(content) <= MAX_BYTES, f"{name} has {len(content)} bytes"
    (IMAGES / f"dashboard-{name}.png").write_bytes(content)
    print(f"docs/images/dashboard-{name}.png: {len(content) // 1024} KiB")  # noqa: T201


if __name__ == "__main__":
    main()
