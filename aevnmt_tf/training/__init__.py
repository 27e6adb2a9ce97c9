"""Training: the one step, the loop, schedules, checkpoints and reporting."""
