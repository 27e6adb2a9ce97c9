"""Public German-English corpora: where their files are, and how to read and split them."""

import functools
import gzip
import math
import pathlib
import re
import sys
import tarfile
import urllib.parse
import xml.sax.saxutils
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.progress import track

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data.downloads import File, console, fetch, matches, wrong
from aevnmt_tf.storage import atomic_writes

LANGUAGES = ("de", "en")
SPLITS = ("train", "dev", "test")
MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
WMT17 = "https://data.statmt.org/wmt17/translation-task/"

MAX_TOKENS = 50  # the paper removes longer sentences

Pairs = list[tuple[str, str]]  # German, English
Text = Callable[..., str]  # read_text for given paths


class PublishedCorpus(NamedTuple):
    """A corpus: the files of each split, a function that reads a split, and published sizes.

    `kept` is the number of training pairs of at most MAX_TOKENS tokens, if the paper counts
    only these.
    """

    files: dict[str, tuple[File, ...]]
    read: Callable[[str, Text], Pairs]
    sizes: dict[str, int]
    kept: int | None = None


def read_text(paths: Mapping[str, pathlib.Path], name: str, member: str | None = None) -> str:
    """Return the text of a .gz file, or of one member of a .tgz archive."""
    path = paths[name]
    try:
        if member is None:
            data = gzip.decompress(path.read_bytes())
        else:
            with tarfile.open(path) as archive:
                data = archive.extractfile(member).read()  # type: ignore[union-attr]
        return data.decode("utf-8")
    except (KeyError, AttributeError):
        raise UserError(f"{path} is not the expected archive: it has no {member}.") from None
    except (OSError, EOFError, tarfile.TarError, UnicodeDecodeError) as error:
        raise UserError(
            f"cannot read {path} ({error}): delete it and run the command again."
        ) from None


def lines(text: str) -> list[str]:
    """Split a text at line feeds; other separators of Unicode occur inside sentences."""
    text = text.removesuffix("\n")
    return [line.removesuffix("\r").replace("\r", " ") for line in text.split("\n")]


def segments(text: str) -> list[str]:
    """Return the sentences of WMT's .sgm and IWSLT's .xml, which are not valid XML."""
    found = re.findall(r"<seg\b[^>]*>(.*?)</seg>", text, flags=re.DOTALL | re.IGNORECASE)
    quotes = {"&quot;": '"', "&apos;": "'"}
    return [xml.sax.saxutils.unescape(" ".join(segment.split()), quotes) for segment in found]


def talk_lines(text: str) -> list[str]:
    """Return the sentences of IWSLT's training files, including titles and descriptions."""
    kept = []
    for line in lines(text):
        line = re.sub(r"</?(title|description)>", "", line).strip()
        if not re.match(r"</?(url|talkid|keywords|speaker|reviewer|translator|doc)\b", line):
            kept.append(line)
    return kept


def align(german: list[str], english: list[str], *, what: str) -> Pairs:
    """Return pairs of lines; raise an error if the sides differ in length."""
    if len(german) != len(english):
        raise UserError(
            f"{what} has {len(german)} German and {len(english)} English lines: "
            "delete the download and run the command again."
        )
    return list(zip(german, english, strict=True))


def read_multi30k(split: str, text: Text) -> Pairs:
    """Return one split of Multi30k."""
    name = {"train": "train", "dev": "val", "test": "test_2016_flickr"}[split]
    return align(*(lines(text(f"{name}.{lang}.gz")) for lang in LANGUAGES), what=name)


def moses_keeps(pairs: Pairs, *, ratio: float = math.inf) -> Iterator[bool]:
    """Yield whether each pair passes Moses' clean-corpus-n.perl -ratio RATIO ... 1 50."""
    import sacremoses  # slow to import

    german, english = (sacremoses.MosesTokenizer(lang=lang) for lang in LANGUAGES)
    hidden = not console.is_terminal
    for de, en in track(pairs, "counting tokens", console=console, disable=hidden):
        lengths = len(german.tokenize(de)), len(english.tokenize(en))
        shorter, longer = sorted(lengths)
        yield 1 <= shorter and longer <= MAX_TOKENS and longer <= ratio * shorter


def read_iwslt14(split: str, text: Text) -> Pairs:
    """Return one split of IWSLT14."""
    if split == "test":
        sets = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
        pairs = []
        for name in sets:
            members = [f"de-en/IWSLT14.{name}.de-en.{lang}.xml" for lang in LANGUAGES]
            texts = [segments(text("de-en.tgz", member)) for member in members]
            pairs += align(*texts, what=name)
        # The training text has straight apostrophes.
        return [(de.replace("’", "'"), en.replace("’", "'")) for de, en in pairs]
    kept = clean_talks(text)
    return [pair for n, pair in enumerate(kept, 1) if (n % 23 == 0) == (split == "dev")]


@functools.lru_cache(maxsize=1)  # for both train and dev
def clean_talks(text: Text) -> Pairs:
    """Return the training pairs of IWSLT14 that Moses' cleaning keeps."""
    members = [f"de-en/train.tags.de-en.{lang}" for lang in LANGUAGES]
    texts = [talk_lines(text("de-en.tgz", member)) for member in members]
    pairs = align(*texts, what="train.tags.de-en")
    return [
        pair for pair, keep in zip(pairs, moses_keeps(pairs, ratio=1.5), strict=True) if keep
    ]


