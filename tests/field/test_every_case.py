"""Faults that users met in other software of this kind: every case on the list has a test here, under its name.

A case is a small input with its right value. Where other folders test more of the same kind, those tests bear the name too.
"""

import ast
from pathlib import Path

import pytest

CASES = """
GR-02 GR-04 GR-06 GR-08 GR-10  the graph and the walk backward
BC-02 BC-04                    broadcasting
IP-01 IP-03 IP-05              in place, views, memory
IX-02 IX-04                    indexing, ids
NS-02 NS-04                    kinks, singular points
DT-02 DT-04                    dtypes
SM-02 SM-04 SM-06 SM-08 SM-10  softmax, cross-entropy, masks, attention
LY-01 LY-03 LY-05 LY-07        layers
WT-01 WT-03                    weight tying
OP-01 OP-03 OP-05 OP-07        optimizers, schedules
TX-01 TX-03 TX-05 TX-07        text, batches
GN-01 GN-03 GN-05 GN-07 GN-09 GN-11  generation
CK-02 CK-04 CK-06 CK-08        checkpoints
GV-02 GV-04 GV-06              drawings
EN-01 EN-03                    environment, notebooks
"""
IDS = [word for line in CASES.splitlines() for word in line.split() if "-" in word and word[-2:].isdigit()]


def names_in(folder):
    return {
        node.name
        for file in sorted(folder.glob("test_*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


NAMES = names_in(Path(__file__).parent)


def test_the_list_is_whole():
    assert len(IDS) == len(set(IDS)) == 50


@pytest.mark.parametrize("case", IDS)
def test_every_case_has_a_test(case):
    assert [name for name in NAMES if name.startswith(f"test_{case.replace('-', '_')}_")]
