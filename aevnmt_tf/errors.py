"""The one exception that is meant for people."""


class UserError(Exception):
    """A mistake of the person at the keyboard: one sentence, exit code 2, no traceback."""
