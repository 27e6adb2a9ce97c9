"""`aevnmt data` against a local server, with small files in the published formats."""

import gzip
import hashlib
import http.server
import io
import pathlib
import subprocess
import sys
import tarfile
import threading

import pytest

from aevnmt_tf import get_data as verb
from aevnmt_tf.data import downloads, published_corpora

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture
def get_data(monkeypatch):
    """The verb, which does not wait between its attempts."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(downloads, "WAITS", (0, 0))
    return verb


class Server:
    """Serves `files` with Range, and breaks in the ways that `faults` lists, one a request."""

    def __init__(self):
        self.files = {}
        self.faults = []
        self.requests = []  # (name, Range)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                name = self.path.rsplit("/", 1)[-1]
                outer.requests.append((name, self.headers.get("Range")))
                fault = outer.faults.pop(0) if outer.faults else None
                if name not in outer.files or isinstance(fault, int):
                    self.send_error(fault or 404)
                    return
                data, start = outer.files[name], 0
                if self.headers.get("Range") and fault != "no ranges":
                    start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
                    if start >= len(data):
                        self.send_response(416)
                        self.send_header("Content-Range", f"bytes */{len(data)}")
                        self.end_headers()
                        return
                    self.send_response(206)
                    self.send_header(
                        "Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}"
                    )
                else:
                    self.send_response(200)
                body = data[start:]
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/some/folder"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def server():
    result = Server()
    yield result
    result.server.shutdown()
    result.server.server_close()


def archive(**members):
    """A .tgz; `__` in a name stands for /."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in members.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def publish(get_data, monkeypatch, name, published):
    """Makes `published` the files of a corpus, their checksums included."""
    corpus = published_corpora.CORPORA[name]
    files = {
        split: tuple(
            file._replace(checksum="sha256:" + hashlib.sha256(published[file.name]).hexdigest())
            for file in needed
        )
        for split, needed in corpus.files.items()
    }
    monkeypatch.setitem(published_corpora.CORPORA, name, corpus._replace(files=files, sizes={}))


CAPTIONS = {
    "train.de": "Zwei Hunde.\nEin\u2028Mann \n",
    "train.en": "Two dogs.\nA man\n",
    "val.de": "Drei.\n",
    "val.en": "Three.\n",
    "test_2016_flickr.de": "Vier.\n",
    "test_2016_flickr.en": "Four.\n",
}


@pytest.fixture
def captions(get_data, monkeypatch, server):
    """A small Multi30k on the server."""
    server.files = {f"{name}.gz": gzip.compress(t.encode()) for name, t in CAPTIONS.items()}
    publish(get_data, monkeypatch, "multi30k", server.files)
    return server.files


def read(folder):
    return {
        path.name: path.read_text("utf-8")
        for path in sorted(folder.iterdir())
        if path.is_file()
    }


EXPECTED = {
    "train.de": CAPTIONS["train.de"],
    "train.en": CAPTIONS["train.en"],
    "dev.de": "Drei.\n",
    "dev.en": "Three.\n",
    "test.de": "Vier.\n",
    "test.en": "Four.\n",
}


def test_multi30k_is_downloaded_once(get_data, captions, server, tmp_path, capsys):
    arguments = ["multi30k", "--out", str(tmp_path / "out"), "--mirror", server.url]
    assert get_data.main(arguments) == 0
    assert read(tmp_path / "out") == EXPECTED
    assert "train.{de,en}: 2 pairs" in capsys.readouterr().out
    assert len(server.requests) == 6
    assert get_data.main(arguments) == 0
    assert len(server.requests) == 6


def test_a_broken_transfer_goes_on_where_it_stopped(get_data, captions, server, tmp_path):
    server.faults = ["cut", "cut", 503]
    assert get_data.main(["multi30k", "--out", str(tmp_path), "--mirror", server.url]) == 0
    assert read(tmp_path) == EXPECTED
    size = len(captions["train.de.gz"])
    first = size // 2
    second = first + (size - first) // 2
    assert server.requests[:4] == [
        ("train.de.gz", None),
        ("train.de.gz", f"bytes={first}-"),
        ("train.de.gz", f"bytes={second}-"),
        ("train.de.gz", f"bytes={second}-"),
    ]


