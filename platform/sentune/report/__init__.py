"""A study's report: one HTML page that needs nothing from outside, and the same as Markdown."""

from sentune.report.render import Report
from sentune.report.study_page import HTML, MARKDOWN, build, write

__all__ = ["HTML", "MARKDOWN", "Report", "build", "write"]
