"""What all verbs share: commands, flags, errors and exit codes, progress, the machine."""
