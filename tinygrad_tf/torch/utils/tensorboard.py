"""torch.utils.tensorboard: a SummaryWriter that writes a CSV file, which a spreadsheet or pandas reads."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

from ..unsupported import lookup


class SummaryWriter:
    """Scalars, one a row of `scalars.csv` in log_dir: wall time, step, tag, value. Rows are added to those of earlier runs."""

    def __init__(self, log_dir: Any = None, *args: Any, **kwargs: Any):
        self.log_dir = str(log_dir or Path("runs") / time.strftime("%Y-%m-%d_%H-%M-%S"))
        self.path = Path(self.log_dir) / "scalars.csv"
        self.rows: list[tuple] = []

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None,
                   *args: Any, **kwargs: Any) -> None:
        self.rows.append((walltime or time.time(), global_step, tag, float(scalar_value)))

    def add_scalars(self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: int | None = None) -> None:
        for tag, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{tag}", value, global_step)

    def flush(self) -> None:
        """Write what was added since the last time."""
        if not self.rows:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists()
        with open(self.path, "a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("wall_time", "step", "tag", "value"), *self.rows] if new else self.rows)
        self.rows = []

    close = flush

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


__getattr__ = lookup("torch.utils.tensorboard")
