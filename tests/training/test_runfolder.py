"""One run, one folder, one writer."""

import os
import re
import signal
import subprocess
import sys

import pytest

from tinygrad_tf.runfolder import CHECKPOINT, LOCK, RunError, checkpoint_in, locked, next_folder, refuse_if_taken


def test_folders_are_counted(tmp_path):
    assert [next_folder("tiny", tmp_path / "runs").name for _ in range(3)] == ["tiny-1", "tiny-2", "tiny-3"]


def test_a_folder_that_cannot_be_made_is_named_whole(tmp_path, monkeypatch):
    def refuse(path, *args, **settings):
        raise PermissionError(13, "Permission denied", "runs")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(type(tmp_path), "mkdir", refuse)
    whole = re.escape(str(tmp_path / "runs" / "tiny-1"))
    with pytest.raises(RunError, match=f"^cannot make {whole}, the folder of this run: Permission denied; --run names"):
        next_folder("tiny")


def test_what_a_new_run_may_start_in(tmp_path):
    refuse_if_taken(tmp_path / "new")
    refuse_if_taken(tmp_path)
    (tmp_path / LOCK).touch()
    (tmp_path / f"{CHECKPOINT}.tmp").touch()
    refuse_if_taken(tmp_path)
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(RunError, match="is not empty and holds no run; name a new or an empty folder"):
        refuse_if_taken(tmp_path)
    (tmp_path / CHECKPOINT).touch()
    with pytest.raises(RunError, match=f"already holds a run; continue it with --resume {tmp_path}"):
        refuse_if_taken(tmp_path)
    with pytest.raises(RunError, match="is a file"):
        refuse_if_taken(tmp_path / CHECKPOINT)


def test_a_run_is_a_folder_or_its_checkpoint(tmp_path):
    with pytest.raises(RunError, match="holds no checkpoint"):
        checkpoint_in(tmp_path)
    with pytest.raises(RunError, match="no such run"):
        checkpoint_in(tmp_path / "none")
    (tmp_path / CHECKPOINT).touch()
    assert checkpoint_in(tmp_path) == checkpoint_in(tmp_path / CHECKPOINT) == tmp_path / CHECKPOINT


def test_the_second_one_is_told_who_holds_the_folder(tmp_path):
    with locked(tmp_path), pytest.raises(RunError, match=f"in use by process {os.getpid()}"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path):
    code = "import sys; from pathlib import Path; from tinygrad_tf.runfolder import locked\n" \
           "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunError, match=f"in use by process {holder.pid};"), locked(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
    with locked(tmp_path):
        assert (tmp_path / LOCK).read_text() == str(os.getpid())
