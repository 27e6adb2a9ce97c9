"""Installs the package; tools/run does this for you."""

import pathlib
import re

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).parent


def requirements():
    """The pinned runtime, without comments."""
    lines = (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    lines = [line.split("#")[0].strip() for line in lines]
    return [line for line in lines if line]


def version():
    """The version, read without importing the package."""
    text = (HERE / "aevnmt_tf" / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"', text, re.MULTILINE).group(1)


setup(
    name="aevnmt_tf",
    version=version(),
    description="Auto-Encoding Variational Neural Machine Translation in TensorFlow and Keras",
    license="Apache-2.0",
    packages=find_packages(include=["aevnmt_tf", "aevnmt_tf.*"]),
    # Whatever a sub-package ships beside its code: the demo page of the server, for one.
    package_data={"": ["*.html", "*.css", "*.js", "*.svg", "*.json", "*.txt", "*.proto"]},
    python_requires=">=3.10,<3.13",
    install_requires=requirements(),
    extras_require={
        "dev": [
            "pytest==9.2.0",
            "pytest-xdist==3.8.0",
            'hypothesis==6.170.15; python_version >= "3.11"',
            'hypothesis==6.168.5; python_version < "3.11"',
            "ruff==0.17.4",
            "httpx==0.28.1",  # a real HTTP client for the server's tests
            "playwright==1.65.0",  # drives the system's Chromium for the page's tests
        ],
    },
    entry_points={"console_scripts": ["aevnmt = aevnmt_tf.__main__:main"]},
)