def test_the_next_call_goes_on_too(get_data, captions, server, tmp_path, capsys):
    arguments = ["multi30k", "--out", str(tmp_path), "--mirror", server.url]
    server.faults = ["cut", 500, 500, 500]
    assert get_data.main(arguments) == 2
    error = capsys.readouterr().err
    assert "train.de.gz" in error and error.count("\n") == 1
    assert (tmp_path / "downloads" / "train.de.gz.part").exists()
    assert get_data.main(arguments) == 0
    assert server.requests[4] == ("train.de.gz", f"bytes={len(captions['train.de.gz']) // 2}-")
    assert read(tmp_path) == EXPECTED


def test_a_server_without_ranges_sends_all_of_it(get_data, captions, server, tmp_path):
    server.faults = ["cut", "no ranges"]
    assert get_data.main(["multi30k", "--out", str(tmp_path), "--mirror", server.url]) == 0
    assert read(tmp_path) == EXPECTED


@pytest.mark.parametrize("left", ["all of it", "too much", "another file"])
def test_whatever_part_is_left(get_data, captions, server, tmp_path, left):
    data = captions["train.de.gz"]
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    part = {"all of it": data, "too much": data + b"x", "another file": b"old"}[left]
    (downloads / "train.de.gz.part").write_bytes(part)
    assert get_data.main(["multi30k", "--out", str(tmp_path), "--mirror", server.url]) == 0
    assert read(tmp_path) == EXPECTED


def test_a_wrong_checksum_is_refused(get_data, captions, server, tmp_path, capsys):
    arguments = ["multi30k", "--out", str(tmp_path), "--mirror", server.url]
    server.files = {**captions, "val.de.gz": gzip.compress(b"Fremdes.\n")}
    assert get_data.main(arguments) == 2
    error = capsys.readouterr().err
    assert "val.de.gz does not have the checksum sha256:" in error and error.count("\n") == 1
    assert not (tmp_path / "dev.de").exists()
    assert not list((tmp_path / "downloads").glob("val.de*"))
    assert get_data.main([*arguments, "--unchecked"]) == 0
    assert read(tmp_path)["dev.de"] == "Fremdes.\n"


def test_a_damaged_download_is_fetched_again(get_data, captions, server, tmp_path):
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    (downloads / "train.de.gz").write_bytes(b"damaged")
    assert get_data.main(["multi30k", "--out", str(tmp_path), "--mirror", server.url]) == 0
    assert read(tmp_path) == EXPECTED


def test_a_missing_file_is_named_at_once(get_data, captions, server, tmp_path, capsys):
    server.files = {name: data for name, data in captions.items() if name != "val.en.gz"}
    assert get_data.main(["multi30k", "--out", str(tmp_path), "--mirror", server.url]) == 2
    error = capsys.readouterr().err
    assert f"{server.url}/val.en.gz: the server answered 404 Not Found" in error
    assert error.count("\n") == 1
    assert [name for name, _ in server.requests].count("val.en.gz") == 1


def test_no_network(get_data, tmp_path, capsys):
    arguments = ["multi30k", "--out", str(tmp_path), "--mirror", "http://127.0.0.1:9"]
    assert get_data.main(arguments) == 2
    error = capsys.readouterr().err
    assert "127.0.0.1:9" in error and "online" in error and error.count("\n") == 1


def test_files_at_hand_need_no_network(get_data, captions, tmp_path, capsys):
    source = tmp_path / "source"
    source.mkdir()
    for name, data in captions.items():
        (source / name).write_bytes(data)
    arguments = ["multi30k", "--out", str(tmp_path / "out"), "--from", str(source)]
    assert get_data.main(arguments) == 0
    assert read(tmp_path / "out") == EXPECTED
    (source / "val.en.gz").write_bytes(b"damaged")
    assert get_data.main(arguments) == 2
    assert f"{source / 'val.en.gz'} does not have the checksum" in capsys.readouterr().err


