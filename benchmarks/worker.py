"""One framework in a process of its own, which waits for commands on its standard input, one JSON object a line.

    python -m benchmarks.worker benchmarks.ours.Training '{"size": "tiny"}'
    {"call": "run", "with": {"count": 5}}         ->  {"wall": 0.01, "cpu": 0.02, "results": [4.17, ...]}

`run` calls the task's `once` that often; any other name is a method of the task.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from time import perf_counter
from typing import Any

from .machine import processor_time


def run(task: Any, count: int) -> dict[str, Any]:
    """Time `count` calls of task.once(), one after the other: seconds by the clock, and of processor time of all threads and
    of the processes that help."""
    cpu, wall = processor_time(), perf_counter()
    results = [task.once() for _ in range(count)]
    return {"wall": perf_counter() - wall, "cpu": processor_time() - cpu, "results": results}


def main(name: str, options: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not stand among the answers
    module, kind = name.rsplit(".", 1)
    task = getattr(import_module(module), kind)(**json.loads(options))
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        call, settings = request["call"], request["with"]
        result = run(task, **settings) if call == "run" else getattr(task, call)(**settings)
        print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3 or "." not in sys.argv[1] or not sys.argv[2].startswith("{"):
        print(f"error: this is started by the other commands, as {(__doc__ or '').splitlines()[2].strip()}", file=sys.stderr)
        sys.exit(2)
    main(*sys.argv[1:])
