"""Pages that are made from the source are current."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_deviations_is_current():
    assert tool("deviations_page").main(["--check"]) == 0, "run tools/deviations_page.py"


def test_a_tag_may_span_lines(tmp_path):
    package = tmp_path / "p"
    package.mkdir()
    (package / "a.py").write_text(
        "x = 1\n# DEVIATION: the first <s>\n# goes on.\n# DEVIATION: another\ny = 2\n"
    )
    page = tool("deviations_page").page(package)
    assert "## `p/a.py`" in page
    assert "- The first \\<s> goes on.\n- Another\n" in page


def test_a_tag_may_be_a_paragraph_of_a_docstring(tmp_path):
    package = tmp_path / "p"
    package.mkdir()
    (package / "a.py").write_text(
        'class A:\n    """About.\n\n    DEVIATION: it spans\n    two lines.\n\n    More."""\n'
        'class B:\n    """About.\n\n    DEVIATION: the end\n    """\n'
    )
    assert tool("deviations_page").page(package).endswith("- It spans two lines.\n- The end\n")


@pytest.mark.parametrize(
    "words",
    [
        "finished hypotheses in the beam",
        "\\</s>, whose log-prob",
        "sacreBLEU",
        "num_encoder_layers",
        "TF-NMT's `bi`",
    ],
)
def test_known_deviations_are_tagged(words):
    assert words in (ROOT / "docs" / "deviations.md").read_text(encoding="utf-8")


def test_the_overview_draws_every_system():
    figure = tool("overview_figure").make("dark")
    curves = figure.axes[1]
    assert [line.get_label().split()[0] for line in curves.get_lines()] == ["COND", "AEVNMT"]
    assert all(len(line.get_xdata()) >= 5 for line in curves.get_lines())
