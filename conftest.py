"""Lets the project's own tests drive pytest in a pytest."""

pytest_plugins = ["pytester"]
