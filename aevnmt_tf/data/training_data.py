"""The endless stream of training batches, a pure function of the step."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from aevnmt_tf import text
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.machine import num_cores
from aevnmt_tf.data import batches
from aevnmt_tf.data.batch_order import BatchOrder, BatchStream, shard_columns
from aevnmt_tf.data.batch_shapes import Lengths, assign, choose_shapes
from aevnmt_tf.data.corpora import find_corpora, prefixes
from aevnmt_tf.data.pair_counts import CorpusCounts, Counts
from aevnmt_tf.data.pair_encoding import EncodedPairs, PairEncoder, Sequences, SubwordSampling
from aevnmt_tf.data.pair_store import PairStore, StoredPairs
from aevnmt_tf.data.pairs import read_pairs
from aevnmt_tf.hparams import Hparams

AHEAD = 16  # batches to prefetch


class TrainingData:
    """Training pairs in buckets, and the order of their batches.

    Args:
        gold: The segmentations of each corpus: one, or the same number of samples for every
            corpus. Corpus indices are 0, 1, ...
        synthetic: The segmentations of back-translated pairs, which have the last corpus
            index; None: there are none.
        batch_size: Rows per global batch.
        num_buckets: The maximum number of shapes.
        seed: The seed of the shuffling.
        ratios: How often each gold corpus is used per epoch (0.5: another half each time);
            None: once each.
        synthetic_ratio: Synthetic batches per gold batch.
        counts: The pairs that were read and dropped, for the record.
        digests: The digests of the text files, for the record.
    """

    def __init__(
        self,
        gold: Sequence[Sequence[EncodedPairs]],
        *,
        batch_size: int,
        synthetic: Sequence[EncodedPairs] | None = None,
        num_buckets: int = 10,
        seed: int = 1,
        ratios: Sequence[float] | None = None,
        synthetic_ratio: float = 1.0,
        counts: Counts | None = None,
        digests: Mapping[str, str] | None = None,
    ):
        self.batch_size = batch_size
        self.counts = counts
        self.digests = dict(digests or {})
        ratios = _checked_ratios(ratios, num_corpora=len(gold))
        corpora = [*gold, synthetic] if synthetic is not None else list(gold)
        sizes = [len(versions[0]) for versions in corpora]
        num_gold = sum(sizes[: len(gold)])
        corpus = np.repeat(np.arange(len(corpora), dtype=np.int16), sizes)  # [N]
        # A pair's bucket fits all its segmentations.
        x_len = np.concatenate([_longest([v.x for v in versions]) for versions in corpora])
        y_len = np.concatenate([_longest([v.y for v in versions]) for versions in corpora])
        self._samples, self._num_pairs = len(corpora[0]), len(corpus)
        times = 1.0 if set(ratios) == {1.0} else np.asarray(ratios)[corpus[:num_gold]]
        expected = float(np.dot(ratios, sizes[: len(gold)]))  # gold pairs per epoch
        share = synthetic_ratio * expected / max(len(corpus) - num_gold, 1)
        lengths = [
            Lengths(x_len[:num_gold], y_len[:num_gold], times=times),
            Lengths(x_len[num_gold:], y_len[num_gold:], share=share),
        ]
        self.shapes = choose_shapes(lengths, num_shapes=num_buckets, batch_size=batch_size)
        buckets = assign(x_len, y_len, shapes=self.shapes)
        stream = BatchStream(buckets[:num_gold], corpus[:num_gold], ratios, batch_size, seed)
        other = None
        if num_gold < len(buckets):
            rest = buckets[num_gold:]
            other = BatchStream(rest, 0 * rest, (1.0,), batch_size, seed, number=1)
        self.order = BatchOrder(stream, other, synthetic_ratio)
        if not stream.num_batches:
            raise UserError(
                "An epoch would have no pairs: use more text or larger train_ratios."
            )
        self.padding_share = self._padding_share(corpora, ratios)
        self._gather = batches.Gatherer(
            [part for version in zip(*corpora, strict=True) for part in version],
            corpora=[*range(len(corpora))] * self._samples,
            shapes=self.shapes,
        )

    def _padding_share(
        self, corpora: Sequence[Sequence[EncodedPairs]], ratios: Sequence[float]
    ) -> float:
        """Return 1 - real tokens / tokens of the batches, with fillers and both sides."""
        tokens = [np.mean([len(v.x.ids) + len(v.y.ids) for v in found]) for found in corpora]
        per_epoch = [np.dot(ratios, tokens[: len(ratios)]), *tokens[len(ratios) :]]
        real = padded = 0.0
        for (stream, epochs), count in zip(self.order.streams, per_epoch, strict=False):
            real += epochs * float(count)
            area = self.shapes.sum(1)[: len(stream.batches)] * stream.batches
            padded += epochs * self.batch_size * float(area.sum())
        return 1.0 - real / padded

    @property
    def batches_per_epoch(self) -> int:
        """The number of global batches, the same for every epoch."""
        return self.order.batches_per_epoch

    def dataset(
        self, first_step: int = 0, num_shards: int = 1, shard: int | Sequence[int] = 0
    ) -> tf.data.Dataset:
        """Return an endless dataset with one Batch per step and shard.

        Args:
            first_step: The number of the first global batch; a run starts with 0.
            num_shards: The number of parts of a global batch. Each has
                ceil(batch_size / num_shards) rows; the last ones may end in fillers.
            shard: The wanted part, or several parts, which follow one another, for a worker
                with several replicas.
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
            num_parallel_calls=max(2, num_cores()),
            deterministic=True,
        )
        options = batches.without_copies()
        # Batches are already divided into shards; TensorFlow must not do it again.
        policy = tf.data.experimental.AutoShardPolicy.OFF
        options.experimental_distribute.auto_shard_policy = policy
        return dataset.prefetch(AHEAD).with_options(options)


