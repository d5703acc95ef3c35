"""A study's report: one HTML page that needs nothing from outside, and the same as Markdown."""

from sentune.report.build import HTML, MARKDOWN, build, write
from sentune.report.document import Report

__all__ = ["HTML", "MARKDOWN", "Report", "build", "write"]
