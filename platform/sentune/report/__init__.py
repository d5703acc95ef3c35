"""The report of a study, as one self-contained HTML page and as Markdown."""

from sentune.report.study_page import build, write

__all__ = ["build", "write"]