def read_nc(split: str, text: Text) -> Pairs:
    """Return one split of News Commentary, or WMT's newstest sets."""
    if split == "train":
        members = [f"training/news-commentary-v12.de-en.{lang}" for lang in LANGUAGES]
        texts = [lines(text("training-parallel-nc-v12.tgz", m)) for m in members]
        return align(*texts, what="news-commentary-v12")
    pairs = []
    for year in {"dev": (2014, 2015), "test": (2016,)}[split]:
        members = [f"dev/newstest{year}-deen-{side}.sgm" for side in ("src.de", "ref.en")]
        texts = [segments(text("dev.tgz", member)) for member in members]
        pairs += align(*texts, what=f"newstest{year}")
    return pairs


def _multi30k(name: str, german: str, english: str) -> tuple[File, ...]:
    checksums = zip(LANGUAGES, (german, english), strict=True)
    return tuple(File(f"{name}.{lang}.gz", MULTI30K, checksum) for lang, checksum in checksums)


_TALKS = File(
    "de-en.tgz",
    "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/",
    "md5:10936dfdf616504ddbd844e91b94ef4a",  # from a single public script
)
_COMMENTARY = File(
    "training-parallel-nc-v12.tgz",
    WMT17,  # the checksum is that of TensorFlow Datasets
    "sha256:2b45f30ef1d550d302fd17dd3a5cbe19134ccc4c2cf50c2dae534aee600101a2",
)
_NEWSTESTS = File(
    "dev.tgz", WMT17, "md5:9b1aa63c1cf49dccdd20b962fe313989"
)  # the checksum is sacreBLEU's

CORPORA = {
    "multi30k": PublishedCorpus(
        files={
            # Computed from the files, whose MD5 sums equal those of torchtext.
            "train": _multi30k(
                "train",
                "sha256:726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
                "sha256:d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
            ),
            "dev": _multi30k(
                "val",
                "sha256:f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
                "sha256:14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
            ),
            # From torchtext.
            "test": _multi30k(
                "test_2016_flickr",
                "md5:efd67d314d98489b716b145475101932",
                "md5:ff2c0fcb4893a13bd73414306bc250ae",
            ),
        },
        read=read_multi30k,
        sizes={"train": 29_000, "dev": 1_014, "test": 1_000},
    ),
    "iwslt14": PublishedCorpus(
        files={split: (_TALKS,) for split in SPLITS},
        read=read_iwslt14,
        sizes={"train": 153_326, "dev": 6_969, "test": 6_750},
    ),
    "nc": PublishedCorpus(
        files={"train": (_COMMENTARY,), "dev": (_NEWSTESTS,), "test": (_NEWSTESTS,)},
        read=read_nc,
        sizes={"dev": 5_172, "test": 2_999},
        kept=255_591,
    ),
}
ALIASES = {"news-commentary": "nc"}


def write(pairs: Pairs, *, folder: pathlib.Path, split: str) -> None:
    """Write both sides of a split."""
    for lang, side in zip(LANGUAGES, zip(*pairs, strict=True), strict=True):
        atomic_writes.write(folder / f"{split}.{lang}", "".join(f"{line}\n" for line in side))


def compare(found: int, published: int | None, *, what: str) -> None:
    """Warn if the number of pairs differs from the published one."""
    if published is not None and found != published:
        off = f"{found - published:+,}, {100 * (found - published) / published:+.2f} %"
        message = f"{what} {found:,} pairs instead of the published {published:,} ({off})."
        print(f"aevnmt data: warning: {message}", file=sys.stderr)


def make(
    name: str,
    out: pathlib.Path,
    *,
    source: pathlib.Path | None = None,
    mirror: str | None = None,
    splits: Sequence[str] = SPLITS,
    checked: bool = True,
) -> None:
    """Write the splits of a corpus whose files are available; report missing files.

    Args:
        name: A key of CORPORA or ALIASES.
        out: The folder for the text.
        source: A folder with the published files; None downloads them.
        mirror: The address of a folder with the published files; None: the original one.
        splits: The splits to write.
        checked: Whether to verify checksums.
    """
    corpus = CORPORA[ALIASES.get(name, name)]
    if mirror and urllib.parse.urlparse(mirror).scheme not in ("http", "https"):
        raise UserError(f"--mirror {mirror} must start with https:// or http://.")
    if source and not source.is_dir():
        raise UserError(f"--from {source} is not a folder.")
    out.mkdir(parents=True, exist_ok=True)
    paths: dict[str, pathlib.Path] = {}
    missing: list[str] = []
    for file in dict.fromkeys(f for split in splits for f in corpus.files[split]):
        if not source:
            folder = out / "downloads"
            paths[file.name] = fetch(file, folder=folder, mirror=mirror, checked=checked)
        elif not (source / file.name).is_file():
            missing.append(file.name)
        elif not checked or matches(source / file.name, file.checksum):
            paths[file.name] = source / file.name
        else:
            raise wrong(source / file.name, file)
    text = functools.partial(read_text, paths)
    for split in dict.fromkeys(splits):
        if any(file.name in missing for file in corpus.files[split]):
            continue
        pairs = corpus.read(split, text)
        write(pairs, folder=out, split=split)
        print(f"{out / split}.{{de,en}}: {len(pairs):,} pairs")
        compare(len(pairs), corpus.sizes.get(split), what=f"{split} has")
        if split == "train" and corpus.kept is not None:
            # DEVIATION: the paper does not say how it counts; prepare drops the long ones.
            kept = sum(moses_keeps(pairs))
            print(f"{split}: {kept:,} pairs of 1 to {MAX_TOKENS} tokens, which prepare keeps")
            compare(kept, corpus.kept, what=f"prepare will keep of {split}")
    if missing:
        raise UserError(
            f"{source} lacks {', '.join(missing)}: add them, or download without --from."
        )
