"""Settings that the number of pairs decides."""

import argparse
from pathlib import Path

import pytest

from aevnmt_tf import hparams
from aevnmt_tf.hparams import own_text

ROOT = Path(__file__).parents[2]
SIZES = (1, 30, 1000, 3000, 9999, 10_000, 29_000, 250_000, 10_000_000)


def parse(*words):
    parser = argparse.ArgumentParser()
    hparams.add_flags(parser)
    return parser.parse_args(["--src", "en", "--tgt", "de", "--train_prefix", "p", *words])


def settings(*words, num_pairs=3000):
    """The settings of a command line, and what was said."""
    said = []
    hp = own_text.from_args(parse(*words), count_pairs=lambda hp: num_pairs, report=said.append)
    return hp, "\n".join(said)


def test_multi30k_gets_what_was_measured_there():
    measured = hparams.load(ROOT / "hparams" / "multi30k_aevnmt.json")
    chosen = own_text.choose(29_000, hp=hparams.load())
    others = {"steps_per_external_eval", "steps_per_stats"}
    assert {name: getattr(measured, name) for name in chosen.keys() - others} == {
        name: value for name, value in chosen.items() if name not in others
    }


def test_more_pairs_never_mean_less_of_a_model():
    found = [own_text.choose(size, hp=hparams.load()) for size in SIZES]
    for name in ("num_units", "vocab_size", "num_train_steps", "steps_per_external_eval"):
        values = [chosen[name] for chosen in found]
        assert values == sorted(values) and values[0] < values[-1], name
    for name in ("dropout", "output_dropout"):
        values = [chosen[name] for chosen in found]
        assert values == sorted(values, reverse=True) and values[0] > values[-1], name


@pytest.mark.parametrize("num_pairs", SIZES)
def test_a_run_has_a_dev_score_early_and_ends(num_pairs):
    hp, _ = settings(num_pairs=num_pairs)
    assert 5 * hp.steps_per_external_eval <= hp.num_train_steps <= 140_000
    assert hp.check_convergence_every == 0 and hp.free_bits > 0


def test_flags_win_and_the_rest_is_said():
    hp, said = settings("--num_units", "64", "--dropout", "0", "--num_train_steps", "80")
    assert (hp.num_units, hp.dropout, hp.num_train_steps) == (64, 0.0, 80)
    assert hp.steps_per_external_eval == 10  # follows from the flag
    for name in ("num_units", " dropout", "num_train_steps"):
        assert f"{name} " not in said
    assert "3,000 sentence pairs" in said and f"vocab_size {hp.vocab_size}" in said
    assert settings("--max_steps", "16")[0].steps_per_external_eval == 2


def test_a_settings_file_is_taken_as_it_is(write):
    path = write({"num_units": 8})
    hp, said = settings("--hparams", str(path))
    assert said == "" and hp == hparams.from_args(parse("--hparams", str(path)))


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        (["--model_type", "cond"], {"z_dim", "free_bits"}),
        (["--joint_model_type", "baseline"], {"z_dim", "free_bits"}),
        (["--subword_option", ""], {"vocab_size"}),
        (["--vocab_prefix", "v"], {"vocab_size"}),
        (["--check_convergence_every", "50"], {"decay_scheme"}),
    ],
)
def test_what_does_not_go_with_the_flags_is_not_chosen(words, absent):
    hp, _ = settings(*words)
    for name in absent:
        assert getattr(hp, name) == hparams.SETTINGS[name].default, name


def test_python_without_a_file_has_the_authors_values():
    assert hparams.load().num_train_steps == 140_000


def test_a_run_that_goes_on_keeps_its_settings(tmp_path):
    first, _ = settings("--out_dir", str(tmp_path))
    first.save(tmp_path / "hparams.json")
    again, said = settings("--out_dir", str(tmp_path), num_pairs=100_000)
    assert again != first and said  # nothing was trained yet
    (tmp_path / "checkpoints" / "step-000000010").mkdir(parents=True)
    again, said = settings("--out_dir", str(tmp_path), num_pairs=100_000)
    assert again == first and not said
    again, _ = settings("--out_dir", str(tmp_path), "--learning_rate", "0.5")
    assert again == first.replace(learning_rate=0.5)
