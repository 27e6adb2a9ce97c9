"""Is the latent variable in use? Diagnostics that tell a collapsed model from one that uses z.

kl                  KL(q(z|.) || p(z)), in nats per sentence, and by dimension
active units        dimensions whose posterior mean has a variance above 0.01
mutual information  I_q = KL - KL(q(z) || p(z)), where q(z) is the mean of all q(z|.)
iw_log_pxy, elbo    bounds on log P(x, y), which are equal if the posterior has collapsed. For
                    vnmt they are bounds on log P(y|x), and the first one is iw_log_py
z                   BLEU, log P(x|z) and log P(y|x, z) with the mean z, a sample, zero, and
                    the z of another sentence
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.progress import track
from aevnmt_tf.evaluation import metrics, significance

if TYPE_CHECKING:
    from aevnmt_tf.translator import Decoding, Translator

Report = Callable[[str], object] | None

LITTLE = 0.1  # nats per sentence: anything below counts as no effect
ERRORS = 2.0  # a 95 % interval: the mean plus or minus this many standard errors
KINDS = ("mean", "sample", "zero", "other")
ROWS = 1024  # samples compared with all posteriors at a time


def diagnose(
    translator: "Translator",
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    decoding: "Decoding",
    references: Sequence[str] | None = None,
    samples: int = 10,
    seed: int = 1,
    report: Report = None,
) -> dict[str, Any]:
    """Return the diagnostics of a model's latent variable as a dict for JSON.

    Args:
        translator: Translator of a single model with z.
        sources: N source sentences.
        targets: Their references as the model reads them.
        references: Their references as metrics score them; None: the targets.
        decoding: Beam search, greedy search or sampling.
        samples: Samples of z per sentence, for the bounds and the mutual information.
        seed: Seed of all samples.
        report: Called with progress messages; None: show no progress.
    """
    check(translator, decoding)
    check_lines(len(sources))
    loc, scale, kl = translator.embedder.posterior(sources, targets)
    kl = kl.mean(axis=0, dtype=np.float64)  # [Z]
    each = information_by_sentence(loc, scale, samples=samples, seed=seed)  # [N]
    information = _between(each.mean(), len(each))
    found = {
        "lines": len(sources),
        "samples": samples,
        "seed": seed,
        "z_dim": loc.shape[1],
        "kl": float(kl.sum()),
        "kl_by_dimension": kl.tolist(),
        "active_units": metrics.active_units(loc),
        "mutual_information": information,
        "mutual_information_error": _standard_error(each),
        "mutual_information_limit": math.log(len(sources)),
        "marginal_kl": float(kl.sum()) - information,
        **_bounds(translator, sources, targets, samples, seed=seed, report=report),
        "z": _with_each_z(
            translator,
            sources,
            targets,
            references=targets if references is None else references,
            decoding=decoding,
            seed=seed,
            report=report,
        ),
    }
    return {**found, **verdict(found)}


def check_lines(count: int) -> None:
    """Raise a UserError if there are too few sentences."""
    if count < 2:
        raise UserError("--latent needs at least two sentences, because it swaps their z.")


def check(translator: "Translator", decoding: "Decoding") -> None:
    """Raise a UserError if the model has no z, or if the decision rule sets z."""
    if len(translator.graph.members) > 1:
        raise UserError("--latent needs a single model, not an ensemble.")
    if translator.model.posterior is None:
        raise UserError(
            f"--latent needs a model with z; a {translator.hp.model_type} model has none."
        )
    if decoding.search not in ("beam", "greedy", "sample") or decoding.z != "mean":
        raise UserError(
            "--latent sets z itself: leave out --z, and use --search beam or greedy."
        )


def mutual_information(
    loc: np.ndarray, scale: np.ndarray, *, samples: int = 10, seed: int = 1
) -> float:
    """Return the mutual information of sentence and z under q, in nats.

        I_q = 1/N sum_n E_q(z|n)[log q(z|n) - log q(z)],  q(z) = 1/N sum_m q(z|m)
            = KL(q(z|n) || p(z)) averaged over n - KL(q(z) || p(z))

    See Hoffman and Johnson (2016). It is between 0 and log N. The expectation is estimated with
    `samples` samples per sentence. The estimate has no variance if all posteriors, loc and
    scale [N, Z], are equal or far apart.
    """
    each = information_by_sentence(loc, scale, samples=samples, seed=seed)
    return _between(each.mean(), len(each))


def _between(information: float, count: int) -> float:
    # For equal posteriors, rounding errors can give a value slightly below zero.
    return float(np.clip(information, 0.0, math.log(count)))


def information_by_sentence(
    loc: np.ndarray, scale: np.ndarray, *, samples: int = 10, seed: int = 1
) -> np.ndarray:
    """Return E_q(z|n)[log q(z|n) - log q(z)] per sentence: [N]; see mutual_information."""
    loc, scale = np.asarray(loc, np.float64), np.asarray(scale, np.float64)
    loc = loc - loc.mean(axis=0)  # centred, the products below lose less precision
    count, size = loc.shape
    rng = np.random.default_rng(seed)
    precision = scale**-2.0  # [N, Z]
    constant = -np.log(scale).sum(1) - 0.5 * (precision * loc**2).sum(1)  # [N]
    total = np.zeros(count)
    for _ in range(samples):
        epsilon = rng.standard_normal((count, size))
        z = loc + scale * epsilon
        own = -0.5 * (epsilon**2).sum(1) - np.log(scale).sum(1)  # [N]
        for first in range(0, count, ROWS):
            part = z[first : first + ROWS]
            # log q(z|m) for each draw and each m, without -Z/2 log 2 pi.  # [ROWS, N]
            each = part @ (precision * loc).T - 0.5 * part**2 @ precision.T + constant
            total[first : first + ROWS] += own[first : first + ROWS] - _log_mean_exp(each)
    return total / samples


def _standard_error(values: np.ndarray) -> float:
    """Return the standard error of the mean of values [N]."""
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def _log_mean_exp(values: np.ndarray) -> np.ndarray:
    """Return log 1/M sum_m exp(values[:, m]): [N]."""
    most = values.max(axis=1, keepdims=True)
    return most[:, 0] + np.log(np.mean(np.exp(values - most), axis=1))


def derangement(count: int, *, seed: int = 1) -> np.ndarray:
    """Return a permutation of range(count) without fixed points, a random cycle: [count]."""
    order = np.random.default_rng(seed).permutation(count)
    found = np.empty(count, np.int64)
    found[order] = np.roll(order, 1)
    return found


def _bounds(
    translator: "Translator",
    sources: Sequence[str],
    targets: Sequence[str],
    samples: int,
    *,
    seed: int,
    report: Report,
) -> dict[str, float]:
    """Return the bounds, averaged over the pairs."""
    pairs = zip(sources, targets, strict=True)
    scores = translator.scorer.stream(pairs, samples=samples, seed=seed)
    tracked = track(scores, "scoring pairs", total=len(sources), report=report)
    values = [score.values for score in tracked]
    # Without P(x|z), as in vnmt, the bounds are on log P(y|x).
    bound = "iw_log_py" if translator.model.source_lm is None else "iw_log_pxy"
    bound = "iw_log_px" if translator.model.decoder is None else bound
    means = {name: float(np.mean([v[name] for v in values])) for name in ("elbo", bound)}
    return {
        **means,
        "iw_gap": means[bound] - means["elbo"],
        "effective_samples": float(np.mean([v["ess"] for v in values])),
    }


def _with_each_z(
    translator: "Translator",
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    references: Sequence[str],
    decoding: "Decoding",
    seed: int,
    report: Report,
) -> dict[str, dict[str, Any]]:
    """Return BLEU and log-probabilities for each kind of z."""
    mean = translator.embed(sources)[0]  # [N, Z]
    all_z = {
        "mean": mean,
        "sample": translator.embedder.draw(sources, seed=seed),
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
        probs[kind] = translator.scorer.log_probs(sources, targets, all_z[kind])
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
            found[kind][f"{name}_loss_error"] = _standard_error(loss)
    return found


def verdict(found: dict[str, Any]) -> dict[str, str]:
    """Return {"verdict", "sentence"}: is z in use?

    The verdict is one of
        collapsed: z has less than 0.1 nats of information about the sentence;
        in use: the z of another sentence costs P(y|x, z) at least 0.1 nats;
        source only: it costs P(x|z) at least 0.1 nats, but not P(y|x, z);
        ignored: it costs neither of them 0.1 nats;
        borderline: the sentences do not decide between two of the above.
    Each of these questions is a paired test over sentences. It is undecided if the 95 %
    interval of the mean contains 0.1 nats.
    """
    z, mean = found["z"]["other"], found["z"]["mean"]
    informs = _is_much(found, "mutual_information")
    source, target = _is_much(z, "log_px_loss"), _is_much(z, "log_py_loss")
    px = f"log P(x|z) falls by {_shown(z, 'log_px_loss')} nats"
    py = f"log P(y|x, z) falls by {_shown(z, 'log_py_loss')} nats"
    bleu = f"BLEU goes from {mean['bleu']:.2f} to {z['bleu']:.2f}"
    swapped = "with another sentence's z"
    if informs is False:
        kind, words = "collapsed", "collapsed: q(z|.) is the same for every sentence"
    elif target:
        kind, words = "in use", f"z is in use: {swapped}, {py} and {bleu}"
    elif None in (informs, source, target):
        kind = "borderline"
        words = (
            f"borderline: {swapped}, {py}, {px} and {bleu}, which is neither clearly above nor "
            f"clearly below {LITTLE} nats; evaluate more sentences or seeds"
        )
    elif source:
        kind = "source only"
        words = f"z is in use for the source only: {swapped}, {px}, but {py}, and {bleu}"
    else:
        kind = "ignored"
        words = (
            f"ignored: q(z|.) differs between sentences, but {swapped}, {px} and {py}, and "
            f"{bleu}"
        )
    says = (
        f"KL {found['kl']:.2f} nats, {_shown(found, 'mutual_information')} nats of "
        f"information, {found['active_units']} of {found['z_dim']} units active"
    )
    return {"verdict": kind, "sentence": f"{words} ({says})"}


def _is_much(numbers: dict[str, Any], name: str) -> bool | None:
    """Return whether a mean is at least LITTLE; None if its interval leaves that open."""
    value, error = numbers[name], ERRORS * numbers[f"{name}_error"]
    if value - error < LITTLE <= value + error:
        return None
    return bool(value >= LITTLE)


def _shown(numbers: dict[str, Any], name: str) -> str:
    return f"{numbers[name]:.2f} ± {ERRORS * numbers[f'{name}_error']:.2f}"
