"""Pairs in any number, their split into train, dev and test, and the files on disk."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

from aevnmt_tf.data.demo import news, talk
from aevnmt_tf.data.demo.choice import Dice
from aevnmt_tf.errors import UserError

NEWS, TALK = 0, 1
STAMP = "demo.json"
_PATTERNS = {NEWS: news.PATTERNS, TALK: talk.PATTERNS}
_PATIENCE = 2000  # throws without a new pair before we say that the grammar is used up
_WORDS = range(4, 19)  # how long either side may be


class Pair(NamedTuple):
    """A sentence in both languages and its register, NEWS or TALK."""

    english: str
    german: str
    register: int


class Splits(NamedTuple):
    """Three lists of pairs that share no sentence of either language."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]


def _stream(seed):
    """Endless pairs, with repetitions; the registers take turns by chance."""
    dice = Dice(seed)
    while True:
        register, said = dice.below(2), None
        # A pattern gives nothing when its random parts do not go together.
        while not said or not all(len(side.split()) in _WORDS for side in said):
            said = dice.weighted(_PATTERNS[register])(dice)
        yield Pair(*said, register)


def generate(*, seed, num_pairs):
    """`num_pairs` pairs, different on both sides; a longer list begins with a shorter one."""
    pairs, english, german = [], set(), set()
    repeated = 0
    stream = _stream(seed)
    while len(pairs) < num_pairs:
        pair = next(stream)
        if pair.english in english or pair.german in german:
            repeated += 1
            if repeated > _PATIENCE:
                raise UserError(
                    f"the demo grammar gave only {len(pairs)} of {num_pairs} different pairs; "
                    "ask for fewer demo pairs"
                )
            continue
        repeated = 0
        english.add(pair.english)
        german.add(pair.german)
        pairs.append(pair)
    return pairs


def splits(*, seed=1, num_train=20000, num_dev=1000, num_test=1000):
    """Train, dev and test; dev and test stay the same whatever the size of train."""
    pairs = generate(seed=seed, num_pairs=num_train + num_dev + num_test)
    held_out = num_dev + num_test
    return Splits(pairs[held_out:], pairs[:num_dev], pairs[num_dev:held_out])


def _contents(seed, num_train, num_dev, num_test):
    """The text of every file by name."""
    made = splits(seed=seed, num_train=num_train, num_dev=num_dev, num_test=num_test)
    files = {}
    for name, pairs in made._asdict().items():
        files[f"{name}.en"] = "".join(f"{pair.english}\n" for pair in pairs)
        files[f"{name}.de"] = "".join(f"{pair.german}\n" for pair in pairs)
        files[f"{name}.register"] = "".join(f"{pair.register}\n" for pair in pairs)
    return files


def _digest(data):
    return hashlib.sha256(data).hexdigest()


def _replace_file(path, data):
    """Write a file so that a reader sees the old or the new one, never half of it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _is_current(folder, wanted):
    """Whether the folder holds exactly what its stamp says, and that is what we want."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        return stamp["made_from"] == wanted and all(
            _digest((folder / name).read_bytes()) == digest
            for name, digest in stamp["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def write(folder, *, seed=1, num_pairs=20000, num_dev=1000, num_test=1000):
    """Write the corpus into `folder` unless it is there already.

    Args:
      folder: where train, dev and test go, each as .en, .de and .register (one label a line).
      seed: a whole number; another seed gives another corpus.
      num_pairs: pairs to train on.
      num_dev: pairs for validation.
      num_test: pairs for the final test.

    Returns:
      The three prefixes by name: {"train": ".../train", "dev": ..., "test": ...}.
    """
    folder = Path(folder)
    sizes = {"train": num_pairs, "dev": num_dev, "test": num_test}
    # The first pairs stand for the grammar: when it changes, old files are made anew.
    sample = "".join(map(str, generate(seed=seed, num_pairs=200)))
    wanted = {"seed": seed, "sizes": sizes, "grammar": _digest(sample.encode())}
    if not _is_current(folder, wanted):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / STAMP).unlink(missing_ok=True)
        files = {
            name: text.encode()
            for name, text in _contents(seed, num_pairs, num_dev, num_test).items()
        }
        for name, data in files.items():
            _replace_file(folder / name, data)
        digests = {name: _digest(data) for name, data in files.items()}
        stamp = json.dumps({"made_from": wanted, "files": digests}, indent=2)
        _replace_file(folder / STAMP, f"{stamp}\n".encode())
    return {name: str(folder / name) for name in sizes}
