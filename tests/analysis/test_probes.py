"""Posteriors against integrals and closed forms, scores by hand, splits without leaks."""

import collections

import numpy as np
import pytest

from aevnmt_tf.analysis import chains, held_out, probe_scores, probes, probing
from aevnmt_tf.analysis.features import Features
from aevnmt_tf.errors import UserError

OPTIONS = chains.Options(chains=4, num_warmup=200, num_draws=1000, seed=1)


def flat(draws):
    return draws.reshape(-1, *draws.shape[2:])


def assert_close_means(draws, expected, *, ess):
    """Means of draws [M, ...] are the expected ones, as far as so few draws can tell."""
    error = draws.std(axis=0) / np.sqrt(ess)
    assert (np.abs(draws.mean(axis=0) - expected) < 4 * error).all()
    assert (4 * error < 0.3 * draws.std(axis=0)).all()  # they can tell something


@pytest.fixture(scope="module")
def two_classes():
    """One feature, two classes, and their posterior."""
    dice = np.random.default_rng(0)
    features = dice.normal(3.0, 2.0, size=[25, 1])
    labels = (features[:, 0] + dice.normal(size=25) > 3.5).astype(int)
    posterior = probes.classify(
        features, labels, num_classes=2, prior_scale=1.5, options=OPTIONS
    )
    return features, labels, posterior


def test_logistic_regression_has_the_moments_of_a_grid(two_classes):
    """The same posterior by summing over a fine grid of weights and intercepts."""
    features, labels, posterior = two_classes
    x = (features[:, 0] - features.mean()) / features.std()
    weight, intercept = np.meshgrid(
        np.linspace(-3, 9, 400), np.linspace(-8, 8, 401), indexing="ij"
    )
    log = -(weight**2) / (2 * 1.5**2) - intercept**2 / (2 * probes.INTERCEPT_SCALE**2)
    for value, label in zip(x, labels, strict=True):
        logit = value * weight + intercept
        log += label * logit - np.logaddexp(0, logit)
    mass = np.exp(log - log.max())
    mass /= mass.sum()
    assert max(mass[0].sum(), mass[-1].sum(), mass[:, 0].sum(), mass[:, -1].sum()) < 1e-6
    grid = np.stack([weight, intercept], axis=-1)
    mean = np.einsum("ij,ijp->p", mass, grid)
    covariance = np.einsum("ij,ijp,ijq->pq", mass, grid - mean, grid - mean)
    theta = flat(posterior.weights)[:, :, 0]
    assert_close_means(theta, mean, ess=posterior.diagnostics.ess)
    np.testing.assert_allclose(
        np.cov(theta.T), covariance, rtol=0.15, atol=0.1 * covariance.max()
    )


def test_easy_chains_agree(two_classes):
    posterior = two_classes[2]
    assert posterior.weights.shape == (1000, 4, 2, 1)
    assert posterior.diagnostics.r_hat == pytest.approx(1.0, abs=0.02)
    assert posterior.diagnostics.ess > 500
    assert posterior.draws.divergences == 0
    assert 0.1 < posterior.draws.step_size < 3 and posterior.draws.leapfrogs >= 1


@pytest.fixture(scope="module")
def three_classes():
    """One feature, three classes, and their posterior."""
    features = np.array([[-1.0], [-2.0], [0.3], [0.1], [2.0], [1.5], [-1.0], [0.2]])
    labels = np.array([0, 0, 1, 1, 2, 2, 0, 2])
    return features, labels, probes.classify(features, labels, num_classes=3, options=OPTIONS)


def test_softmax_regression_has_the_means_of_weighted_prior_draws(three_classes):
    """The same posterior by importance sampling, with the prior as the proposal."""
    features, labels, posterior = three_classes
    x = (features - features.mean()) / features.std()
    dice = np.random.default_rng(5)
    weights = dice.normal(size=[300_000, 1, 3])
    intercepts = probes.INTERCEPT_SCALE * dice.normal(size=[300_000, 1, 3])
    logits = x[None] * weights + intercepts  # [M, N, 3]
    logs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    importance = np.exp(logs[:, np.arange(len(labels)), labels].sum(axis=1))
    importance /= importance.sum()
    assert 1 / np.sum(importance**2) > 1200  # enough draws count
    mean = np.einsum("m,mpk->pk", importance, np.concatenate([weights, intercepts], axis=1))
    shares = np.einsum("m,mnk->nk", importance, np.exp(logs))
    theta = flat(posterior.weights).mean(axis=0) @ probes.contrasts(3).T
    mean -= mean.mean(axis=1, keepdims=True)  # what is the same for all classes has no effect
    np.testing.assert_allclose(theta[0], mean[0], atol=0.1)
    np.testing.assert_allclose(theta[1], mean[1], atol=0.3)  # their prior has a scale of 5
    _, found = probe_scores.class_scores(posterior, features, labels, seed=1)
    np.testing.assert_allclose(found, shares, atol=0.03)
    assert posterior.diagnostics.r_hat < 1.05


