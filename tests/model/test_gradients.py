"""Where gradients go: theta is the generative model, lambda the posterior, phi r's network."""

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.model import objective
from tests import tiny

CASES = {
    **{name: (name, {}) for name in tiny.SYSTEMS},
    "KLq": ("KLq", {"share_vocab": True, "decoder_style": "tf_nmt"}),
    "menu": ("menu", {}),
}


class Gradients:
    """Gradients of each part of the loss by layer and variable; None where there is none."""

    def __init__(self, system, options):
        self.system = system
        self.model = tiny.build(system, vocab_y=tiny.VOCAB_X, **options)
        self.layers = tiny.layers(self.model)
        batch = tiny.batch()
        noise = self.model.noise(batch, 1)
        noise.pop("q_u_norm", None)  # moving statistics
        with tf.GradientTape(persistent=True) as tape:
            terms = self.model.loss_terms(batch, noise)
            parts = {
                "loss": objective.loss(terms, bow_x_weight=0.3, bow_y_weight=0.7),
                "nll": terms.nll_x + terms.nll_y + terms.bow_x + terms.bow_y,
                "kl": tf.reduce_sum(terms.kl, axis=-1),
                "D": terms.r_divergence,
            }
            parts = {name: tf.reduce_sum(value) for name, value in parts.items()}
        self.parts = {name: self.of(tape, value) for name, value in parts.items()}
        self.fixed_z = None
        if self.model.posterior is not None:
            q = self.model.infer(batch)
            z = q.mean() + noise["epsilon"] * q.stddev()
            with tf.GradientTape() as tape:
                terms = self.model.loss_terms(batch, z=tf.constant(z.numpy()))
                nll = tf.reduce_sum(terms.nll_x + terms.nll_y)
            self.fixed_z = self.of(tape, nll)

    def of(self, tape, value):
        gradients = tape.gradient(value, self.layers)
        return {
            layer: {n: None if g is None else g.numpy() for n, g in by_name.items()}
            for layer, by_name in gradients.items()
        }

    def reached(self, part):
        """Names of the layers that get a gradient; all their variables do, or none of them."""
        names = set()
        for layer, gradients in self.parts[part].items():
            got = {g is not None and bool(np.any(g)) for g in gradients.values()}
            assert len(got) == 1, (part, layer)
            names |= {layer} if got == {True} else set()
        return names

    def names(self, *networks):
        return {layer for layer in self.layers if owner(layer) in networks}


def owner(layer):
    if layer == "prior":
        return "p"
    return layer[0] if layer.startswith(("q_", "r_", "p_")) else "theta"


@pytest.fixture(scope="module", params=list(CASES))
def gradients(request):
    return Gradients(*CASES[request.param])


def test_every_variable_gets_a_gradient(gradients):
    assert gradients.reached("loss") == set(gradients.layers)
    found = sum(len(variables) for variables in gradients.layers.values())
    assert found == len(gradients.model.trainable_variables)


def test_kl_reaches_lambda_and_a_prior_that_learns(gradients):
    expected = gradients.names("q", "p")
    if gradients.system == "vnmt":  # p(z|x) reads the source as a generative model does
        expected |= {"emb_x"}
    assert gradients.reached("kl") == expected


def test_divergence_reaches_lambda_and_phi(gradients):
    """The bound is maximised jointly: q moves towards r as r does towards q."""
    expected = set()
    if gradients.model.prediction is not None:
        expected = gradients.names("q", "r")
    if gradients.system == "l2":  # which compares locations only
        expected -= {"q_s_hid", "q_s_out"}
    assert gradients.reached("D") == expected


def test_likelihood_reaches_theta_and_lambda_through_z(gradients):
    assert gradients.reached("nll") == gradients.names("theta", "q")


def test_embeddings_move_as_if_z_were_constant(gradients):
    """detach of Eq. (emb-x) and Eq. (emb-y)."""
    if gradients.fixed_z is None:
        assert not gradients.names("q", "r")
        return
    tables = [layer for layer in gradients.layers if layer.startswith("emb")]
    assert tables == (["emb_x"] if gradients.model.shares_vocabulary else ["emb_x", "emb_y"])
    for layer in tables:
        if (gradients.system, layer) == ("vnmt", "emb_x"):
            continue  # which p(z|x) moves, too: see test_reference
        np.testing.assert_allclose(
            gradients.parts["loss"][layer]["embeddings"],
            gradients.fixed_z[layer]["embeddings"],
            rtol=1e-5,
            atol=1e-6,
        )


def test_a_point_estimate_has_no_scale_head(gradients):
    heads = {layer for layer in gradients.layers if layer.startswith("r_s_")}
    has_scale = gradients.model.prediction is not None and gradients.system != "l2"
    assert heads == ({"r_s_hid", "r_s_out"} if has_scale else set())
