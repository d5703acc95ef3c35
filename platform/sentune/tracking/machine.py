"""MLflow's system metrics of the driver's machine, on the run of its study."""

from __future__ import annotations

import logging
import threading
from typing import Any

log = logging.getLogger(__name__)

SECONDS, SAMPLES = 10.0, 3
"""Between two samples, and samples of a point: a day of a machine without a GPU writes 23,040
values. MLflow's own environment variables change both."""


class MachineMetrics:
    """Runs MLflow's monitor for one run: CPU, memory, disk, network and, where there are, GPUs.

    The monitor ends by itself where the server is away, and with its run; ``look`` starts another
    one, which goes on behind the last point.
    """

    def __init__(
        self, tracking_uri: str, *, seconds: float = SECONDS, samples: int = SAMPLES
    ) -> None:
        self._uri, self._seconds, self._samples = tracking_uri, seconds, samples
        self._monitor: Any = None
        self._thread: threading.Thread | None = None

    def look(self, run: str) -> None:
        """Watch the machine for a run that is at work, by its id, unless that is done already."""
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
        """Send what is held back; the monitor ends with the run, within ``seconds``."""
        if self._monitor is None:
            return
        try:
            self._monitor.mlflow_logger.flush()
        except Exception as error:  # noqa: BLE001  # MLflow may fail in any way, a study must not
            log.info("the last system metrics did not reach MLflow: %s", error)
