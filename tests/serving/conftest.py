"""What is served: a toy model, a small export of a real one, and servers with them."""

import shutil

import pytest

import aevnmt_tf
from tests import tiny_export
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


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A small run with its export, the same for all tests; not to be changed."""
    return tiny_export.shared(tmp_path_factory)


@pytest.fixture(scope="module")
def folder(shared):
    """The export's only version."""
    return shared.export_dir / "1"


@pytest.fixture(scope="module")
def offline(shared):
    """The translator of the run that was exported."""
    return aevnmt_tf.load(shared.run)
