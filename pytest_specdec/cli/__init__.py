"""The commands of ``python -m pytest_specdec``. None imports pytest: where it is needed it runs as a process."""
