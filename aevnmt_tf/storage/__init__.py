"""Files that survive a kill: lines of text, atomic writes, locks, the directory of a run."""
