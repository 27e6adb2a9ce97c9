"""A toy model and servers that answer with it."""

import shutil

import pytest

from tests.serving import toy_model
from tests.serving.running import running_server


@pytest.fixture(scope="session")
def toy_versions(tmp_path_factory):
    """Two versions of the toy model; to be copied, not changed."""
    folder = tmp_path_factory.mktemp("toy")
    return {number: toy_model.save(folder, number) for number in (1, 2)}


@pytest.fixture(scope="module")
def toy_export(toy_versions, tmp_path_factory):
    """A folder with version 1 of the toy model."""
    folder = tmp_path_factory.mktemp("export")
    shutil.copytree(toy_versions[1], folder / "1")
    return folder


@pytest.fixture(scope="session")
def start_server():
    """Returns a context manager: a real server on free ports."""
    return running_server


@pytest.fixture(scope="module")
def toy_server(toy_export):
    """A server with version 1 of the toy model."""
    with running_server(toy_export) as running:
        yield running
