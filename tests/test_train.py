"""The train verb from start to end, on a corpus of forty lines."""

import json
import os
import sys

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from aevnmt_tf import train, translator
from aevnmt_tf.storage import run_directory
from tests import tiny_run

pytestmark = pytest.mark.slow  # a whole run is trained

FAST = {"learning_rate": 0.05}  # so that twenty steps teach some words


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a finished run of 20 steps."""
    folder = tmp_path_factory.mktemp("train")
    settings = tiny_run.write_settings(folder, avg_ckpts=2, metrics=["ter"], **FAST)
    assert train.main(["--hparams", str(settings)]) == 0
    return folder


def weights(run, checkpoint="last"):
    return translator.load(run, checkpoint=checkpoint).model.get_weights()


def test_the_directory_is_complete(folder):
    run = folder / "run"
    for name in ("hparams.json", "counts.json", "metrics.jsonl", "results.json", "text"):
        assert (run / name).exists(), name
    steps = [run_directory.step_of(path) for path in run_directory.listing(run / "checkpoints")]
    assert steps == [10, 20]
    assert json.loads((run / "counts.json").read_text())["corpora"][0]["kept"] == 40


def test_metrics_have_what_was_promised(folder):
    lines = tiny_run.read_metrics(folder / "run")
    assert [line["step"] for line in lines] == [5, 10, 10, 15, 20, 20]
    for name in ("loss", "nll_x", "nll_y", "kl", "kl_weight", "learning_rate", "elbo"):
        assert np.isfinite(lines[0][name]), name
    # The weight of the last of the first five updates, of which four were done before it.
    assert [line["kl_weight"] for line in lines if "loss" in line] == pytest.approx(
        [0.4, 0.9, 1.0, 1.0]
    )
    for name in ("dev_bleu", "dev_chrf", "dev_elbo", "dev_iw_log_pxy", "dev_active_units"):
        assert np.isfinite(lines[2][name]), name


def test_the_model_card_says_what_it_is(folder):
    card = (folder / "run" / "MODEL_CARD.md").read_text()
    results = json.loads((folder / "run" / "results.json").read_text())
    assert "license: unknown" in card and "language: [en, de]" in card
    assert f"| bleu | {results['best']['dev_bleu']:.2f} |" in card
    assert results["signatures"]["bleu"].replace("|", "\\|") in card
    assert "| 40 | 40 |" in card and "`num_units`" in card and "aevnmt_tf.load(" in card


def test_results(folder):
    results = json.loads((folder / "run" / "results.json").read_text())
    assert results["step"] == 20
    scores = [results[name]["dev_bleu"] for name in ("final", "average", "best")]
    assert results["best"]["dev_bleu"] == max(scores)
    assert results["average"]["averaged_steps"] == [10, 20]
    assert set(results["signatures"]) == {"bleu", "chrf", "ter"}
    assert results["signatures"]["bleu"].startswith("nrefs:1")
    assert "tok:tercom" in results["signatures"]["ter"]
    assert results["final"]["dev_ter"] > 0
    assert results["seed"] == 1
    assert {"tensorflow", "keras", "sacrebleu", "python"} <= set(results["versions"])
    assert results["wall_time_seconds"] > 0


def test_every_choice_of_weights_loads_and_the_average_is_the_mean(folder):
    run = folder / "run"
    last = weights(run)
    assert len(weights(run, "best")) == len(last)
    first = run_directory.listing(run / "checkpoints")[0]
    loaded = translator.load(run)
    run_directory.load_weights(loaded.model, first)
    for mean, a, b in zip(
        weights(run, "average"), loaded.model.get_weights(), last, strict=True
    ):
        np.testing.assert_allclose(mean, (a + b) / 2, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name, checkpoint", [("final", "last"), ("average", "average")])
def test_scores_on_dev_are_those_of_the_weights_that_are_kept(folder, name, checkpoint):
    """Decoded once more."""
    from aevnmt_tf.evaluation import metrics

    lines = {
        lang: (folder / "corpus" / f"dev.{lang}").read_text().splitlines()
        for lang in ("en", "de")
    }
    run = translator.load(folder / "run", checkpoint=checkpoint)
    found = json.loads((folder / "run" / "results.json").read_text())[name]
    score = metrics.score(run.translate(lines["en"]), lines["de"])
    assert score["chrf"].value == pytest.approx(found["dev_chrf"])
    assert score["chrf"].value > 1.0  # two runs that translate nothing would agree, too


def test_tensorboard_has_everything(folder):
    logs = folder / "run" / "logs"

    def tags(name):
        accumulator = EventAccumulator(str(logs / name))
        accumulator.Reload()
        return set(accumulator.Tags()["tensors"])

    losses = {"loss/elbo", "loss/nll_x_per_token", "loss/perplexity_y", "loss/accuracy_y"}
    others = {"latent/kl", "latent/kl_weight", "optimisation/gradient_norm"}
    assert losses | others | {"speed/pairs_per_second"} <= tags("train")
    dev_tags = {"quality/bleu", "quality/chrf", "loss/elbo", "loss/iw_log_pxy"}
    dev_tags |= {"latent/active_units", "latent/information", "latent/kl_by_dimension"}
    assert dev_tags | {
        "translations/attention_0",
        "translations",
        "samples_from_the_prior",
    } <= tags("dev")
    assert (logs / "dev" / "projector_config.pbtxt").exists()
    metadata = (logs / "dev" / "z_metadata.tsv").read_text().splitlines()
    assert metadata[0] == "text\tcorpus\tlength" and len(metadata) == 1 + 6
    assert len((logs / "dev" / "z.tsv").read_text().splitlines()) == 6


def test_a_finished_run_stays_as_it_is(folder, capsys):
    before = (folder / "run" / "metrics.jsonl").read_text()
    assert train.main(["--hparams", str(folder / "settings.json")]) == 0
    said = capsys.readouterr().out
    assert "resumed at step 20" in said and "finished at step 20" in said
    assert f"--model {folder / 'run'}" in said and "tensorboard --logdir" in said
    assert (folder / "run" / "metrics.jsonl").read_text() == before


def test_a_run_in_two_parts_equals_one_in_one(folder, tmp_path):
    settings = tiny_run.write_settings(tmp_path, steps_per_external_eval=20, **FAST)
    arguments = ["--hparams", str(settings)]
    # 13 is neither a report nor a checkpoint: the running sums must come back, too.
    assert train.main([*arguments, "--max_steps", "13", "--dev_prefix", "null"]) == 0
    assert train.main([*arguments, "--dev_prefix", "null"]) == 0
    expected = [line for line in tiny_run.read_metrics(folder / "run") if "loss" in line]
    found = tiny_run.read_metrics(tmp_path / "run")
    # Not bit by bit: on a busy machine TensorFlow adds in another order.
    assert found == [pytest.approx(line, rel=1e-5) for line in expected]
    for a, b in zip(weights(tmp_path / "run"), weights(folder / "run"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_another_model_in_out_dir_is_refused(folder, capsys):
    arguments = ["--hparams", str(folder / "settings.json"), "--num_units", "16"]
    assert train.main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("aevnmt train: out_dir") and said.count("\n") == 1
    assert "num_units: 8 there, 16 now" in said


@pytest.mark.parametrize("writable", [True, False])
def test_compiled_code_is_kept_where_that_is_possible(tmp_path, monkeypatch, writable):
    cache = tmp_path / "cache"
    if not writable:
        cache.write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("TF_XLA_FLAGS", "--some_flag=1")
    monkeypatch.delitem(sys.modules, "tensorflow")
    train._keep_compiled_code()
    flags = os.environ["TF_XLA_FLAGS"]
    assert flags.startswith("--some_flag=1")
    assert (f"--tf_xla_persistent_cache_directory={cache}" in flags) is writable


def test_out_dir_is_needed(capsys):
    assert train.main(["--src", "en", "--tgt", "de", "--train_prefix", "x"]) == 2
    assert "--out_dir RUN" in capsys.readouterr().err


def test_without_a_settings_file_the_text_decides_and_a_run_goes_on(tmp_path, capsys):
    prefixes = tiny_run.write_corpus(tmp_path)
    words = "--src en --tgt de --num_units 8 --beam_width 1 --batch_size 4 --max_steps 10"
    words = [*words.split(), "--out_dir", str(tmp_path / "run")]
    words += ["--train_prefix", prefixes["train"], "--dev_prefix", prefixes["dev"]]
    assert train.main(words) == 0
    said = capsys.readouterr().out
    assert "40 sentence pairs" in said and "z_dim 32" in said
    kept = json.loads((tmp_path / "run" / "hparams.json").read_text())
    assert (kept["num_units"], kept["z_dim"], kept["free_bits"]) == (8, 32, 10.0)
    # More text than at the start changes nothing.
    tiny_run.write_corpus(tmp_path, train=4000)
    assert train.main([*words, "--max_steps", "12"]) == 0
    said = capsys.readouterr().out
    assert "resumed at step 10" in said and "settings for" not in said
    again = json.loads((tmp_path / "run" / "hparams.json").read_text())
    assert again == {**kept, "max_steps": 12}


def test_a_moving_average_needs_a_dev_set(tmp_path, capsys):
    path = tiny_run.write_settings(tmp_path, dev_prefix=None, ema_decay=0.9)
    assert train.main(["--hparams", str(path)]) == 2
    assert "ema_decay" in capsys.readouterr().err
