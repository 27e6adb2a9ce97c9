"""Runs and how they search."""

import pytest

from aevnmt_tf import evaluate
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation.evaluated_systems import Models, System
from aevnmt_tf.evaluation.evaluation_request import EvaluationRequest
from aevnmt_tf.evaluation.evaluation_sets import EvaluationSet
from tests.tiny_translator import save_run


def models(run, words="", **changes):
    """The models of a command line with one run, or of changes of its decoding."""
    request = evaluate.request(evaluate.parser().parse_args(words.split()))
    decoding = {**request.decoding, **changes}
    request = EvaluationRequest([], decoding=decoding, checkpoint="last", seed=5)
    return Models(request, {"a": str(run)})


def test_flags_of_decoding(tmp_path):
    run = save_run(tmp_path / "run", beam_width=0)
    words = "--search beam --beam_width 2 --z sample --num_z 3 --infer_batch_size 9"
    found = models(run, f"{words} --length_penalty_weight 0.5 --src_max_len_infer 33")
    loaded, rule = found("a")
    assert (rule.search, rule.beam_width, rule.z, rule.num_z) == ("beam", 2, "sample", 3)
    assert (rule.length_penalty_weight, rule.n_best) == (0.5, 1)
    assert loaded.hp.infer_batch_size == 9 and loaded.hp.src_max_len_infer == 33
    system = System("a")
    found.translate(system, [EvaluationSet("one", ["a"], ["a"])], {}, print)
    assert system.about["weights"] == "checkpoints/step-000000004"
    assert system.about["seed"] == 5 and system.about["decoding"]["z"] == "sample"
    assert len(system.translations["one"]) == 1
    with pytest.raises(UserError, match="nonsense"):
        models(run, nonsense=1)
    _, rule = models(run, "--search sample --top_k 4 --top_p 0.5")("a")
    assert (rule.search, rule.top_k, rule.top_p) == ("sample", 4, 0.5)


def test_one_translation_is_scored_where_a_run_gives_several(tmp_path):
    run = save_run(tmp_path / "run", beam_width=5, num_translations_per_input=5)
    hp = models(run, beam_width=2).hp
    assert (hp.beam_width, hp.num_translations_per_input) == (2, 1)
    with pytest.raises(UserError, match="beam_width is for beam or refine search"):
        models(run, beam_width=2, search="greedy")
    assert models(run, beam_width=0, search="greedy").hp.beam_width == 0
