"""Runs and how they search."""

import pytest

from aevnmt_tf import evaluate
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import loaded_models
from tests.tiny_translator import save_run


def test_flags_of_decoding(tmp_path):
    run = str(save_run(tmp_path / "run", beam_width=0))
    words = "--search beam --beam_width 2 --z sample --num_z 3 --infer_batch_size 9"
    words += " --length_penalty_weight 0.5 --src_max_len_infer 33"
    changes = evaluate.request(evaluate.parser().parse_args(words.split())).decoding
    loaded, rule = loaded_models.load(run, checkpoint="last", decoding=changes)
    assert (rule.search, rule.beam_width, rule.z, rule.num_z) == ("beam", 2, "sample", 3)
    assert (rule.length_penalty_weight, rule.n_best) == (0.5, 1)
    assert loaded.hp.infer_batch_size == 9 and loaded.hp.src_max_len_infer == 33
    about = loaded_models.about_run(run, loaded, rule, checkpoint="last", seed=5)
    assert about["weights"] == "checkpoints/step-000000004" and about["seed"] == 5
    assert about["decoding"]["z"] == "sample"
    with pytest.raises(UserError, match="nonsense is no setting of decoding"):
        loaded_models.load(run, decoding={"nonsense": 1})
    words = "--search sample --top_k 4 --top_p 0.5".split()
    changes = evaluate.request(evaluate.parser().parse_args(words)).decoding
    _, rule = loaded_models.load(run, checkpoint="last", decoding=changes)
    assert (rule.search, rule.top_k, rule.top_p) == ("sample", 4, 0.5)


def test_one_translation_is_scored_where_a_run_gives_several(tmp_path):
    save_run(tmp_path / "run", beam_width=5, num_translations_per_input=5)
    hp = loaded_models.settings_of(str(tmp_path / "run"), decoding={"beam_width": 2})
    assert (hp.beam_width, hp.num_translations_per_input) == (2, 1)
    with pytest.raises(UserError, match="beam_width is for beam or refine search"):
        loaded_models.settings_of(
            str(tmp_path / "run"), decoding={"beam_width": 2, "search": "greedy"}
        )
    greedy = {"beam_width": 0, "search": "greedy"}
    assert loaded_models.settings_of(str(tmp_path / "run"), decoding=greedy).beam_width == 0
