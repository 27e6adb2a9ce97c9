import gzip

import numpy as np
import pytest

WORDS = [f"w{number}" for number in range(100)]


@pytest.fixture(scope="session")
def tokenizer():
    """Words w0 ... w99, with the ids 3 ... 102."""
    from aevnmt_tf import text

    return text.VocabularyTokenizer(["<unk>", "<s>", "</s>", *WORDS])


@pytest.fixture
def write_pairs(tmp_path):
    """Writes PREFIX.en and PREFIX.de and gives PREFIX."""

    def write(src, tgt, *, name="train", packed=False, src_name="en"):
        for lang, lines in ((src_name, src), ("de", tgt)):
            content = lines if isinstance(lines, bytes) else _joined(lines)
            path = tmp_path / f"{name}.{lang}"
            if packed:
                (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(content))
            else:
                path.write_bytes(content)
        return tmp_path / name

    return write


def _joined(lines):
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.fixture(scope="session")
def encoded():
    """Makes EncodedPairs of given lengths; the ids of pair i are start + i."""
    from aevnmt_tf.data.pair_encoding import EncodedPairs, Sequences

    def make(x_len, y_len, *, start=10):
        sides = []
        for lengths in (x_len, y_len):
            lengths = np.asarray(lengths, np.int64)
            ids = np.repeat(np.arange(start, start + len(lengths), dtype=np.int32), lengths)
            ids[lengths.cumsum() - 1] = 2
            sides.append(Sequences.join([(ids, lengths)]))
        return EncodedPairs(*sides)

    return make


@pytest.fixture
def caption_lengths():
    """Lengths like those of image captions: 14 subwords a side, the sides alike, `</s>` in."""
    random = np.random.default_rng(0)
    x = np.clip(np.round(random.lognormal(2.53, 0.34, 29000)), 4, 49).astype(np.int32)
    y = np.clip(np.round(x * random.lognormal(0.0, 0.17, len(x)) + 0.3), 2, 50)
    return x + 1, y.astype(np.int32) + 1
