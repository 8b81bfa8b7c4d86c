"""Many entries in processes of their own: one that crashes or hangs fails alone."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait

from .running import Outcome

_LONGEST = 900.0  # seconds for one task


@dataclass(frozen=True)
class Task:
    part: str
    entry: str
    dtype: str = ""
    limit: int | None = None
    turn: int = 0
    backend: str = "reference"


def run_task(task: Task) -> Outcome:
    """In a process where `prepare` ran."""
    from .errors import run_errors
    from .modules import run_module
    from .running import run_values

    if task.part == "errors":
        return run_errors(task.entry, task.limit, task.turn, task.backend)
    if task.part == "modules":
        return run_module(task.entry, task.limit, task.turn, task.backend)
    return run_values(task.entry, task.dtype, task.limit, task.turn, task.backend)


def _work(pipe: Connection) -> None:
    from .running import quiet_torch
    from .tracing import as_recorded

    quiet_torch()
    with as_recorded():
        while (task := pipe.recv()) is not None:
            try:
                outcome = run_task(task)
            except Exception as error:
                outcome = Outcome(task.part, task.entry, task.dtype, task.backend, touches=True)
                outcome.fail("", f"the suite itself: {type(error).__name__}: {error}")
            pipe.send(outcome)


class _Worker:
    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.task: Task | None = None
        self.since = 0.0

    def give(self, task: Task | None) -> None:
        self.task, self.since = task, time.monotonic()
        self.pipe.send(task)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def _lost(task: Task, why: str) -> Outcome:
    outcome = Outcome(task.part, task.entry, task.dtype, task.backend, touches=True)
    outcome.fail("", why)
    return outcome


def run_tasks(tasks: list[Task], jobs: int, report: Callable[[Outcome], None]) -> list[Outcome]:
    waiting = list(reversed(tasks))
    workers = [_Worker() for _ in range(max(1, min(jobs, len(tasks))))]
    outcomes = []

    def done(outcome: Outcome) -> None:
        outcomes.append(outcome)
        report(outcome)

    for worker in workers:
        worker.give(waiting.pop() if waiting else None)
    while any(worker.task for worker in workers):
        busy = [worker for worker in workers if worker.task]
        ready = wait([worker.pipe for worker in busy], timeout=5)
        for index, worker in enumerate(workers):
            if worker.task is None:
                continue
            if worker.pipe in ready:
                try:
                    done(worker.pipe.recv())
                except EOFError:
                    worker.process.join()
                    done(_lost(worker.task, f"the process died with status {worker.process.exitcode}"))
                    workers[index] = worker = _Worker()
            elif time.monotonic() - worker.since > _LONGEST:
                done(_lost(worker.task, f"took more than {_LONGEST:.0f} s"))
                worker.stop()
                workers[index] = worker = _Worker()
            else:
                continue
            worker.give(waiting.pop() if waiting else None)
    for worker in workers:
        worker.process.join(timeout=10)
    return outcomes
