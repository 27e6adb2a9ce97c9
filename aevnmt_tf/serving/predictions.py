"""Predictions, the same for both protocols: limits, queue, deadline and log."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np

from aevnmt_tf.serving.request_parts import Arrays
from aevnmt_tf.serving.servable import ServedSignature
from aevnmt_tf.serving.server_metrics import LoggedRequest
from aevnmt_tf.serving.server_options import ServerOptions
from aevnmt_tf.serving.status import RequestError
from aevnmt_tf.serving.versions import Version

# Larger requests and replies are converted in another thread than the event loop's.
LARGE_BODY, LARGE_REPLY = 2**15, 4096


async def call(in_thread: bool, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function, in another thread if it takes long."""
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
    """Return the outputs of a request of `size` bytes, whose inputs `read` returns.

    When the client disconnects (`gone`) or the deadline passes, batches of the request that
    have not started are dropped. Running batches are stopped if no other request needs them.
    """

    def admit() -> tuple[Arrays, np.ndarray]:
        inputs = read()
        signature.check_rows(inputs)
        options.check_inputs(inputs)
        words = version.servable.count_words(inputs)
        options.check_words(words)
        options.check_reply(signature.num_values(words))
        return inputs, words

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
            raise RequestError("CANCELLED", "The client has disconnected.")
        message = "The request took too long: see --request_timeout."
        raise RequestError("DEADLINE_EXCEEDED", message)
    finally:
        for one in waiting:
            one.cancel()


async def reply(outputs: Arrays, write: Callable[[Arrays], Any], options: ServerOptions) -> Any:
    """Return `write(outputs)`, unless the answer is too large."""
    size = sum(array.size for array in outputs.values())
    options.check_reply(size)
    return await call(size > LARGE_REPLY, write, outputs)
