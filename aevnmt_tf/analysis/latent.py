"""Is the latent variable in use? All that tells a collapsed model from one that uses z.

kl                  KL(q(z|.) || p(z)), in nats a sentence, and by dimension
active units        dimensions whose posterior mean varies by more than 0.01
mutual information  I_q = KL - KL(q(z) || p(z)), q(z) the mean of all q(z|.)
iw_log_pxy, elbo    bounds on log P(x, y); with a collapsed posterior they are equal
z                   BLEU, log P(x|z) and log P(y|x, z) with the mean z, a draw, zero, and
                    the z of another sentence
"""

import math

import numpy as np

from aevnmt_tf.analysis import metrics, significance
from aevnmt_tf.analysis.progress import track
from aevnmt_tf.errors import UserError

LITTLE = 0.1  # nats a sentence: less than this is as good as nothing
KINDS = ("mean", "sample", "zero", "other")
ROWS = 1024  # draws that are compared with all posteriors at a time


def diagnose(translator, sources, references, *, decoding, samples=10, seed=1, report=None):
    """Return what the latent variable does, as a dict that JSON can hold.

    Args:
        translator: of a single model with z.
        sources: lines.
        references: one for each source.
        decoding: a translator.Decoding by beam, greedy or sample search.
        samples: draws of z for each sentence, for the bounds and the mutual information.
        seed: of all draws.
        report: called with sentences about the progress; None: quiet.
    """
    check(translator, decoding)
    check_lines(len(sources))
    loc, scale = translator.posterior(sources, references)
    kl = kl_by_dimension(loc, scale).mean(axis=0)  # [Z]
    information = mutual_information(loc, scale, samples=samples, seed=seed)
    bounds = _bounds(translator, sources, references, samples, seed=seed, report=report)
    found = {
        "lines": len(sources),
        "samples": samples,
        "seed": seed,
        "z_dim": len(kl),
        "kl": float(kl.sum()),
        "kl_by_dimension": kl.tolist(),
        "active_units": metrics.active_units(loc),
        "mutual_information": information,
        "mutual_information_limit": math.log(len(sources)),
        "marginal_kl": float(kl.sum()) - information,
        **bounds,
        "z": _with_each_z(
            translator, sources, references, decoding=decoding, seed=seed, report=report
        ),
    }
    return {**found, **verdict(found)}


def check_lines(count):
    """Raise a UserError where there are too few sentences."""
    if count < 2:
        raise UserError("--latent needs two sentences or more, to give one the z of another")


def check(translator, decoding):
    """Raise a UserError where a model has no z to look at, or a rule takes no z."""
    if hasattr(translator, "members"):
        raise UserError("--latent is for one model, not for an ensemble")
    if translator.model.posterior is None:
        raise UserError(
            f"--latent needs a model with z, and this one is {translator.hp.model_type}"
        )
    if decoding.search not in ("beam", "greedy", "sample") or decoding.z != "mean":
        raise UserError("--latent sets z itself: leave --z out, and search by beam or greedy")


def kl_by_dimension(loc, scale):
    """Return KL(N(loc, scale) || N(0, 1)), elementwise: [N, Z]."""
    loc, scale = np.asarray(loc, np.float64), np.asarray(scale, np.float64)
    return 0.5 * (loc**2 + scale**2 - 1) - np.log(scale)


def mutual_information(loc, scale, *, samples=10, seed=1):
    """Return how many nats z tells about which sentence it was drawn for.

        I_q = 1/N sum_n E_q(z|n)[log q(z|n) - log q(z)],  q(z) = 1/N sum_m q(z|m)
            = KL of a sentence, on average - KL(q(z) || p(z))

    Hoffman and Johnson (2016). It is between 0 and log N. The expectation is a mean over draws;
    where all posteriors are equal, or far from each other, every draw gives the same.

    Args:
        loc: [N, Z].
        scale: [N, Z].
        samples: draws for each sentence.
        seed: of the draws.
    """
    loc, scale = np.asarray(loc, np.float64), np.asarray(scale, np.float64)
    loc = loc - loc.mean(axis=0)  # small numbers lose less in the products below
    count, size = loc.shape
    rng = np.random.default_rng(seed)
    precision = scale**-2.0  # [N, Z]
    constant = -np.log(scale).sum(1) - 0.5 * (precision * loc**2).sum(1)  # [N]
    total = 0.0
    for _ in range(samples):
        epsilon = rng.standard_normal((count, size))
        z = loc + scale * epsilon
        own = -0.5 * (epsilon**2).sum(1) - np.log(scale).sum(1)  # [N]
        for first in range(0, count, ROWS):
            part = z[first : first + ROWS]
            # log q(z|m) of each draw and each m, less -Z/2 log 2 pi.  # [ROWS, N]
            each = part @ (precision * loc).T - 0.5 * part**2 @ precision.T + constant
            total += np.sum(own[first : first + ROWS] - _log_mean_exp(each))
    # Of equal posteriors, rounding alone may leave a little less than nothing.
    return float(np.clip(total / (samples * count), 0.0, math.log(count)))


