"""Benchmarks. Each one compares Steady Queue with the bare database drivers, with other queues, or with a fixed target.

All of them run on private, durable database servers that they start themselves. They exit with status 1 if a target was
missed or if a task did not run exactly once. Each command has `--help`.

    enqueue/     python -m benchmarks.enqueue      make bench             how fast tasks are enqueued
    runtime/     python -m benchmarks.runtime      make bench-runtime     how fast a worker process runs tasks
    lifecycle/   python -m benchmarks.lifecycle    make bench-running     how fast the command starts, stops, recovers
    scale/       python -m benchmarks.scale        make bench-semantics   claims, limits and schedules with many rows
    dashboard/   python -m benchmarks.dashboard    make bench-dashboard   the pages of the dashboard with many rows

    support/     what the benchmarks share: servers, processes, rounds, the report
    peers/       the worker processes of other queues
    tasks.py     the tasks that the workers run
    settings.py  the Django settings
"""