def _longest(versions: Sequence[Sequences]) -> np.ndarray:
    """Return the length of the longest segmentation of each sentence: [N] int32."""
    longest = versions[0].lengths
    for other in versions[1:]:
        np.maximum(longest, other.lengths, out=longest)
    return longest


def _checked_ratios(ratios: Sequence[float] | None, *, num_corpora: int) -> tuple[float, ...]:
    if ratios is None:
        return (1.0,) * num_corpora
    if len(ratios) != num_corpora:
        raise UserError(
            f"train_ratios has {len(ratios)} numbers, but train_prefix names {num_corpora} "
            "corpora: give one number per corpus."
        )
    if not all(0 < ratio < np.inf for ratio in ratios):
        raise UserError(
            f"train_ratios {list(ratios)}: every number must be positive; to leave out a "
            "corpus, remove it from train_prefix."
        )
    return tuple(map(float, ratios))


def _check_tag(tag: str | None, tokenizer: text.Tokenizer) -> None:
    ids = [] if tag is None else tokenizer.encode([tag]).to_list()[0]
    if tag is not None and (len(ids) != 1 or ids[0] == text.UNK):
        raise UserError(
            f"synthetic_tag {tag} is not one symbol of the source's vocabulary: omit "
            "vocab_prefix to make a vocabulary that contains it, or choose another word."
        )


