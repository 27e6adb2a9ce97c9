"""The keys of metrics.jsonl, each declared once: what it means and who has it.

A line with `loss` reports on the updates since the line before it. A line with `dev_bleu` is
an evaluation: its keys are those below and the scores, with dev_ in front. Nats are means per
sentence pair. A system has no key for a part that it does not have: cond knows neither nll_x
nor kl. TensorBoard shows a key as GROUP/KEY.
"""

from collections.abc import Mapping
from typing import NamedTuple

Values = Mapping[str, float | int | str | bool | None]


class ReportKey(NamedTuple):
    """A number of a report: TensorBoard's group, the parts of the model, what it means."""

    group: str
    parts: tuple[str, ...]  # one of them must be there; (): every system has it
    meaning: str


_X, _Z, _R, _MDR = ("source_lm",), ("posterior",), ("prediction",), ("mdr_weight",)
_Y = ("decoder",)
_BOW_X, _BOW_Y, _TWINS = ("bow_x",), ("bow_y",), ("consistency_weight",)
KEYS = {
    "loss": ReportKey(
        "loss",
        (),
        "what training minimises, in nats: nll_x + nll_y with label smoothing + kl_weight *"
        " (KL beyond free_bits + r_divergence) + the bags of words and consistency with their"
        " weights; dev_loss is the same without dropout and consistency. With objective iwae,"
        " minus the importance-weighted bound; dev_loss stays that of the ELBO",
    ),
    "elbo": ReportKey("loss", _X + _Z, "-(nll_x + nll_y + kl): the bound itself, in nats"),
    "iw_log_pxy": ReportKey(
        "loss", _Z, "the importance-weighted bound on log P(x, y), for vnmt on log P(y|x); dev"
    ),
    "nll_x": ReportKey("loss", _X, "-log P(x|z), in nats"),
    "nll_y": ReportKey("loss", _Y, "-log P(y|x, z), in nats"),
    "nll_x_per_token": ReportKey("loss", _X, "nll_x for a token, </s> included"),
    "nll_y_per_token": ReportKey("loss", _Y, "nll_y for a token, </s> included"),
    "perplexity_x": ReportKey("loss", _X, "exp(nll_x_per_token)"),
    "perplexity_y": ReportKey("loss", _Y, "exp(nll_y_per_token)"),
    "accuracy_x": ReportKey("loss", _X, "share of source tokens that are the likeliest"),
    "accuracy_y": ReportKey("loss", _Y, "share of target tokens that are the likeliest"),
    "consistency": ReportKey(
        "loss", _TWINS, "mean KL between the predictions of two passes, in nats; training only"
    ),
    "kl": ReportKey("latent", _Z, "KL(q(z|.) || p(z)), in nats"),
    "kl_weight": ReportKey("latent", _Z, "the annealing weight of the last update"),
    "mdr_weight": ReportKey("latent", _MDR, "the Lagrange multiplier of mdr_rate"),
    "r_divergence": ReportKey("latent", _R, "D(r, q), in nats"),
    "bow_x": ReportKey("latent", _BOW_X, "-log P(words of x|z), in nats; not in the bound"),
    "bow_y": ReportKey("latent", _BOW_Y, "-log P(words of y|z), in nats; not in the bound"),
    "information": ReportKey(
        "latent", _Z, "nats that z tells about the sentence: KL - KL(q(z) || p(z)); dev"
    ),
    "active_units": ReportKey(
        "latent", _Z, "dimensions of z whose posterior mean varies by more than 0.01; dev"
    ),
    "collapsed": ReportKey("latent", _Z, "whether z tells less than 0.1 nats"),
    "learning_rate": ReportKey("optimisation", (), "of the last update"),
    "gradient_norm": ReportKey("optimisation", (), "before clipping, mean over updates"),
    "skipped": ReportKey("optimisation", (), "batches whose loss or gradient is not finite"),
    "pairs_per_second": ReportKey("speed", (), "without evaluations and checkpoints"),
}


def names_for(model: object) -> frozenset[str]:
    """Return the keys that a model has."""
    present = {
        name
        for key in KEYS.values()
        for name in key.parts
        if getattr(model, name, None) is not None
    }
    return frozenset(n for n, key in KEYS.items() if not key.parts or present & {*key.parts})


def tag(name: str) -> str:
    """Return what TensorBoard calls a key; what is not declared here is a score."""
    name = name.removeprefix("dev_")
    return f"{KEYS[name].group if name in KEYS else 'quality'}/{name}"


def tags(name: str) -> tuple[str, ...]:
    """Return the tags of a key; BLEU and KL are also in the group that comes first."""
    first = {"bleu": ("Overview/BLEU",), "kl": ("Overview/KL",)}
    return (*first.get(name.removeprefix("dev_"), ()), tag(name))
