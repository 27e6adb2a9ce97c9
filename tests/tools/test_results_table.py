"""The results in docs/results.md are those of the files in results/."""

import copy
import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def load():
    spec = importlib.util.spec_from_file_location(
        "results_table", ROOT / "tools/results_table.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["results_table"] = module
    spec.loader.exec_module(module)
    return module


results_table = load()
RESULTS = {
    "plan": "hparams/plans/demo.json",
    "note": None,
    "command": "python -m aevnmt_tf.experiment --plan hparams/plans/demo.json",
    "machines": [{"processor": "a processor", "cores": 2}],
    "versions": {"tensorflow": "2.21.0"},
    "signatures": {"bleu": "nrefs:1"},
    "wall_time_seconds": 3720.0,
    "trained_runs": 2,
    "systems": {"cond": {"runs": [{}, {}]}},
    "tables": [
        {
            "caption": "A caption.",
            "label": "",
            "row_names": ["system"],
            "column_names": ["metric"],
            "rows": [["cond"]],
            "columns": [["bleu"]],
            "compare": None,
            "decimals": 1,
            "cells": [
                {
                    "row": ["cond"],
                    "column": ["bleu"],
                    "metric": "bleu",
                    "values": [1.0, 2.0],
                    "mean": 1.5,
                    "std": 0.5**0.5,
                    "min": 1.0,
                    "max": 2.0,
                    "best": False,
                }
            ],
        }
    ],
    "missing": [],
}
PAGE = "# Title\n\n<!-- results:begin demo -->\nold\n<!-- results:end demo -->\n\nend\n"


@pytest.fixture
def call(tmp_path, capsys):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "demo.json").write_text(json.dumps(RESULTS))

    def call(page, *words):
        (tmp_path / "page.md").write_text(page)
        flags = ["--page", str(tmp_path / "page.md"), "--results", str(tmp_path / "results")]
        code = results_table.main([*flags, *words])
        return code, (tmp_path / "page.md").read_text(), capsys.readouterr().err

    return call


def test_writes_between_the_marks_and_again_the_same(call):
    code, page, _ = call(PAGE)
    assert code == 0
    assert page == (
        "# Title\n\n<!-- results:begin demo -->\n\nA caption.\n\n"
        "| system | BLEU ↑ |\n| --- | ---: |\n| cond | 1.5 (1.0–2.0) |\n\n"
        "2 runs: mean (range).\n\n- BLEU: `nrefs:1`\n\n"
        "Trained in 1 h 2 min in all (2 runs), on 2 cores of a processor, "
        "tensorflow 2.21.0:\n\n"
        "    python -m aevnmt_tf.experiment --plan hparams/plans/demo.json\n\n"
        "<!-- results:end demo -->\n\nend\n"
    )
    assert call(page)[:2] == (0, page)
    assert call(page, "--check")[0] == 0


def test_check_changes_nothing(call):
    code, page, said = call(PAGE, "--check")
    assert (code, page) == (1, PAGE) and "is not current" in said


@pytest.mark.parametrize(
    "page, sentence",
    [
        ("no marks\n", "results/demo.json has no place"),
        (PAGE.replace("end demo", "end dem"), "line 5: dem ends, but has not begun"),
        (PAGE.replace("<!-- results:end demo -->", ""), "demo begins and does not end"),
        (PAGE + PAGE, "line 10: demo stands here a second time"),
        (PAGE + "<!-- results:begin x -->\n", "line 8: there is no results/x.json"),
    ],
)
def test_marks_that_do_not_fit(call, page, sentence):
    code, after, said = call(page)
    assert code == 2 and after == page and sentence in said


def test_other_json_is_named(call, tmp_path):
    broken = copy.deepcopy(RESULTS)
    del broken["tables"]
    (tmp_path / "results" / "other.json").write_text(json.dumps(broken))
    code, _, said = call(PAGE)
    assert code == 2 and "other.json is no results.json of an experiment" in said


def test_the_page_is_current():
    assert results_table.main(["--check"]) == 0


def test_a_picture_shows_the_runs_whose_reports_are_kept(tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(
        results_table.training_curves,
        "draw",
        lambda groups, path: drawn.update({path.name: groups}),
    )
    for seed in (1, 2):
        folder = tmp_path / "runs" / f"seed{seed}"
        folder.mkdir(parents=True)
        (folder / "metrics.jsonl").write_text(f'{{"step": 10, "dev_bleu": {seed}.5}}\n')
    runs = [{"folder": f"runs/seed{seed}"} for seed in (1, 2, 3)]  # the third is gone
    system = {"labels": {"Direction": "En-De", "Model": "COND"}, "runs": runs}
    found = {"a": {"systems": {"cond": system}}, "b": {"systems": {"x": {"runs": [{}]}}}}
    results_table.draw(found, root=tmp_path, folder=tmp_path)
    curves = [{"dev_bleu": [(10, 1.5)]}, {"dev_bleu": [(10, 2.5)]}]
    assert drawn == {"results_a.png": {"En-De COND": curves}}
