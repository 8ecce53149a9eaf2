"""The device under the server: its lock, its readings, its temperature and who else uses it."""
