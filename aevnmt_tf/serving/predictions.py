"""A prediction, whatever the protocol: limits, the queue, deadlines, and what is logged."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from aevnmt_tf.serving.access_log import LoggedRequest
from aevnmt_tf.serving.servable import ServedSignature
from aevnmt_tf.serving.server_options import ServerOptions
from aevnmt_tf.serving.status import RequestError
from aevnmt_tf.serving.versions import Version

# Larger requests and replies are the work of another thread than the event loop's.
LARGE_BODY, LARGE_REPLY = 2**15, 4096
Arrays = Mapping[str, np.ndarray]


async def call(in_thread: bool, function: Callable[..., Any], *args: Any) -> Any:
    """Return what a function gives, which another thread may run."""
    return await asyncio.to_thread(function, *args) if in_thread else function(*args)


async def predict(
    version: Version,
    signature: ServedSignature,
    read: Callable[[], Arrays],
    *,
    size: int,
    timeout: float,
    options: ServerOptions,
    logged: LoggedRequest,
    gone: asyncio.Future | None = None,
) -> Arrays:
    """Return the outputs of a request.

    When the client leaves or the time is over, the request is cancelled: what has not started
    of it is not run, and what runs for nobody else is stopped.

    Args:
        version: which answers.
        signature: what is asked of it.
        read: returns the inputs.
        size: of the request, in bytes.
        timeout: in seconds.
        options: the limits.
        logged: gets what is known of the request.
        gone: is done when the client has gone.
    """

    def admit() -> tuple[Arrays, np.ndarray]:
        inputs = read()
        return inputs, version.admit(signature, inputs, options)

    logged.signature, logged.version = signature.name, str(version.number)
    inputs, words = await call(size > LARGE_BODY, admit)
    logged.lines, logged.words = len(words), int(words.sum())
    answer = asyncio.wrap_future(version.queues[signature.name].submit(inputs, words=words))
    waiting = {answer} if gone is None else {answer, gone}
    try:
        await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        if gone is not None and gone.done():
            raise RequestError("CANCELLED", "the client has gone")
        sentence = "the request took too long: see --request_timeout"
        raise RequestError("DEADLINE_EXCEEDED", sentence)
    finally:
        for one in waiting:
            one.cancel()


async def reply(outputs: Arrays, write: Callable[[Arrays], Any], options: ServerOptions) -> Any:
    """Return what `write` makes of an answer that is not too large."""
    size = sum(array.size for array in outputs.values())
    options.check_reply(size)
    return await call(size > LARGE_REPLY, write, outputs)