def load_training_data(
    hp: Hparams,
    *,
    x_tokenizer: text.Tokenizer,
    y_tokenizer: text.Tokenizer,
    folder: str | Path,
    report: Callable[[str], object] = print,
) -> TrainingData:
    """Return the training corpora that the settings name, with mapped ids.

    Args:
        hp: The settings, whose prefixes name text that the tokenizers read. max_train applies
            to each gold corpus.
        x_tokenizer: The tokenizer of the source.
        y_tokenizer: The tokenizer of the target.
        folder: The folder of stores. Corpora without a store are tokenised into it.
        report: Called with messages for the user.
    """
    num_gold = len(prefixes(hp.train_prefix))
    _checked_ratios(hp.train_ratios, num_corpora=num_gold)
    stored = store_corpora(
        hp, x_tokenizer=x_tokenizer, y_tokenizer=y_tokenizer, folder=folder, report=report
    )
    for corpus in stored:
        _refuse_nothing(corpus.counts, hp)
    versions = [corpus.versions for corpus in stored]
    return TrainingData(
        versions[:num_gold],
        synthetic=versions[-1] if len(versions) > num_gold else None,
        batch_size=hp.batch_size,
        num_buckets=hp.num_buckets,
        seed=_seed(hp),
        ratios=hp.train_ratios,
        # DEVIATION: the paper concatenates gold and synthetic data; the authors' code takes
        # batches of both in turn, by ratio, and so do we.
        synthetic_ratio=hp.mono_real_ratio,
        counts=Counts([corpus.counts for corpus in stored]),
        digests={name: value for c in stored for name, value in c.digests.items()},
    )


def store_corpora(
    hp: Hparams,
    *,
    x_tokenizer: text.Tokenizer,
    y_tokenizer: text.Tokenizer,
    folder: str | Path,
    report: Callable[[str], object] = print,
) -> list[StoredPairs]:
    """Return the stores of the training corpora; tokenise those that are missing.

    Synthetic or monolingual text comes last. A monolingual corpus has a copy of the source as
    its target, which training ignores. See load_training_data for the arguments.
    """
    sampling = None
    if hp.subword_sampling:
        sampling = SubwordSampling(hp.subword_sampling, hp.subword_samples, seed=_seed(hp))
        for tokenizer in (x_tokenizer, y_tokenizer):
            tokenizer.sample([], alpha=sampling.alpha, seed=1)  # fail early
    if hp.synthetic_prefix:
        _check_tag(hp.synthetic_tag, x_tokenizer)
    stored = []
    for corpus in find_corpora(hp, kinds=("train", "synthetic", "mono")):
        tag = hp.synthetic_tag if corpus.kind == "synthetic" else None
        max_pairs = hp.max_train if corpus.kind == "train" else 0
        target, tgt_max_len = y_tokenizer, hp.tgt_max_len
        if corpus.kind == "mono":
            target, tgt_max_len = x_tokenizer, hp.src_max_len
        encoder = PairEncoder(
            x_tokenizer,
            target,
            hp.src_max_len,
            tgt_max_len,
            drop_empty=True,
            sampling=sampling,
            tag=tag,
        )
        store = PairStore(
            Path(folder),
            corpus.source,
            corpus.inputs,
            made_with={
                "tokenizers": [x_tokenizer.fingerprint, target.fingerprint],
                "limits": [hp.src_max_len, tgt_max_len, max_pairs],
                "tag": tag,
                "sampling": None if sampling is None else dataclasses.astuple(sampling),
            },
            num_versions=1 if sampling is None else sampling.count,
            vocab_size=max(x_tokenizer.vocab_size, y_tokenizer.vocab_size),
        )
        endings = list(corpus.endings.values())
        languages = dict(src=endings[0], tgt=endings[-1])
        read = functools.partial(
            read_pairs, corpus.source, **languages, max_pairs=max_pairs, tag=tag
        )
        stored.append(store.open(read, encoder=encoder, report=report))
    return stored


def _refuse_nothing(counts: CorpusCounts, hp: Hparams) -> None:
    if not counts.kept:
        raise UserError(
            f"{counts.name}: none of {counts.read} pairs is left ({counts.empty} empty, "
            f"{counts.source_too_long} with a source over src_max_len={hp.src_max_len}, "
            f"{counts.target_too_long} with a target over tgt_max_len={hp.tgt_max_len})."
        )


def _seed(hp: Hparams) -> int:
    return 1 if hp.random_seed is None else hp.random_seed
