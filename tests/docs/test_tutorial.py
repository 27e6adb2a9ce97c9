"""The tutorial notebook: stored without outputs, and (slow) it runs from start to end."""

import pathlib

import pytest

nbformat = pytest.importorskip("nbformat")

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "tutorial.ipynb"


@pytest.fixture
def notebook():
    return nbformat.read(PAGE, as_version=4)


def test_it_is_valid_and_has_no_outputs(notebook):
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None


@pytest.mark.slow
def test_it_runs(notebook, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("STEPS", "20")
    client = nbclient.NotebookClient(
        notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()  # an error of a cell, or of a command in it, is raised
    texts = [
        output.get("text", "") + str(output.get("data", {}).get("text/plain", ""))
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]
    for expected in ("finished at step 20", "<Translator: aevnmt", "R-hat", "signatures:"):
        assert any(expected in text for text in texts), (expected, texts)
    # What is served equals what is offline.
    by_source = {cell.source: cell.outputs for cell in notebook.cells if "outputs" in cell}
    offline = next(out for source, out in by_source.items() if "translate(sentences)" in source)
    served = next(out for source, out in by_source.items() if 'serving_default"]' in source)
    assert offline[0].data == served[0].data
