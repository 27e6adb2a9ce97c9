"""What is read from metrics.jsonl, and that pictures come out."""

import json

from aevnmt_tf.plots import training_curves


def write(path, *lines, tail=""):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + tail)
    return path


def test_reads_the_points_and_leaves_out_what_is_none(tmp_path):
    path = write(
        tmp_path / "metrics.jsonl",
        {"step": 5, "kl": 1.0},
        {"step": 10, "dev_bleu": 3.5, "dev_kl": 2.0},
        {"step": 20, "dev_bleu": 4.5, "dev_kl": None},
        {"dev_bleu": 9.0},
        7,
        tail='{"step": 30, "dev_bleu": 8',
    )
    assert training_curves.read(path) == {
        "dev_bleu": [(10, 3.5), (20, 4.5)],
        "dev_kl": [(10, 2.0)],
    }
    assert training_curves.read(tmp_path / "none") == {}
    path = write(
        path, {"step": 1, "dev_bleu": 0.0, "dev_kl": 0.0}, {"step": 2, "dev_bleu": 1.0}
    )
    assert training_curves.read(path) == {"dev_bleu": [(1, 0.0), (2, 1.0)]}  # cond


def test_draws_a_panel_for_each_kind_of_curve(tmp_path):
    from matplotlib import image

    both = {"dev_bleu": [(1, 2.0), (2, 3.0)], "dev_kl": [(1, 0.5), (2, 0.7)]}
    bleu = {"dev_bleu": [(1, 1.0), (2, 1.5)]}
    assert training_curves.draw(
        {"a_b": [both, both], "$x": [bleu]}, tmp_path / "p" / "2.png", title="t$"
    )
    assert training_curves.draw({"_only": [bleu]}, tmp_path / "1.png")
    two, one = (image.imread(path) for path in (tmp_path / "p" / "2.png", tmp_path / "1.png"))
    assert two.shape[1] == 2 * one.shape[1]
    assert one.min() < 0.5  # something is drawn
    assert not training_curves.draw({"none": [{}]}, tmp_path / "0.png")
    assert not (tmp_path / "0.png").exists()


def test_a_band_spans_the_seeds_at_the_steps_that_all_have():
    curves = [[(10, 1.0), (20, 4.0), (30, 9.0)], [(20, 2.0), (10, 3.0)]]
    assert training_curves.band(curves) == [(10, 1.0, 2.0, 3.0), (20, 2.0, 3.0, 4.0)]
    assert training_curves.band([[(1, 1.0)], [(2, 1.0)]]) == []


def test_several_runs_of_a_name_are_a_band_with_one_entry_in_the_legend(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    bands, labels = [], []
    fill, plot = Axes.fill_between, Axes.plot

    def filled(self, x, low, high, **options):
        bands.append((x, low, high))
        return fill(self, x, low, high, **options)

    def plotted(self, *args, label=None, **options):
        labels.append(label)
        return plot(self, *args, label=label, **options)

    monkeypatch.setattr(Axes, "fill_between", filled)
    monkeypatch.setattr(Axes, "plot", plotted)
    runs = [{"dev_bleu": [(1, 1.0), (2, 2.0)]}, {"dev_bleu": [(1, 3.0)]}]
    assert training_curves.draw({"a": runs, "b": runs[:1]}, tmp_path / "x.png")
    assert bands == [((1,), (1.0,), (3.0,))]
    assert labels.count("a") == labels.count("b") == 1
