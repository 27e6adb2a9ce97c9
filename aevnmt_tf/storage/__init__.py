"""Crash-safe files: text files and streams, atomic writes, locks, the directory of a run."""
