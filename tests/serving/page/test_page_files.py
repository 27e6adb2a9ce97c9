"""The files of the page: all of them installed, nothing from elsewhere, text only as text."""

import pathlib
import re
import runpy

import pytest

from aevnmt_tf.serving import rest

FILES = sorted(path for path in rest.PAGE.iterdir() if path.is_file())
NAMES = [path.name for path in FILES]
ROOT = pathlib.Path(__file__).parents[3]


def read(name):
    return (rest.PAGE / name).read_text(encoding="utf-8")


def scripts():
    return [name for name in NAMES if name.endswith(".js")]


def test_all_are_installed(monkeypatch):
    setuptools = pytest.importorskip("setuptools")
    found = {}
    monkeypatch.setattr(setuptools, "setup", lambda **options: found.update(options))
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "setup.py"))
    assert "aevnmt_tf.serving" in found["packages"]
    assert found["package_data"]["aevnmt_tf.serving"] == [f"{rest.PAGE.name}/*"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_comes_from_elsewhere(name):
    text = read(name).replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"\w+://|\burl\(|@import|\bdata:|//\w+\.\w", text)


@pytest.mark.parametrize("name", scripts())
def test_text_goes_in_as_text(name):
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\("
    assert not re.search(forbidden, read(name))


def test_no_inline_code():
    page = read("index.html")
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page)
    assert re.findall(r"<script[^>]*>(.*?)</script>", page, flags=re.DOTALL) == [""]


def test_what_is_named_exists():
    page = read("index.html")
    named = re.findall(r'(?:src|href)="page/([^"]+)"', page)
    for name in scripts():
        named += re.findall(r'from "\./([^"]+)"', read(name))
    assert {"page.js", "page.css", "icon.svg", "api.js"} <= set(named) <= set(NAMES)
    # Every file is used.
    assert set(NAMES) - set(named) == {"index.html"}
    ids = set(re.findall(r'\bid="([^"]+)"', page))
    used = {
        i
        for name in scripts()
        for i in re.findall(r'(?:\$|ById|Panel)\("([\w-]+)"', read(name))
    }
    used |= set(re.findall(r'(?:for|aria-labelledby|aria-describedby)="([^"]+)"', page))
    assert used and used <= ids
