"""Significance of the difference between systems: sacreBLEU's paired tests.

The numbers equal those of `sacrebleu --paired-bs` and `sacrebleu --paired-ar`, and the
environment variable SACREBLEU_SEED changes the seed (12345), too. There is one exception:
systems with equal scores have p = 1 here, while sacreBLEU gives identical translations the
lowest possible p.
"""

from collections.abc import Sequence
from typing import Any

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import metrics

KINDS = {"bootstrap": "bs", "ar": "ar"}
LEVEL = 0.05  # differences with at most this p-value are significant


def paired(
    systems: Sequence[tuple[str, metrics.Rows]],
    *,
    name: str,
    kind: str,
    resamples: int | None = None,
    protocol: metrics.Protocol = metrics.PLAIN,
) -> dict[str, Any]:
    """Compare systems with the first one, the baseline, by one metric.

    Args:
        systems: Pairs of a name and the statistics of its sentences, see metrics.statistics.
        name: One of metrics.NAMES.
        kind: "bootstrap" for paired bootstrap resampling, "ar" for approximate randomisation.
        resamples: Number of resamples; None: sacreBLEU's 1,000 for bootstrap, 10,000 for ar.
        protocol: How the metric scores.

    Returns:
        A dict with the signature and, per system, its score and the p_value of its difference
        from the baseline (None for the baseline). With bootstrap, also the mean of the
        resampled scores and half the width of their 95 % interval (`mean`, `ci`).
    """
    from sacrebleu.significance import PairedTest

    if len(systems) < 2:
        raise UserError("a paired test needs at least two systems.")
    counted: Any = metrics.metric(name, references=[""], protocol=protocol)
    # The statistics already exist: they take the place of the translations.
    counted._extract_corpus_statistics = lambda rows, references: rows
    rows_by_name: Any = list(systems)
    signatures: Any
    found: Any
    signatures, found = PairedTest(
        rows_by_name,
        {name: counted},
        references=None,
        test_type=KINDS[kind],
        n_samples=resamples or 0,
    )()
    (title,) = (key for key in found if key != "System")
    baseline, *others = found[title]
    for result in others:
        # The difference between identical translations is 0 in every resample.
        if result.score == baseline.score:
            result.p_value = 1.0
    return {
        "signature": metrics.signature(name, str(signatures[title]), protocol=protocol),
        "systems": {
            label: {k: None if v is None else float(v) for k, v in vars(result).items()}
            for label, result in zip(found["System"], found[title], strict=True)
        },
    }
