"""Mean, spread, bold and the two ways of printing a table."""

import json
import re
import shutil
import statistics
import subprocess

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.experiments import result_pages, score_tables


def score(value, **labels):
    return score_tables.LabelledScore(
        {"system": "s", "test": "t", "metric": "bleu", **labels}, value
    )


def scores(**values):
    """Scores of systems by name: one a run."""
    return [score(value, system=name) for name, found in values.items() for value in found]


def table(found, **options):
    options = {"rows": ["system"], "columns": ["metric"], "compare": "system", **options}
    return score_tables.pivot(found, **options)


def best(table):
    """The rows that have a best cell."""
    return sorted(cell["row"] for cell in table["cells"] if cell["best"])


@hypothesis.given(strategies.lists(strategies.floats(-1e6, 1e6), min_size=3, max_size=9))
def test_mean_and_std_are_those_of_numpy_and_statistics(values):
    (cell,) = table(scores(a=values))["cells"]
    assert cell["mean"] == pytest.approx(np.mean(values), rel=1e-9, abs=1e-6)
    assert cell["std"] == pytest.approx(np.std(values, ddof=1), rel=1e-9, abs=1e-6)
    assert cell["std"] == statistics.stdev(values)


def test_a_worked_example_as_the_paper_prints_it():
    # mean 18.4, squares of differences 0.04 + 0.01 + 0.01 + 0.04 = 0.1; 0.1 / 3 = 0.18257^2
    found = table(scores(cond=[18.2, 18.3, 18.5, 18.6], aevnmt=[17.0, 17.4], joint=[18.04]))
    assert result_pages.markdown(found) == (
        "| system | BLEU ↑ |\n"
        "| --- | ---: |\n"
        "| cond | **18.4 (0.2)** |\n"
        "| aevnmt | 17.2 (17.0–17.4) |\n"
        "| joint | 18.0 |\n"
    )
    cell = found["cells"][0]
    assert cell["mean"] == pytest.approx(18.4)
    assert cell["std"] == pytest.approx(0.1825741858)
    assert (cell["min"], cell["max"], cell["best"]) == (18.2, 18.6, True)


@pytest.mark.parametrize(
    "metric, expected", [("bleu", ["b"]), ("ter", ["a"]), ("kl", []), ("meteor", ["b"])]
)
def test_bold_goes_the_way_of_the_metric(metric, expected):
    found = table(
        [score(1.0, system="a", metric=metric), score(2.0, system="b", metric=metric)]
    )
    assert best(found) == [[name] for name in expected]


def test_equal_as_printed_is_equally_bold_and_one_alone_is_not():
    found = table(scores(a=[20.01], b=[19.96], c=[19.94]))
    assert best(found) == [["a"], ["b"]]
    assert best(table(scores(a=[20.0]))) == []
    assert best(table(scores(a=[1.0], b=[2.0]), compare=None)) == []


def test_only_what_differs_in_the_compared_label_competes():
    found = [
        score(value, system=f"{model}{domain}", Model=model, test=domain)
        for model, values in {"Cond": [9, 8], "AEVNMT": [7, 12]}.items()
        for domain, value in zip(["hardware", "legal"], values, strict=True)
    ]
    made = score_tables.pivot(
        found, rows=["Model", "test"], columns=["metric"], compare="Model"
    )
    assert best(made) == [["AEVNMT", "legal"], ["Cond", "hardware"]]
    # Rows stand in the order of their models, whatever the order of the scores.
    mixed = score_tables.pivot(
        found[::2] + found[1::2], rows=["Model", "test"], columns=["metric"]
    )
    assert [row[0] for row in mixed["rows"]] == ["Cond", "Cond", "AEVNMT", "AEVNMT"]


def test_two_systems_in_one_cell_are_an_error():
    with pytest.raises(UserError, match="systems a and b share a cell .*bleu"):
        score_tables.pivot(scores(a=[1.0], b=[2.0]), rows=["test"], columns=["metric"])


