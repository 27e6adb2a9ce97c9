"""Is the difference between two systems more than chance? sacreBLEU's own paired tests.

Their numbers are those of `sacrebleu --paired-bs` and `sacrebleu --paired-ar`, and as there the
environment variable SACREBLEU_SEED changes the seed (12345). All but one: systems of equal
score have p = 1 here, where sacreBLEU gives identical translations the lowest p that there is.
"""

from collections.abc import Sequence
from typing import Any

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import metrics

KINDS = {"bootstrap": "bs", "ar": "ar"}
LEVEL = 0.05  # a p-value that is no larger is called significant


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
        systems: pairs of a name and the statistics of its sentences, see metrics.statistics.
        name: one of metrics.NAMES.
        kind: "bootstrap", paired bootstrap resampling, or "ar", approximate randomisation.
        resamples: how many; None: sacreBLEU's 1,000 for bootstrap and 10,000 for ar.
        protocol: of the metric.

    Returns:
        A dict: the signature, and for each system its score, the p_value of the difference to
        the baseline (None for the baseline), and with bootstrap the mean and half the width
        of the 95 % interval of its resampled scores (`mean`, `ci`).
    """
    from sacrebleu.significance import PairedTest

    if len(systems) < 2:
        raise UserError("a paired test needs two systems or more.")
    known = dict(systems)
    counted: Any = metrics.metric(name, references=[""], protocol=protocol)
    # The counts are there already: a system is known by its label in place of its lines.
    counted._extract_corpus_statistics = lambda lines, references: known[lines.label]
    lines: Any = [(label, _Lines(label, len(rows))) for label, rows in systems]
    test = PairedTest(
        lines,
        {name: counted},
        references=None,
        test_type=KINDS[kind],
        n_samples=resamples or 0,
    )
    signatures: Any
    found: Any
    signatures, found = test()
    (title,) = (key for key in found if key != "System")
    baseline, *others = found[title]
    for result in others:
        # No resampled difference of identical translations is larger than theirs, which is 0.
        if result.score == baseline.score:
            result.p_value = 1.0
    return {
        "signature": metrics.signature(name, str(signatures[title]), protocol=protocol),
        "systems": {
            label: {k: None if v is None else float(v) for k, v in vars(result).items()}
            for label, result in zip(known, found[title], strict=True)
        },
    }


class _Lines:
    """Stands for the translations of a system: only their number is asked for."""

    def __init__(self, label: str, length: int) -> None:
        self.label, self._length = label, length

    def __len__(self) -> int:
        return self._length