@pytest.mark.parametrize("num_classes, is_full", [(2, True), (4, True), (4, False)])
def test_turning_and_stretching_does_not_change_the_posterior(num_classes, is_full):
    """The sampler's density of u is that of theta, written down again, but for a constant."""
    dice = np.random.default_rng(2)
    x, precisions = dice.normal(size=[9, 3]), np.array([1.0, 2.0, 0.5])
    labels = dice.integers(num_classes, size=9)
    y = np.eye(num_classes)[labels]
    centre = dice.normal(size=[3, num_classes - 1])
    side = 3 * (num_classes - 1) if is_full else 3
    stretch = dice.normal(size=[side, side])
    log_prob = probes.class_log_posterior(x, y, precisions, centre=centre, stretch=stretch)
    u = dice.normal(size=[5, 3, num_classes - 1]).astype(np.float32)
    expected = []
    for one in u:
        theta = centre + (stretch @ one.reshape(side, -1)).reshape(3, -1)
        if num_classes == 2:
            logits = np.concatenate([np.zeros([9, 1]), x @ theta], axis=1)
        else:
            logits = x @ theta @ probes.contrasts(num_classes).T
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        prior = -0.5 * np.sum(precisions[:, None] * theta**2)
        expected.append(logs[np.arange(9), labels].sum() + prior)
    found = log_prob(u).numpy()
    np.testing.assert_allclose(found - found[0], np.array(expected) - expected[0], atol=1e-3)


@pytest.mark.parametrize("num_classes", [3, 6])
def test_contrasts_leave_out_what_changes_no_probability(num_classes):
    found = probes.contrasts(num_classes)
    assert found.shape == (num_classes, num_classes - 1)
    np.testing.assert_allclose(found.T @ found, np.eye(num_classes - 1), atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=0), 0, atol=1e-12)


def test_linear_regression_has_the_moments_of_the_closed_form():
    """The conjugate posterior: normal-inverse-gamma, whose theta has a Student t."""
    dice = np.random.default_rng(3)
    features = dice.normal(size=[40, 3]) @ dice.normal(size=[3, 3]) + 5.0  # they correlate
    numbers = 10 + features @ [1.0, -2.0, 0.0] + 3 * dice.normal(size=40)
    posterior = probes.regress(features, numbers, prior_scale=0.7, options=OPTIONS)
    x = (features - features.mean(axis=0)) / features.std(axis=0)
    x = np.concatenate([x, np.ones([40, 1])], axis=1)
    y = (numbers - numbers.mean()) / numbers.std()
    before = np.diag([0.7**-2] * 3 + [probes.INTERCEPT_SCALE**-2])
    after = x.T @ x + before
    mean = np.linalg.inv(after) @ x.T @ y
    shape = 1.0 + 40 / 2
    rate = 1.0 + 0.5 * (y @ y - mean @ after @ mean)
    variance = rate / (shape - 1)
    theta, ess = flat(posterior.weights)[:, :, 0], posterior.diagnostics.ess
    assert_close_means(theta, mean, ess=ess)
    assert_close_means(np.exp(flat(posterior.log_variance)), variance, ess=ess)
    covariance = variance * np.linalg.inv(after)
    np.testing.assert_allclose(np.cov(theta.T), covariance, atol=0.15 * covariance.max())
    assert posterior.diagnostics.r_hat == pytest.approx(1.0, abs=0.02)
    assert posterior.unit == (pytest.approx(numbers.mean()), pytest.approx(numbers.std()))
    measures, predicted = probe_scores.number_scores(posterior, features, numbers, seed=1)
    expected = numbers.mean() + numbers.std() * (x @ mean)
    np.testing.assert_allclose(predicted[0], expected, atol=0.1 * numbers.std())
    inside = (predicted[1] < numbers) & (numbers < predicted[2])
    assert 0.85 <= inside.mean() <= 1.0
    r2 = 1 - np.sum((numbers - expected) ** 2) / np.sum((numbers - numbers.mean()) ** 2)
    assert measures["r2"].averaged == pytest.approx(r2, abs=0.02)
    assert measures["r2"].low < measures["r2"].mean < measures["r2"].averaged


