"""Downloads that resume where they stopped and are verified when they are complete."""

import hashlib
import http.client
import os
import pathlib
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import NamedTuple

import rich.console
import rich.progress

from aevnmt_tf.cli.errors import UserError

console = rich.console.Console(stderr=True)

WAITS = (1, 2, 4, 8)  # seconds before another try; progress starts them anew
BLOCK = 1 << 16
NETWORK = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)


class File(NamedTuple):
    """A file to fetch. `checksum` is that of the file as it is published."""

    name: str
    folder: str
    checksum: str


def transfer(url: str, part: pathlib.Path, show: Callable[[int, int | None], None]) -> None:
    """Try once to bring `part` to its full length, from where it stands."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "aevnmt_tf", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    request = urllib.request.Request(url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        if error.headers.get("Content-Range") == f"bytes */{have}":
            return  # it was complete
        part.unlink()
        raise ConnectionError("the file has changed on the server") from None
    with response:
        if response.status != 206:
            have = 0  # the server sends the whole file
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.unlink()
            raise ConnectionError("the server sends another part of the file")
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        with open(part, "ab" if have else "wb") as file:
            while block := response.read(BLOCK):
                file.write(block)
                have += len(block)
                show(have, total)
    if total is not None and have < total:
        raise ConnectionError(f"the transfer ended after {have} of {total} bytes")


def download(url: str, part: pathlib.Path) -> None:
    """Fetch a file, with a progress bar; go on after broken transfers."""
    columns = (
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(),
        rich.progress.DownloadColumn(),
        rich.progress.TransferSpeedColumn(),
        rich.progress.TimeRemainingColumn(),
    )
    waits = list(WAITS)
    quiet = not console.is_terminal
    with rich.progress.Progress(*columns, console=console, disable=quiet) as progress:
        task = progress.add_task(part.stem, total=None)
        while True:
            before = part.stat().st_size if part.exists() else 0
            try:
                return transfer(
                    url, part, lambda n, total: progress.update(task, completed=n, total=total)
                )
            except NETWORK as error:
                if (
                    isinstance(error, urllib.error.HTTPError)
                    and error.code < 500
                    and error.code not in (408, 429)
                ):
                    raise UserError(
                        f"{url}: the server answered {error.code} {error.reason}; use another "
                        "server with --mirror URL, or your own files with --from DIR."
                    ) from None
                if part.exists() and part.stat().st_size > before:
                    waits = list(WAITS)
                if not waits:
                    raise UserError(
                        f"cannot download {url} ({getattr(error, 'reason', error)}); is this "
                        "machine online? The same command resumes the download."
                    ) from None
                time.sleep(waits.pop(0))


def matches(path: pathlib.Path, checksum: str) -> bool:
    """Return whether the file has the checksum, which is written algorithm:digits."""
    algorithm, digits = checksum.split(":")
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest() == digits


def fetch(
    file: File, *, folder: pathlib.Path, mirror: str | None, checked: bool
) -> pathlib.Path:
    """Download and check a file where it is not there yet; return its path."""
    path = folder / file.name
    if path.exists() and (not checked or matches(path, file.checksum)):
        return path
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{file.name}.part"
    url = f"{mirror.rstrip('/')}/" if mirror else file.folder
    resumed = part.exists()
    download(url + file.name, part)
    if checked and not matches(part, file.checksum):
        part.unlink()
        if resumed:  # the first part may be of another version of the file
            return fetch(file, folder=folder, mirror=mirror, checked=checked)
        raise wrong(url + file.name, file)
    os.replace(part, path)
    return path


def wrong(place: object, file: File) -> UserError:
    """Return the error about a file with another checksum."""
    return UserError(
        f"{place} does not have the checksum {file.checksum}: it is damaged or another "
        "version. --unchecked accepts it."
    )
