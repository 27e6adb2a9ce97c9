"""Probes of several kinds of features."""

import numpy as np

from aevnmt_tf.probing import comparison, hmc_chains, probe_task
from aevnmt_tf.probing.features import Features
from tests.tiny_posterior import made_up


def test_paraphrases_with_the_other_label_do_not_mislead_a_probe():
    """Features that know the sentence and nothing of the label are at chance."""
    dice = np.random.default_rng(0)
    content = dice.normal(size=[200, 64])
    features = np.concatenate([content, content]) + 0.1 * dice.normal(size=[400, 64])
    texts = [f"{name} {n}" for name in ("gold", "synthetic") for n in range(200)]
    labels = ["gold"] * 200 + ["synthetic"] * 200
    origins = [*range(200), *range(200)]
    options = hmc_chains.SamplerOptions(chains=2, num_warmup=100, num_draws=50, seed=1)
    accuracy = {}
    for name, keys in (("apart", None), ("together", origins)):
        task = probe_task.class_task(texts, labels, share=0.25, seed=1, origins=keys)
        result = comparison.learn(
            Features("f", features), task, prior_scale=1.0, options=options
        )
        accuracy[name] = result.measures["accuracy"].averaged
    assert accuracy["apart"] < 0.4 < accuracy["together"] < 0.6


def test_a_probe_finds_what_is_there_and_nothing_in_random_numbers():
    dice = np.random.default_rng(6)
    labels = dice.choice(["news", "talk"], p=[0.6, 0.4], size=400)
    texts = [f"sentence {i}" for i in range(400)]
    task = probe_task.class_task(texts, labels.tolist(), share=0.25, seed=1)
    planted = dice.normal(size=[400, 8])
    planted[:, 3] += 4.0 * (labels == "talk")
    options = hmc_chains.SamplerOptions(chains=2, num_warmup=100, num_draws=100, seed=1)
    good = comparison.learn(
        Features("planted", planted), task, prior_scale=1.0, options=options
    )
    accuracy = good.measures["accuracy"]
    assert accuracy.mean > 0.9 and accuracy.averaged > 0.9
    assert accuracy.low <= accuracy.mean <= accuracy.high
    random = comparison.learn(
        Features("random", dice.normal(size=[400, 8]), is_baseline=True),
        task,
        prior_scale=1.0,
        options=options,
    )
    majority = comparison.without_features(task, seed=1).measures["accuracy"]
    assert majority.mean == max(np.mean(task.test == 0), np.mean(task.test == 1))
    accuracy = random.measures["accuracy"]
    assert accuracy.new_low < majority.mean and accuracy.mean < majority.mean + 0.05
    assert good.warnings == random.warnings == []


def test_doubtful_chains_are_said():
    posterior = made_up([[[0.0]]], diagnostics=hmc_chains.Diagnostics(1.3, 5.0))
    posterior = posterior._replace(draws=posterior.draws._replace(divergences=7))
    result = comparison.ProbeResult("z mean", 2, False, {}, None, posterior)
    first, second = result.warnings
    assert first.startswith("z mean: R-hat is 1.300, so the chains have not converged")
    assert "7 draws diverged" in second
