"""A study's report: one HTML page that needs nothing from outside, and the same as Markdown."""

from sentune.report.render import StudyReport
from sentune.report.study_page import HTML, MARKDOWN, build, write

__all__ = ["HTML", "MARKDOWN", "StudyReport", "build", "write"]
