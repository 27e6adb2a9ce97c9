"""Settings files for the tests of settings."""

import json

import pytest


@pytest.fixture
def write(tmp_path):
    """Writes a settings file, from a dictionary or as the text given."""

    def write(values, name="settings.json"):
        path = tmp_path / name
        text = values if isinstance(values, str) else json.dumps(values, indent=1)
        path.write_text(text, encoding="utf-8")
        return path

    return write