def wide(decimals=1):
    return score_tables.pivot(
        [
            score(value, system=f"{task}{model}{way}", Task=task, Model=model, Direction=way)
            for task in ("IWSLT14", "R&D_50%")
            for model, values in {"Cond": [1.0, 2.0, 3.0], "Joint": [-2.5]}.items()
            for way in ("En-De", "De-En")
            for value in values
        ]
        + [
            score(
                5.0,
                system="only",
                Task="IWSLT14",
                Model="Cond",
                Direction="En-De",
                metric="ter",
            )
        ],
        rows=["Task", "Model"],
        columns=["Direction", "metric"],
        compare="Model",
        decimals=decimals,
        caption="50 % of #1 & {x}_y ~ ^ \\ <bt> $5 a|b",
        label="tab:x_y",
    )


def test_json_gives_the_same_table_back():
    made = wide()
    again = json.loads(json.dumps(made))
    assert again == made
    assert result_pages.markdown(again) == result_pages.markdown(made)


def test_missing_cells_and_bars_in_markdown():
    found = table(scores(**{"a|b": [1.0]}) + [score(2.0, system="c", metric="ter")])
    lines = result_pages.markdown(found).splitlines()
    assert lines[2:] == ["| a\\|b | 1.0 | – |", "| c | – | 2.0 |"]


def test_latex_has_the_form_of_the_paper():
    text = result_pages.latex(wide())
    assert r"\begin{tabular}{llccc}" in text
    assert r"&  & \multicolumn{2}{c}{En-De} & \multicolumn{1}{c}{De-En} \\" in text
    assert r"\cmidrule(lr){3-4} \cmidrule(lr){5-5}" in text
    assert r"Task & Model & BLEU $\uparrow$ & TER $\downarrow$ & BLEU $\uparrow$ \\" in text
    assert r"IWSLT14 & Cond & \textbf{2.0~(1.0)} & 5.0 & \textbf{2.0~(1.0)} \\" in text
    assert r" & Joint & $-$2.5\phantom{~(0.0)} & -- & $-$2.5\phantom{~(0.0)} \\" in text
    assert r"R\&D\_50\% & Cond &" in text
    assert text.count(r"\midrule") == 2 and text.count(r"\toprule") == 1
    assert r"\label{tab:x_y}" in text


def test_a_range_of_negative_numbers_can_be_read():
    found = table(scores(a=[-45.1, -44.9], b=[-1.0, 2.0], c=[0.0, 1.0]))
    text = result_pages.markdown(found)
    assert "-45.0 (-45.1 to -44.9)" in text
    assert "0.5 (-1.0 to 2.0)" in text and "0.5 (0.0–1.0)" in text
    text = result_pages.latex(found)
    assert r"$-$45.0~($-$45.1 to $-$44.9)" in text and "0.5~($-$1.0 to 2.0)" in text
    assert result_pages.escape("En-De, -x") == "En-De, -x"


def test_every_line_of_latex_has_as_many_cells_and_no_bare_special_character():
    body = result_pages.latex(wide()).split(r"\toprule")[1].split(r"\bottomrule")[0]
    for line in body.splitlines():
        if not line.endswith(r"\\"):
            continue
        spans = [int(n) for n in re.findall(r"\\multicolumn\{(\d+)\}", line)]
        cells = len(re.findall(r"(?<!\\)&", line)) + 1
        assert cells + sum(spans) - len(spans) == 5, line
    caption = re.search(r"\\caption\{(.*)\}", result_pages.latex(wide())).group(1)
    plain = re.sub(r"\\(text\w+\{\}|[&%$#_{}])", "", caption)
    assert not set(plain) & set("&%$#_{}~^\\<>|")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no LaTeX here")
def test_latex_compiles(tmp_path):
    head = r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{booktabs}"
    body = f"\\begin{{document}}\n{result_pages.latex(wide())}\\end{{document}}\n"
    (tmp_path / "t.tex").write_text(head + body)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