def _log_mean_exp(values):
    """log 1/M sum_m exp(values[:, m]): [N]."""
    most = values.max(axis=1, keepdims=True)
    return most[:, 0] + np.log(np.mean(np.exp(values - most), axis=1))


def derangement(count, *, seed=1):
    """Return a fixed permutation of range(count) that leaves nothing in its place: [count].

    It is one cycle through all, in a random order, so that neighbours in a text do not get
    each other's z.
    """
    order = np.random.default_rng(seed).permutation(count)
    found = np.empty(count, np.int64)
    found[order] = np.roll(order, 1)
    return found


def _bounds(translator, sources, references, samples, *, seed, report):
    """The means of the bounds over the pairs."""
    pairs = zip(sources, references, strict=True)
    scores = translator.score_stream(pairs, samples=samples, seed=seed)
    tracked = track(scores, "scoring pairs", total=len(sources), report=report)
    values = [score.values for score in tracked]
    means = {name: float(np.mean([v[name] for v in values])) for name in ("elbo", "iw_log_pxy")}
    return {
        **means,
        "iw_gap": means["iw_log_pxy"] - means["elbo"],
        "effective_samples": float(np.mean([v["ess"] for v in values])),
    }


def _with_each_z(translator, sources, references, *, decoding, seed, report):
    """What comes of each kind of z, by kind."""
    mean = translator.embed(sources)[0]  # [N, Z]
    all_z = {
        "mean": mean,
        "sample": translator.draw_z(sources, seed=seed),
        "zero": np.zeros_like(mean),
        "other": mean[derangement(len(sources), seed=seed)],
    }
    lines, rows, probs, found = {}, {}, {}, {}
    for kind in KINDS:
        results = translator.stream(sources, decoding=decoding, seed=seed, z=all_z[kind])
        doing = f"translating with z = {kind}"
        tracked = track(results, doing, total=len(sources), report=report)
        lines[kind] = [result.translations[0].text for result in tracked]
        rows[kind] = metrics.statistics(lines[kind], references, name="bleu")
        probs[kind] = translator.log_probs(sources, references, all_z[kind])
        bleu = metrics.from_statistics(rows[kind], name="bleu")
        found[kind] = {"bleu": bleu.value, "signature": bleu.signature}
    tested = significance.paired(list(rows.items()), name="bleu", kind="bootstrap")
    for kind in KINDS:
        found[kind]["p_value"] = tested["systems"][kind]["p_value"]
        changed = [a != b for a, b in zip(lines[kind], lines["mean"], strict=True)]
        found[kind]["changed"] = float(np.mean(changed))
        for name, own, now in zip(
            ("log_px", "log_py"), probs["mean"], probs[kind], strict=True
        ):
            loss = np.asarray(own, np.float64) - now  # [N]
            found[kind][name] = float(np.mean(now, dtype=np.float64))
            found[kind][f"{name}_loss"] = float(loss.mean())
            found[kind][f"{name}_loss_error"] = float(loss.std(ddof=1) / math.sqrt(len(loss)))
    return found


def verdict(found):
    """Return {"verdict", "sentence"}: is z in use?

    The verdict is one of
        collapsed: z says less than a tenth of a nat about the sentence;
        ignored: it says more, but the wrong z costs neither P(x|z) nor P(y|x, z) anything;
        source only: the wrong z costs P(x|z), but not P(y|x, z);
        in use: the wrong z costs P(y|x, z).
    A cost counts where it is at least a tenth of a nat and two standard errors.
    """
    z, mean = found["z"]["other"], found["z"]["mean"]
    says = (
        f"KL {found['kl']:.2f} nats, {found['mutual_information']:.2f} nats of information, "
        f"{found['active_units']} of {found['z_dim']} units active"
    )
    bleu = f"BLEU goes from {mean['bleu']:.2f} to {z['bleu']:.2f}"
    costs = {
        name: max(LITTLE, 2 * z[f"{name}_loss_error"]) <= z[f"{name}_loss"]
        for name in ("log_px", "log_py")
    }
    if found["mutual_information"] < LITTLE:
        kind = "collapsed"
        sentence = f"collapsed: q(z|.) is the same for every sentence ({says})"
    elif costs["log_py"]:
        kind = "in use"
        sentence = (
            f"z is in use: with another sentence's z, log P(y|x, z) falls by "
            f"{z['log_py_loss']:.2f} nats and {bleu} ({says})"
        )
    elif costs["log_px"]:
        kind = "source only"
        sentence = (
            f"z is in use for the source only: with another sentence's z, log P(x|z) falls by "
            f"{z['log_px_loss']:.2f} nats, but log P(y|x, z) by {z['log_py_loss']:.2f}, and "
            f"{bleu} ({says})"
        )
    else:
        kind = "ignored"
        sentence = (
            f"ignored: q(z|.) differs between sentences, but with another sentence's z neither "
            f"log P(x|z) nor log P(y|x, z) falls, and {bleu} ({says})"
        )
    return {"verdict": kind, "sentence": sentence}
