"""Clear messages for disk errors, whether Python, TensorFlow or h5py raises them."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator

from aevnmt_tf.cli.errors import UserError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
# How TensorFlow reports errors of the file system. Its other errors are bugs.
_TENSORFLOW = (
    "ResourceExhaustedError",
    "PermissionDeniedError",
    "UnavailableError",
    "UnknownError",
    "DataLossError",
    "NotFoundError",
)


@contextlib.contextmanager
def explained(what: str, *, instead: str = "choose another folder") -> Iterator[None]:
    """Turn disk errors into a UserError "cannot WHAT: REASON.".

    Args:
        what: What failed, such as "write FILE".
        instead: What to do if writing is not permitted.
    """
    try:
        yield
    except Exception as error:
        reason = _reason(error, instead)
        if reason is None:
            raise
        raise UserError(f"cannot {what}: {reason}.") from error


def _reason(error: Exception, instead: str) -> str | None:
    """Return the reason for a disk error; None for any other error."""
    number = getattr(error, "errno", None) if isinstance(error, OSError) else None
    # TensorFlow, and h5py when it closes a file, give the system's message without its number.
    number = number or _number(str(error))
    is_ours = isinstance(error, OSError) or _is_of_tensorflow(error, *_TENSORFLOW)
    quotes = isinstance(error, RuntimeError) or _is_of_tensorflow(error, "OpError")
    if not is_ours and not (quotes and number):
        return None
    if number in _FULL:
        return (
            "the disk is full; what was saved before is intact, so free some space and run the "
            "same command again"
        )
    if number in _FORBIDDEN:
        return f"no permission to write there; {instead}"
    strerror = getattr(error, "strerror", None)
    reason = str(strerror or getattr(error, "message", None) or error).partition("\n")[0]
    return f"{reason[:1].lower()}{reason[1:]}".rstrip(".")


def _is_of_tensorflow(error: Exception, *names: str) -> bool:
    tf = sys.modules.get("tensorflow")
    return tf is not None and isinstance(
        error, tuple(getattr(tf.errors, name) for name in names)
    )


def _number(message: str) -> int | None:
    """Return the number of the system error that a message quotes."""
    for number in (*_FULL, *_FORBIDDEN, errno.EFBIG, errno.EIO):
        if os.strerror(number).lower() in message.lower():
            return number
    return None
