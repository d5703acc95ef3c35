"""A study's report: one HTML page that needs nothing from outside, and the same as Markdown."""

from sentune.report.study_page import build, write

__all__ = ["build", "write"]
