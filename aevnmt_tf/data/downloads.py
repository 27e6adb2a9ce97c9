"""Downloads that resume after an interruption and are verified against checksums."""

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
from aevnmt_tf.storage.run_directory import digest

console = rich.console.Console(stderr=True)

WAITS = (1, 2, 4, 8)  # seconds before each retry; any progress starts them anew
BLOCK = 1 << 16
NETWORK = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)


class File(NamedTuple):
    """A published file, its address without the name, and its checksum."""

    name: str
    folder: str
    checksum: str


def transfer(url: str, part: pathlib.Path, show: Callable[[int, int | None], None]) -> None:
    """Try once to download the rest of a file; `part` holds the beginning."""
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
            return  # it is already complete
        part.unlink()
        raise ConnectionError("the file has changed on the server") from None
    with response:
        if response.status != 206:
            have = 0  # the server sends the whole file
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.unlink()
            raise ConnectionError("the server sent another part of the file")
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
    """Download a file with a progress bar; retry after network errors."""
    columns = (
        *rich.progress.Progress.get_default_columns(),
        rich.progress.DownloadColumn(),
        rich.progress.TransferSpeedColumn(),
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
                code, reason = getattr(error, "code", 500), getattr(error, "reason", error)
                if code < 500 and code not in (408, 429):
                    raise UserError(
                        f"{url}: the server answered {code} {reason}; use another server with "
                        "--mirror URL, or your own files with --from DIR."
                    ) from None
                if part.exists() and part.stat().st_size > before:
                    waits = list(WAITS)
                if not waits:
                    raise UserError(
                        f"cannot download {url} ({reason}); is this machine online? Run the "
                        "same command again to resume the download."
                    ) from None
                time.sleep(waits.pop(0))


def matches(path: pathlib.Path, checksum: str) -> bool:
    """Return whether a file has the checksum ALGORITHM:DIGITS."""
    algorithm, digits = checksum.split(":")
    return digest(path, algorithm) == digits


def fetch(
    file: File, *, folder: pathlib.Path, mirror: str | None, checked: bool
) -> pathlib.Path:
    """Return the path of a file; download and check it if necessary."""
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
        if resumed:  # the first part may belong to another version of the file
            return fetch(file, folder=folder, mirror=mirror, checked=checked)
        raise wrong(url + file.name, file)
    os.replace(part, path)
    return path


def wrong(place: object, file: File) -> UserError:
    """Return the error for a file whose checksum differs."""
    return UserError(
        f"{place} does not have the checksum {file.checksum}: it is damaged or another "
        "version. Use --unchecked to accept it."
    )
