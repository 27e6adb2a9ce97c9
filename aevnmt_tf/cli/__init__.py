"""Code that all commands share: flags, errors, exit codes, progress, tables, the machine."""