def test_files_that_are_not_at_hand_are_named(get_data, captions, tmp_path, capsys):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("train.de.gz", "train.en.gz"):
        (source / name).write_bytes(captions[name])
    arguments = ["multi30k", "--out", str(tmp_path / "out"), "--from", str(source)]
    arguments += ["--splits", "train", "dev"]
    assert get_data.main(arguments) == 2
    error = capsys.readouterr().err
    assert f"{source} lacks val.de.gz, val.en.gz" in error and error.count("\n") == 1
    assert set(read(tmp_path / "out")) == {"train.de", "train.en"}  # what could be made
    assert get_data.main(arguments[:-1]) == 0


def test_sides_of_different_length_are_refused(get_data, monkeypatch, tmp_path, capsys, server):
    texts = {**CAPTIONS, "val.en": "Three.\nToo many.\n"}
    server.files = {f"{name}.gz": gzip.compress(text.encode()) for name, text in texts.items()}
    publish(get_data, monkeypatch, "multi30k", server.files)
    assert get_data.main(["multi30k", "--out", str(tmp_path), "--mirror", server.url]) == 2
    assert "val has 1 German and 2 English lines" in capsys.readouterr().err


def test_an_unexpected_size_is_said(get_data, captions, monkeypatch, server, tmp_path, capsys):
    corpus = published_corpora.CORPORA["multi30k"]._replace(sizes={"dev": 7})
    monkeypatch.setitem(published_corpora.CORPORA, "multi30k", corpus)
    assert get_data.main(["multi30k", "--out", str(tmp_path), "--mirror", server.url]) == 0
    said = capsys.readouterr().err
    assert said.startswith("aevnmt data: warning: dev has 1 pairs") and said.count("\n") == 1
    assert "7 (-6, -85.71 %)" in said


def talks():
    """IWSLT14's archive in small: 60 sentences, of which some are dropped by the cleaning."""
    texts = {}
    for lang in ("de", "en"):
        word = {"de": "Wort", "en": "word"}[lang]
        head = "<url>http://x</url>\n<keywords>a, b</keywords>\n<talkid>1</talkid>\n"
        head += f"<title>Title {lang}</title>\n<description>About {lang}</description>\n"
        body = [f"{word} {n}." for n in range(60)]
        body[3] = " ".join([word] * 51)  # too long
        body[5] = "" if lang == "de" else "word"  # empty on one side
        body[7] = " ".join([word] * (2 if lang == "de" else 4))  # too unequal
        body[9] = " ".join([word] * (2 if lang == "de" else 3))  # just equal enough
        texts[f"de-en__train.tags.de-en.{lang}"] = head + "\n".join(body) + "\n"
        for name in (
            "TED.dev2010",
            "TEDX.dev2012",
            "TED.tst2010",
            "TED.tst2011",
            "TED.tst2012",
        ):
            texts[f"de-en__IWSLT14.{name}.de-en.{lang}.xml"] = (
                f'<?xml version="1.0"?>\n<doc docid="1">\n<title>No {lang}</title>\n'
                f'<seg id="1"> {name} {lang} it’s A &amp; B </seg>\n'
                '<seg id="2">zwei</seg>\n</doc>\n'
            )
    return archive(**texts)


def test_iwslt14_has_the_split_of_ranzato_et_al(get_data, monkeypatch, server, tmp_path):
    server.files = {"de-en.tgz": talks()}
    publish(get_data, monkeypatch, "iwslt14", server.files)
    assert get_data.main(["iwslt14", "--out", str(tmp_path), "--mirror", server.url]) == 0
    assert len(server.requests) == 1
    made = {name: text.splitlines() for name, text in read(tmp_path).items()}
    kept = ["Title en", "About en"]
    kept += [f"word {n}." for n in range(60) if n not in (3, 5, 7, 9)]
    kept.insert(2 + 6, "word word word")  # after 0, 1, 2, 4, 6, 8
    assert made["dev.en"] == [kept[22], kept[45]]
    assert made["train.en"] == [line for n, line in enumerate(kept) if n not in (22, 45)]
    assert len(made["train.de"]) == len(made["train.en"])
    assert made["dev.de"] == [line.replace("word", "Wort") for line in made["dev.en"]]
    assert made["test.en"][:4] == [
        "TED.dev2010 en it's A & B",
        "zwei",
        "TEDX.dev2012 en it's A & B",
        "zwei",
    ]
    assert [line.split()[0] for line in made["test.de"][::2]] == [
        "TED.dev2010",
        "TEDX.dev2012",
        "TED.tst2010",
        "TED.tst2011",
        "TED.tst2012",
    ]


