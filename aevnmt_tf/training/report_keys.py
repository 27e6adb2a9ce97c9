"""The keys of metrics.jsonl, each declared once: what it means and which models have it.

A line with `loss` reports on the updates since the line before it. A line with `dev_bleu` is
an evaluation: its keys are those below and the scores, with the prefix dev_. Nats are means per
sentence pair. A model has no key for a part that it lacks: cond has neither nll_x nor kl.
"""

from collections.abc import Mapping

Values = Mapping[str, float | int | str | bool | None]

_X, _Y, _Z = ("source_lm",), ("decoder",), ("posterior",)
# By key: the group, so that TensorBoard shows GROUP/KEY, and the parts of the model of which
# one must be there; (): every model has the key.
KEYS: dict[str, tuple[str, tuple[str, ...]]] = {
    # What training minimises, in nats: nll_x + nll_y with label smoothing + kl_weight * (KL
    # beyond free_bits + r_divergence) + the bags of words and consistency with their weights.
    # dev_loss is without dropout and consistency. With objective iwae it is minus the
    # importance-weighted bound; dev_loss remains that of the ELBO.
    "loss": ("loss", ()),
    "elbo": ("loss", _X + _Z),  # -(nll_x + nll_y + kl): the bound itself, in nats
    # The importance-weighted bound on log P(x, y), for vnmt on log P(y|x); dev only.
    "iw_log_pxy": ("loss", _Z),
    "nll_x": ("loss", _X),  # -log P(x|z), in nats
    "nll_y": ("loss", _Y),  # -log P(y|x, z), in nats
    "nll_x_per_token": ("loss", _X),  # tokens include </s>
    "nll_y_per_token": ("loss", _Y),
    "perplexity_x": ("loss", _X),  # exp(nll_x_per_token)
    "perplexity_y": ("loss", _Y),
    "accuracy_x": ("loss", _X),  # share of source tokens that are the most probable ones
    "accuracy_y": ("loss", _Y),
    # Mean KL between the predictions of two passes, in nats; training only.
    "consistency": ("loss", ("consistency_weight",)),
    "kl": ("latent", _Z),  # KL(q(z|.) || p(z)), in nats
    "kl_weight": ("latent", _Z),  # the annealing weight of the last update
    "mdr_weight": ("latent", ("mdr_weight",)),  # the Lagrange multiplier of mdr_rate
    "r_divergence": ("latent", ("prediction",)),  # D(r, q), in nats
    "bow_x": ("latent", ("bow_x",)),  # -log P(words of x|z), in nats; not in the bound
    "bow_y": ("latent", ("bow_y",)),  # -log P(words of y|z), in nats; not in the bound
    # Nats of information about the sentence in z: KL - KL(q(z) || p(z)); dev only.
    "information": ("latent", _Z),
    # Dimensions of z whose posterior mean has a variance of more than 0.01; dev only.
    "active_units": ("latent", _Z),
    "collapsed": ("latent", _Z),  # whether z carries less than 0.1 nats; dev only
    "learning_rate": ("optimisation", ()),  # of the last update
    "gradient_norm": ("optimisation", ()),  # before clipping, mean over updates
    "skipped": ("optimisation", ()),  # batches whose loss or gradient is not finite
    "pairs_per_second": ("speed", ()),  # without evaluations and checkpoints
}


def names_for(model: object) -> frozenset[str]:
    """Return the keys that a model has."""

    def has(part: str) -> bool:
        return getattr(model, part, None) is not None

    return frozenset(n for n, (_, parts) in KEYS.items() if not parts or any(map(has, parts)))


def tag(name: str) -> str:
    """Return TensorBoard's tag of a key; a key that is not declared here is a score."""
    name = name.removeprefix("dev_")
    group, _ = KEYS.get(name, ("quality", ()))
    return f"{group}/{name}"


def tags(name: str) -> tuple[str, ...]:
    """Return all tags of a key: BLEU and KL are also in the group that comes first."""
    first = {"bleu": ("Overview/BLEU",), "kl": ("Overview/KL",)}
    return (*first.get(name.removeprefix("dev_"), ()), tag(name))
