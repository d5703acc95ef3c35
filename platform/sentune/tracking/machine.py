"""MLflow's system metrics of the driver's machine, on the run of its study."""

from __future__ import annotations

import logging
import threading
from typing import Any

log = logging.getLogger(__name__)

SECONDS, SAMPLES = 10.0, 3
"""Seconds between two samples, and samples per point: a machine without a GPU writes 23,040 values
a day. MLflow's own environment variables override both."""


class MachineMetrics:
    """Runs MLflow's monitor of CPU, memory, disk, network and GPUs for one run.

    The monitor stops if the server cannot be reached, and when its run ends. ``look`` starts a new
    one, which continues after the last point. A point has ``samples`` samples, ``seconds`` apart.
    """

    def __init__(
        self, tracking_uri: str, *, seconds: float = SECONDS, samples: int = SAMPLES
    ) -> None:
        self._uri, self._seconds, self._samples = tracking_uri, seconds, samples
        self._monitor: Any = None
        self._thread: threading.Thread | None = None

    def look(self, run: str) -> None:
        """Start the monitor for an active run, given by its id, unless it is running."""
        if self._thread is not None and self._thread.is_alive():
            return
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

        self._monitor = SystemMetricsMonitor(
            run,
            sampling_interval=self._seconds,
            samples_before_logging=self._samples,
            resume_logging=True,
            tracking_uri=self._uri,
        )
        logging.getLogger(SystemMetricsMonitor.__module__).setLevel(logging.ERROR)  # an outage
        self._thread = threading.Thread(
            target=self._monitor.monitor, name="sentune-machine", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Send the last samples; the monitor stops with the run, within ``seconds``."""
        if self._monitor is None:
            return
        try:
            self._monitor.mlflow_logger.flush()
        except Exception as error:  # noqa: BLE001  # no error of MLflow may end the study
            log.info("the last system metrics were not sent to MLflow: %s", error)
