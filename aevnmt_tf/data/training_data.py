"""The endless stream of training batches, a pure function of the step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from aevnmt_tf import text
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data import batches
from aevnmt_tf.data.batch_order import BatchOrder, BatchStream, shard_columns
from aevnmt_tf.data.batch_shapes import Lengths, assign, choose_shapes
from aevnmt_tf.data.corpora import prefixes
from aevnmt_tf.data.pair_counts import Counts
from aevnmt_tf.data.pair_encoding import EncodedPairs, encode_pairs
from aevnmt_tf.data.pairs import read_pairs, read_synthetic
from aevnmt_tf.data.subword_sampling import SubwordSampling, sample_pairs
from aevnmt_tf.hparams import Hparams


class TrainingData:
    """Training pairs in buckets, and the order of their batches.

    Args:
        gold: one EncodedPairs for each corpus; corpus indices are 0, 1, ...
        synthetic: back-translated pairs, or None; their corpus index is the last.
        samples: segmentations of all these corpora to train on in place of those in `gold` and
            `synthetic`: for each corpus as many EncodedPairs, all with its pairs.
        batch_size: rows of a global batch.
        num_buckets: the most shapes.
        seed: of the shuffling.
        ratios: how often each gold corpus is seen in an epoch (0.5: another half each time);
            None = once each.
        synthetic_ratio: synthetic batches for each gold batch.
        counts: what was read and dropped, for the record.
    """

    def __init__(
        self,
        gold: Sequence[EncodedPairs],
        *,
        batch_size: int,
        synthetic: EncodedPairs | None = None,
        samples: Sequence[Sequence[EncodedPairs]] | None = None,
        num_buckets: int = 10,
        seed: int = 1,
        ratios: Sequence[float] | None = None,
        synthetic_ratio: float = 1.0,
        counts: Counts | None = None,
    ):
        ratios = _checked_ratios(ratios, num_corpora=len(gold))
        corpora = [*gold, synthetic] if synthetic is not None else list(gold)
        sizes = [len(corpus) for corpus in corpora]
        num_gold = sum(sizes[: len(gold)])
        corpus = np.repeat(np.arange(len(corpora), dtype=np.int32), sizes)  # [N]
        # The segmentations, one a row: [S, number of corpora] EncodedPairs
        versions = [corpora] if samples is None else list(zip(*samples, strict=True))
        x_lens = np.stack([np.concatenate([c.x.lengths for c in v]) for v in versions])
        y_lens = np.stack([np.concatenate([c.y.lengths for c in v]) for v in versions])
        x_len, y_len = x_lens.max(0), y_lens.max(0)  # [S, N] -> [N]: a bucket holds them all

        self._samples, self._num_pairs = len(versions), len(corpus)
        self.batch_size = batch_size
        self.counts = counts
        times = np.asarray(ratios)[corpus[:num_gold]]
        gold_lengths = Lengths(x_len[:num_gold], y_len[:num_gold], times=times)
        rest = Lengths(
            x_len[num_gold:],
            y_len[num_gold:],
            share=synthetic_ratio * times.sum() / max(len(x_len) - num_gold, 1),
        )
        self.shapes = choose_shapes(
            [gold_lengths, rest], num_shapes=num_buckets, batch_size=batch_size
        )
        buckets = assign(x_len, y_len, shapes=self.shapes)
        other = buckets[num_gold:]
        self.order = BatchOrder(
            BatchStream(buckets[:num_gold], corpus[:num_gold], ratios, batch_size, seed),
            BatchStream(other, 0 * other, (1.0,), batch_size, seed, number=1)
            if len(other)
            else None,
            synthetic_ratio,
        )
        if not self.order.gold.num_batches:
            raise UserError(
                "An epoch would have no pair: give more pairs or greater train_ratios."
            )
        self.padding_share = self._padding_share((x_lens + y_lens).mean(0))
        self._gather = batches.Gatherer(
            [part for version in versions for part in version],
            corpus=np.tile(corpus, len(versions)),
            shapes=self.shapes,
        )

    def _padding_share(self, length: np.ndarray) -> float:
        """Return 1 - real tokens / tokens of the batches, fillers and both sides included."""
        real = padded = 0.0
        first = 0
        for stream, epochs in self.order.streams:
            part = length[first : first + len(stream.buckets)]
            first += len(stream.buckets)
            times = np.asarray(stream.ratios)[stream.corpus]
            real += epochs * float((part * times).sum())
            area = self.shapes.sum(1)[: len(stream.batches)] * stream.batches
            padded += epochs * self.batch_size * float(area.sum())
        return 1.0 - real / padded

    @property
    def batches_per_epoch(self) -> int:
        """Global batches of an epoch, the same for every epoch."""
        return self.order.batches_per_epoch

    def dataset(
        self, first_step: int = 0, num_shards: int = 1, shard: int | Sequence[int] = 0
    ) -> tf.data.Dataset:
        """Return the batches from a step on, without end: one Batch for each step and shard.

        Args:
            first_step: the number of the first global batch; 0 is the first of a run.
            num_shards: into how many parts a global batch is cut. Each has
                ceil(batch_size / num_shards) rows; the last ones may end in fillers.
            shard: which part; or several, which then follow one another, as a worker with
                several replicas wants them.
        """
        shards = list(shard) if isinstance(shard, Sequence) else [int(shard)]
        columns = shard_columns(self.batch_size, num_shards=num_shards, shards=shards)
        size = columns.shape[1]
        first_rows = tf.constant([shard * size for shard in shards])

        def gather(pairs: tf.Tensor, bucket: tf.Tensor, part: tf.Tensor) -> batches.Batch:
            return self._gather(pairs, bucket, tf.gather(first_rows, part) + tf.range(size))

        dataset = self.order.dataset(
            first_step, columns=columns, samples=self._samples, stride=self._num_pairs
        ).map(
            tf.autograph.experimental.do_not_convert(gather),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        options = tf.data.Options()
        # The shards are cut here; TensorFlow must not cut them again.
        policy = tf.data.experimental.AutoShardPolicy.OFF
        options.experimental_distribute.auto_shard_policy = policy
        return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)


def _checked_ratios(ratios: Sequence[float] | None, *, num_corpora: int) -> tuple[float, ...]:
    if ratios is None:
        return (1.0,) * num_corpora
    if len(ratios) != num_corpora:
        raise UserError(
            f"train_ratios has {len(ratios)} numbers, but train_prefix names {num_corpora} "
            "corpora; give one number for each."
        )
    if not all(0 < ratio < np.inf for ratio in ratios):
        raise UserError(
            f"train_ratios {list(ratios)}: every number must be over 0; "
            "leave a corpus that is not wanted out of train_prefix."
        )
    return tuple(map(float, ratios))


def _check_tag(tag: str | None, tokenizer: text.Tokenizer) -> None:
    ids = [] if tag is None else tokenizer.encode([tag]).to_list()[0]
    if tag is not None and (len(ids) != 1 or ids[0] == text.UNK):
        raise UserError(
            f"synthetic_tag {tag} is not one symbol of the source's vocabulary: leave "
            "vocab_prefix out, so that one with it is made, or choose a word of it."
        )


def load_training_data(
    hp: Hparams, *, x_tokenizer: text.Tokenizer, y_tokenizer: text.Tokenizer
) -> TrainingData:
    """Read, check and tokenise the training corpora that the settings name.

    Args:
        hp: the settings; their prefixes name text that the tokenizers read. max_train is for
            each gold corpus.
        x_tokenizer: of the source.
        y_tokenizer: of the target.
    """
    named = prefixes(hp.train_prefix)
    languages = dict(src=hp.src, tgt=hp.tgt)
    _checked_ratios(hp.train_ratios, num_corpora=len(named))  # before the slow part
    corpora = [read_pairs(prefix, max_pairs=hp.max_train, **languages) for prefix in named]
    if hp.synthetic_prefix:
        tag = hp.synthetic_tag
        _check_tag(tag, x_tokenizer)
        corpora.append(read_synthetic(hp.synthetic_prefix, tag=tag, **languages))
    options = dict(
        x_tokenizer=x_tokenizer,
        y_tokenizer=y_tokenizer,
        src_max_len=hp.src_max_len,
        tgt_max_len=hp.tgt_max_len,
    )
    seed = 1 if hp.random_seed is None else hp.random_seed
    sampling = SubwordSampling(hp.subword_sampling, count=hp.subword_samples, seed=seed)
    if sampling.alpha:
        for tokenizer in (x_tokenizer, y_tokenizer):
            tokenizer.sample([], alpha=sampling.alpha, seed=seed)  # an error comes before work
    encoded, samples, counts = [], [], []
    while corpora:  # each corpus' text is let go as soon as its ids are there
        pairs = corpora.pop(0)
        best, kept = encode_pairs(pairs, drop_empty=True, **options)
        encoded.append(best)
        if sampling.alpha:
            # The synthetic corpus is the last one.
            tag = None if corpora or not hp.synthetic_prefix else hp.synthetic_tag
            samples.append(sample_pairs(pairs, best, sampling=sampling, tag=tag, **options))
        counts.append(kept)
        if not len(best):
            raise UserError(
                f"{kept.name}: none of {kept.read} pairs is left ({kept.empty} empty, "
                f"{kept.source_too_long} with a source over src_max_len={hp.src_max_len}, "
                f"{kept.target_too_long} with a target over tgt_max_len={hp.tgt_max_len})."
            )
    return TrainingData(
        encoded[: len(named)],
        synthetic=encoded[-1] if hp.synthetic_prefix else None,
        samples=samples or None,
        batch_size=hp.batch_size,
        num_buckets=hp.num_buckets,
        seed=seed,
        ratios=hp.train_ratios,
        # DEVIATION: the paper concatenates gold and synthetic data; the authors' code takes
        # batches of both in turn, by ratio, and so do we.
        synthetic_ratio=hp.mono_real_ratio,
        counts=Counts(counts),
    )
