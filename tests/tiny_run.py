"""A parallel corpus and settings small enough to train in a second."""

import json
import random
from pathlib import Path

WORDS = {
    "one": "eins",
    "two": "zwei",
    "three": "drei",
    "four": "vier",
    "five": "fünf",
    "red": "rot",
    "blue": "blau",
    "house": "haus",
    "tree": "baum",
    "and": "und",
}


def write_corpus(folder, *, train=40, dev=6, seed=1):
    """Write train and dev files that translate word by word; return the prefixes."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(seed)
    for name, size in (("train", train), ("dev", dev)):
        sources = [dice.choices(list(WORDS), k=dice.randint(2, 6)) for _ in range(size)]
        for lang, lines in (
            ("en", sources),
            ("de", [[WORDS[word] for word in line] for line in sources]),
        ):
            text = "".join(" ".join(line) + "\n" for line in lines)
            (folder / f"{name}.{lang}").write_text(text, encoding="utf-8")
    return {name: str(folder / name) for name in ("train", "dev")}


def write_settings(folder, **changes):
    """Write a corpus and a settings file that trains on it; return the file's path."""
    folder = Path(folder)
    prefixes = write_corpus(folder / "corpus")
    settings = {
        "src": "en",
        "tgt": "de",
        "train_prefix": prefixes["train"],
        "dev_prefix": prefixes["dev"],
        "subword_option": "",
        "num_units": 8,
        "z_dim": 4,
        "dropout": 0.2,
        "word_dropout": 0.1,
        "KL_annealing_steps": 10,
        "learning_rate": 0.01,
        "batch_size": 4,
        "num_buckets": 2,
        "num_train_steps": 20,
        "check_convergence_every": 0,
        "steps_per_stats": 5,
        "steps_per_external_eval": 10,
        "steps_per_checkpoint": 10,
        "beam_width": 2,
        "iw_samples": 2,
        "out_dir": str(folder / "run"),
    }
    path = folder / "settings.json"
    path.write_text(json.dumps({**settings, **changes}))
    return path


def read_metrics(out_dir):
    """Return the lines of metrics.jsonl without the measured speed."""
    text = (Path(out_dir) / "metrics.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    return [
        {key: value for key, value in line.items() if key != "pairs_per_second"}
        for line in lines
    ]