def test_draws_are_a_function_of_the_seed(monkeypatch):
    monkeypatch.setattr(chains, "SEGMENT", 10)

    def log_prob(u):
        return -0.5 * (u[:, 0] ** 2)

    def values(seed):
        options = chains.Options(chains=2, num_warmup=10, num_draws=15, seed=seed)
        seen = []
        draws = chains.sample(
            log_prob, [1], options=options, track=lambda s: (seen.append(i) or i for i in s)
        )
        assert seen == [0, 1, 2]  # 25 steps
        return draws.values

    first = values(1)
    assert first.shape == (15, 2, 1)
    np.testing.assert_array_equal(first, values(1))
    assert (first != values(2)).any()


def test_diagnostics_of_made_up_draws():
    dice = np.random.default_rng(1)
    good = dice.normal(size=[1000, 4, 3])
    assert chains.diagnose(good).r_hat == pytest.approx(1.0, abs=0.01)
    assert chains.diagnose(good).ess > 2500
    stuck = good.copy()
    stuck[:, 0, 1] += 5.0  # one parameter of one chain is elsewhere
    assert chains.diagnose(stuck).r_hat > 3
    assert chains.diagnose(stuck).ess < 50
    drifting = good + np.linspace(0, 10, 1000)[:, None, None]  # all chains alike, but not there
    assert chains.diagnose(drifting).r_hat > 2
    still = np.broadcast_to(np.arange(4.0)[:, None], [100, 4, 1])
    assert chains.diagnose(still).r_hat == np.inf
    far = chains.diagnose(1e6 + good)  # not lost in rounding
    assert far.r_hat == pytest.approx(chains.diagnose(good).r_hat, abs=1e-3)


def test_effective_sample_size_of_correlated_draws():
    """x' = a x + noise has (1 - a) / (1 + a) independent draws for each of its own."""
    dice, a = np.random.default_rng(1), 0.8
    draws = np.zeros([4000, 4, 1])
    for step in range(1, 4000):
        draws[step] = a * draws[step - 1] + dice.normal(size=[4, 1])
    assert chains.diagnose(draws).ess == pytest.approx(16000 * (1 - a) / (1 + a), rel=0.15)
    swinging = np.tile([[[1.0]], [[-1.0]]], [50, 2, 1])
    assert chains.diagnose(swinging).ess == pytest.approx(200 * np.log10(200))


def made_up(weights, **options):
    """A posterior of given draws [M, P, K] whose features are used as they are."""
    size = np.shape(weights)[1] - 1
    design = probes.Design(np.zeros(size), np.ones(size))
    draws = chains.Draws(
        None, step_size=1.0, acceptance=0.8, leapfrogs=1.0, divergences=0, seconds=0.0
    )
    diagnostics = options.pop("diagnostics", chains.Diagnostics(1.0, 100.0))
    return probes.Posterior(
        design, np.array(weights, float)[:, None], diagnostics, draws, **options
    )


def test_class_scores_by_hand():
    features, labels = np.array([[1.0], [-1.0], [2.0], [-2.0]]), np.array([1, 0, 0, 1])
    # Two draws: one finds the first two, one the others.
    posterior = made_up([[[1.0], [0.0]], [[-3.0], [0.0]]])
    measures, shares = probe_scores.class_scores(posterior, features, labels, seed=1)
    assert measures["accuracy"].mean == pytest.approx(0.5)
    sigmoid = 1 / (1 + np.exp(-np.array([[1.0, -1, 2, -2], [-3.0, 3, -6, 6]])))
    np.testing.assert_allclose(shares[:, 1], sigmoid.mean(axis=0))
    right = (sigmoid.mean(axis=0) > 0.5) == labels
    assert measures["accuracy"].averaged == right.mean()
    likelihood = np.where(labels == 1, sigmoid, 1 - sigmoid)
    logs = np.log(likelihood).mean(axis=1)
    found = measures["log_likelihood"]
    assert found.mean == pytest.approx(logs.mean())
    assert (found.low, found.high) == pytest.approx(np.quantile(logs, [0.025, 0.975]))
    assert found.averaged == pytest.approx(np.log(likelihood.mean(axis=0)).mean())


def test_the_interval_for_new_sentences_knows_how_few_were_held_out():
    posterior = made_up([[[1.0], [0.0]]])  # one draw: the weights leave nothing open
    for count in (10, 1000):
        features = np.ones([count, 1])
        labels = np.arange(count) % 2
        measures, _ = probe_scores.class_scores(posterior, features, labels, seed=1)
        found = measures["accuracy"]
        assert (found.low, found.mean, found.high) == (0.5, 0.5, 0.5)
        width = 2 * 1.96 * np.sqrt(0.25 / (count + 3))  # of Beta(1 + n/2, 1 + n/2)
        assert found.new_high - found.new_low == pytest.approx(width, rel=0.15)


