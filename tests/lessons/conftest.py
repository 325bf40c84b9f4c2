"""No test of the lessons sees or writes the progress of whoever runs it."""

import pytest


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("TINYGRAD_TF_CACHE", str(tmp_path / "cache"))
    for name in ("TINYGRAD_TF_EXERCISES", "TINYGRAD_TF_LESSONS"):
        monkeypatch.delenv(name, raising=False)
