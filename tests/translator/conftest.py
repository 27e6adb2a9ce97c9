"""The translator that most tests of this folder share; none of them changes it."""

import pytest

from tests.tiny_translator import make


@pytest.fixture(scope="session")
def shared():
    return make()