def test_many_draws_are_scored_in_parts(monkeypatch):
    dice = np.random.default_rng(4)
    features, labels = dice.normal(size=[7, 2]), np.array([0, 1, 2, 0, 1, 2, 0])
    numbers = dice.normal(size=7)
    classes = made_up(dice.normal(size=[50, 3, 2]))
    line = made_up(dice.normal(size=[50, 3, 1]), log_variance=np.zeros([50, 1]))
    expected = probe_scores.class_scores(classes, features, labels, seed=1)
    expected_line = probe_scores.number_scores(line, features, numbers, seed=1)
    monkeypatch.setattr(probe_scores, "_MOST_NUMBERS", 100)
    measures, shares = probe_scores.class_scores(classes, features, labels, seed=1)
    np.testing.assert_allclose(shares, expected[1])
    assert measures["accuracy"] == expected[0]["accuracy"]
    measures, predicted = probe_scores.number_scores(line, features, numbers, seed=1)
    np.testing.assert_allclose(predicted[0], expected_line[1][0])
    assert measures["r2"].mean == pytest.approx(expected_line[0]["r2"].mean)


def test_number_scores_by_hand():
    numbers = np.array([1.0, 3.0, 5.0])
    posterior = made_up(
        [[[1.0], [0.0]], [[1.0], [1.0]]],
        log_variance=np.log([[4.0], [1.0]]),
        unit=(3.0, 2.0),
    )
    measures, predicted = probe_scores.number_scores(
        posterior, np.array([[-1.0], [0.0], [1.0]]), numbers, seed=1
    )
    # 3 + 2 (x + b): right for b = 0, 2 too much for b = 1.
    np.testing.assert_allclose(predicted[0], numbers + 1)
    assert measures["r2"].mean == pytest.approx((1.0 + (1 - 12 / 8)) / 2)
    assert measures["r2"].averaged == pytest.approx(1 - 3 / 8)
    assert measures["rmse"].mean == pytest.approx((0 + 2) / 2)
    assert measures["rmse"].averaged == pytest.approx(1.0)
    densities = np.array([1 / 4, np.exp(-0.5) / 2]) / np.sqrt(2 * np.pi)
    found = measures["log_likelihood"]
    assert found.mean == pytest.approx(np.log(densities).mean())
    assert found.averaged == pytest.approx(np.log(densities.mean()))


def test_baselines_are_exact():
    measures, shares = probe_scores.majority_scores(
        [0] * 6 + [1] * 3, [0, 0, 0, 1], num_classes=2, seed=1
    )
    assert measures["accuracy"].mean == measures["accuracy"].averaged == 0.75
    np.testing.assert_allclose(shares[0], [7 / 11, 4 / 11])
    expected = (3 * np.log(7 / 11) + np.log(4 / 11)) / 4
    assert measures["log_likelihood"].averaged == pytest.approx(expected)
    measures, predicted = probe_scores.mean_scores([1.0, 3.0], [2.0, 6.0], seed=1)
    assert measures["r2"].averaged == pytest.approx(1 - (0 + 16) / (4 + 4))
    np.testing.assert_allclose(predicted[0], [2.0, 2.0])
    assert measures["rmse"].averaged == pytest.approx(np.sqrt(8))


def test_the_split_is_seeded_and_stratified():
    texts = [f"sentence {i}" for i in range(200)]
    strata = ["rare"] * 20 + ["common"] * 180
    out = held_out.split(texts, strata, share=0.25, seed=3)
    counts = collections.Counter(s for s, is_out in zip(strata, out, strict=True) if is_out)
    assert counts == {"rare": 5, "common": 45}
    np.testing.assert_array_equal(out, held_out.split(texts, strata, share=0.25, seed=3))
    assert (out != held_out.split(texts, strata, share=0.25, seed=4)).any()


def test_no_sentence_is_on_both_sides():
    dice = np.random.default_rng(0)
    texts = [f"a  {i} ﬁ" if i % 2 else f"a {i} fi " for i in dice.integers(60, size=400)]
    texts += ["the same"] * 300  # does not fit into what is held out
    strata = dice.integers(2, size=700).tolist()
    out = held_out.split(texts, strata, share=0.2, seed=1)
    sides = collections.defaultdict(set)
    for text, is_out in zip(texts, out, strict=True):
        sides[text.replace("ﬁ", "fi").replace("  ", " ").strip()].add(bool(is_out))
    assert {len(side) for side in sides.values()} == {1}
    assert sides["the same"] == {False}
    assert 0.1 < out.mean() <= 0.21


