"""Every lesson, read once for all tests of a process."""

from lessons import catalogue

ALL = catalogue.lessons()