@pytest.mark.parametrize("name", ["nc", "news-commentary"])
def test_news_commentary(get_data, monkeypatch, server, tmp_path, name, capsys):
    tests = {}
    for year in (2013, 2014, 2015, 2016):
        for side in ("src.de", "ref.en"):
            tests[f"dev__newstest{year}-deen-{side}.sgm"] = (
                f'<refset setid="x">\n<doc docid="1">\n<hl>\n<seg id="1">{year} {side}</seg>\n'
                "</hl>\n<p>\n<seg id='2'>A & B  &lt;C&gt;</seg>\n</p>\n</doc>\n</refset>\n"
            )
    commentary = {
        "training__news-commentary-v12.de-en.de": f"Eins\nZwei\rdrei\n\n{'ab,' * 26}\n",
        "training__news-commentary-v12.de-en.en": "One\nTwo\u0085three\nx\ny\n",
    }
    server.files = {
        "training-parallel-nc-v12.tgz": archive(**commentary),
        "dev.tgz": archive(**tests),
    }
    publish(get_data, monkeypatch, "nc", server.files)
    assert get_data.main([name, "--out", str(tmp_path), "--mirror", server.url]) == 0
    assert len(server.requests) == 2
    assert read(tmp_path) == {
        "train.de": f"Eins\nZwei drei\n\n{'ab,' * 26}\n",
        "train.en": "One\nTwo\u0085three\nx\ny\n",
        "dev.de": "2014 src.de\nA & B <C>\n2015 src.de\nA & B <C>\n",
        "dev.en": "2014 ref.en\nA & B <C>\n2015 ref.en\nA & B <C>\n",
        "test.de": "2016 src.de\nA & B <C>\n",
        "test.en": "2016 ref.en\nA & B <C>\n",
    }
    # The paper counts its pairs without the empty ones and those over 50 tokens.
    said = capsys.readouterr()
    assert "train: 2 pairs of 1 to 50 tokens" in said.out
    assert "2 pairs instead of the published 255,591 (-255,589, -100.00 %)" in said.err


def test_an_archive_without_its_members(get_data, monkeypatch, server, tmp_path, capsys):
    server.files = {"de-en.tgz": archive(other="text")}
    publish(get_data, monkeypatch, "iwslt14", server.files)
    assert get_data.main(["iwslt14", "--out", str(tmp_path), "--mirror", server.url]) == 2
    assert "has no de-en/train.tags.de-en.de" in capsys.readouterr().err


def test_the_published_checksums_are_well_formed(get_data):
    lengths = {"md5": 32, "sha256": 64}
    for corpus in published_corpora.CORPORA.values():
        for file in {file for files in corpus.files.values() for file in files}:
            algorithm, digits = file.checksum.split(":")
            assert len(digits) == lengths[algorithm] and int(digits, 16)
            assert file.folder.startswith("https://") and file.folder.endswith("/")


@pytest.mark.parametrize(
    "program", [(ROOT / "tools/get_data.py",), ("-m", "aevnmt_tf", "data")]
)
@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--from", "nowhere"], "aevnmt data: --from nowhere"),
        (["--mirror", "ftp://x"], "aevnmt data: --mirror ftp://x"),
    ],
)
def test_as_a_command(tmp_path, program, arguments, sentence):
    result = subprocess.run(
        [sys.executable, *program, "nc", "--out", tmp_path / "out", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert result.returncode == 2
    assert result.stderr.startswith(sentence) and result.stderr.count("\n") == 1