def test_versions_of_a_sentence_stay_together_also_through_others():
    texts = [*"abcdef", *"ghijkl", "a", "k"]
    origins = [*range(6), *range(6), 20, 5]  # k is g's version and l's by way of its twin
    strata = ["x"] * 6 + ["y"] * 8
    for seed in range(20):
        out = held_out.split(texts, strata, share=0.3, seed=seed, origins=origins)
        assert (out[:6] == out[6:12]).all()
        assert out[12] == out[0] and out[13] == out[10] == out[11]


def test_paraphrases_with_the_other_label_do_not_mislead_a_probe():
    """Features that know the sentence and nothing of the label are at chance."""
    dice = np.random.default_rng(0)
    content = dice.normal(size=[200, 64])
    features = np.concatenate([content, content]) + 0.1 * dice.normal(size=[400, 64])
    texts = [f"{name} {n}" for name in ("gold", "synthetic") for n in range(200)]
    labels = ["gold"] * 200 + ["synthetic"] * 200
    origins = [*range(200), *range(200)]
    options = chains.Options(chains=2, num_warmup=100, num_draws=50, seed=1)
    accuracy = {}
    for name, keys in (("apart", None), ("together", origins)):
        task = probing.class_task(texts, labels, share=0.25, seed=1, origins=keys)
        result = probing.learn(Features("f", features), task, options=options)
        accuracy[name] = result.measures["accuracy"].averaged
    assert accuracy["apart"] < 0.4 < accuracy["together"] < 0.6


def test_a_class_of_one_sentence_is_refused():
    labels = ["a"] * 10 + ["b"] * 5
    texts = [f"{i}" for i in range(10)] + ["again"] * 5
    with pytest.raises(UserError, match="class b has too few different sentences"):
        probing.class_task(texts, labels, share=0.2, seed=1)
    with pytest.raises(UserError, match="all sentences have the label a.*at least two classes"):
        probing.class_task(texts[:10], labels[:10], share=0.2, seed=1)


def test_a_number_that_never_differs_is_refused():
    with pytest.raises(UserError, match="length hardly differs"):
        probing.number_task(
            ["a", "b", "c", "d"], [1, 1, 1, 1], name="length", share=0.5, seed=1
        )


def test_numbers_are_held_out_over_their_whole_range():
    numbers = np.arange(100.0)
    task = probing.number_task([str(n) for n in numbers], numbers, name="n", share=0.2, seed=1)
    assert len(task.test) == 20
    assert collections.Counter(int(n) // 20 for n in task.test) == dict.fromkeys(range(5), 4)


def test_a_probe_finds_what_is_there_and_nothing_in_random_numbers():
    dice = np.random.default_rng(6)
    labels = dice.choice(["news", "talk"], p=[0.6, 0.4], size=400)
    texts = [f"sentence {i}" for i in range(400)]
    task = probing.class_task(texts, labels.tolist(), share=0.25, seed=1)
    planted = dice.normal(size=[400, 8])
    planted[:, 3] += 4.0 * (labels == "talk")
    options = chains.Options(chains=2, num_warmup=100, num_draws=100)
    good = probing.learn(Features("planted", planted), task, options=options)
    accuracy = good.measures["accuracy"]
    assert accuracy.mean > 0.9 and accuracy.averaged > 0.9
    assert accuracy.low <= accuracy.mean <= accuracy.high
    random = probing.learn(
        Features("random", dice.normal(size=[400, 8]), is_baseline=True), task, options=options
    )
    majority = probing.without_features(task, seed=1).measures["accuracy"]
    assert majority.mean == max(np.mean(task.test == 0), np.mean(task.test == 1))
    accuracy = random.measures["accuracy"]
    assert accuracy.new_low < majority.mean and accuracy.mean < majority.mean + 0.05
    assert good.warnings == random.warnings == []


def test_doubtful_chains_are_said():
    posterior = made_up([[[0.0]]], diagnostics=chains.Diagnostics(1.3, 5.0))
    posterior = posterior._replace(draws=posterior.draws._replace(divergences=7))
    result = probing.Result("z mean", 2, False, {}, None, posterior)
    first, second = result.warnings
    assert first.startswith("z mean: R-hat is 1.300, so the chains do not agree yet")
    assert "7 draws diverged" in second
