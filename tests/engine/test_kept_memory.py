"""Freed memory that a process keeps: no page is mapped anew, and where the system allows it pages are large."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, resource, sys
from threading import Thread
import numpy as np
from tinygrad_tf.memory import keep_freed_memory

kept = keep_freed_memory() if sys.argv[1] == "keep" else False

def work():
    for _ in range(5):
        arrays = [np.ones(3 << 20, np.float32) for _ in range(8)]
        del arrays

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    threads = [Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
flags, inside = [], False
for line in open("/proc/self/smaps"):
    inside = line.endswith("[heap]\\n") if "-" in line.split(" ")[0] else inside
    if inside and line.startswith("VmFlags:"):
        flags = line.split()[1:]
print(json.dumps({"kept": kept, "faults": faults(), "flags": flags}))
"""


def run(how):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="how memory is mapped is not known on this system")
def test_what_one_thread_frees_the_next_one_uses_without_new_pages():
    found = run("keep")
    if not found["kept"]:
        pytest.skip("this system's malloc has no thresholds")
    assert 4 * found["faults"] < run("let go")["faults"]
    if Path("/sys/kernel/mm/transparent_hugepage/enabled").exists():
        assert "hg" in found["flags"]
