"""Requests that no server should answer with anything but 4xx, drawn from a seed."""

import dataclasses
import gzip
import json
import random

MODEL = "/v1/models/aevnmt"
PREDICT = f"{MODEL}:predict"
MOST_BYTES, MOST_LINES, MOST_LINE_BYTES = 20_000, 16, 1000

GOOD = [
    {"instances": ["a red house", "b"]},
    {"inputs": {"source": ["a tree"]}},
    {"signature_name": "sample", "instances": [{"source": "a", "seed": 1}]},
    {"signature_name": "double", "inputs": [[1.0, 2.0, 3.0]]},
]
NOT_TEXT = [None, True, False, 0, -1, 1.5, 10**400, [], [[]], ["a"], {}, {"a": "b"}, {"b64": 1}]
NOT_INTEGERS = [None, True, "1", 1.0, 2**31, -(2**31) - 1, [], [1], {}, float("nan"), "", [[1]]]
NOT_OBJECTS = [None, True, 1, "instances", [], ["a"], [{"instances": ["a"]}], 1.5]


@dataclasses.dataclass
class Malformed:
    """A request and the codes that are right for it."""

    content: bytes = b""
    codes: tuple = (400,)
    method: str = "POST"
    path: str = PREDICT
    headers: dict = dataclasses.field(default_factory=dict)


def requests(number, seed=1):
    """Yield so many malformed requests, of all kinds."""
    dice = random.Random(seed)
    for count in range(number):
        kind = KINDS[count % len(KINDS)]
        made = kind(dice)
        if not isinstance(made, Malformed):
            content = made if isinstance(made, bytes) else json.dumps(made).encode()
            made = Malformed(content)
        yield made


def good_body(dice):
    return json.dumps(dice.choice(GOOD)).encode()


def noise(dice):
    return b"\xff" + dice.randbytes(dice.randint(0, 300))


def words(dice):
    return ("x" + "".join(dice.choices('{}[]":,0123456789eE+-. \n\\abtrue', k=40))).encode()


def cut_short(dice):
    body = good_body(dice)
    return body[: dice.randrange(len(body))]


def with_more(dice):
    return good_body(dice) + dice.choice([b"}", b"]", b",", b"{}", b" x", b"\0"])


def bad_utf8(dice):
    body = good_body(dice)
    place = body.index(b'": ') - 1
    return body[:place] + dice.choice([b"\xff", b"\xc3\x28", b"\xed\xa0\x80"]) + body[place:]


def other_encoding(dice):
    return good_body(dice).decode().encode(dice.choice(["utf-16", "utf-32", "utf-16-le"]))


def deep(dice):
    depth = dice.choice([40, 400, 5000])
    inner = b"[" * depth + b"1" + b"]" * depth
    return b'{"%s": %s}' % (dice.choice([b"inputs", b"instances"]), inner)


def long_number(dice):
    return b'{"instances": [' + b"9" * dice.randint(4400, 9000) + b"]}"


def no_object(dice):
    return dice.choice(NOT_OBJECTS)


def no_text(dice):
    rows = ["a", "b"]
    rows.insert(dice.randint(0, 2), dice.choice(NOT_TEXT))
    if dice.random() < 0.5:
        return {"inputs": {"source": rows}}
    return {"instances": rows}


def no_integer(dice):
    value = dice.choice(NOT_INTEGERS)
    if dice.random() < 0.5:
        inputs = {"source": ["a"], "seed": [value]}
        return {"signature_name": "sample", "inputs": inputs}
    return {"signature_name": "sample", "instances": [{"source": "a", "seed": value}]}


def bad_rows(dice):
    bad = [None, "a", 1, [], [1, 2], [1, 2, 3, 4], [1, 2, "3"], [1, 2, None], [[1], 2, 3]]
    rows = [[1, 2, 3], [4, 5, 6]]
    rows.insert(dice.randint(0, 2), dice.choice(bad))
    return {"signature_name": "double", dice.choice(["inputs", "instances"]): rows}


def wrong_rank(dice):
    value = "a"
    for _ in range(dice.randint(2, 30)):
        value = [value]
    return {dice.choice(["inputs", "instances"]): value}


def scalar(dice):
    return {"inputs": dice.choice(["a", {"source": "a"}, {"b64": "YQ=="}, 1, None])}


def nothing_in_it(dice):
    return dice.choice(
        [
            {"instances": []},
            {"inputs": []},
            {"inputs": {}},
            {"inputs": {"source": []}},
            {},
            {"signature_name": "serving_default"},
            {"instances": ["a"], "inputs": ["a"]},
            {"instance": ["a"]},
            {"instances": {}},
            {"instances": None},
        ]
    )


def wrong_names(dice):
    return dice.choice(
        [
            {"instances": [{"sauce": "a"}]},
            {"instances": [{"source": "a", "seed": 1}]},
            {"inputs": {"sauce": ["a"]}},
            {"signature_name": "sample", "instances": ["a"]},
            {"signature_name": "sample", "inputs": ["a"]},
            {"signature_name": "sample", "inputs": {"source": ["a"]}},
            {"signature_name": "sample", "inputs": {"source": ["a"], "seed": [1, 2]}},
            {"instances": ["a", {"source": "a"}]},
            {"instances": [{"source": "a"}, "a"]},
        ]
    )


def wrong_signature(dice):
    name = dice.choice([1, None, [], {}, True, "x" * 2000, "\ud800", "\0", "Serving_Default"])
    return {"signature_name": name, "instances": ["a"]}


def bad_base64(dice):
    return {"instances": [{"b64": dice.choice(["?", "YQ===Y", "Ä", "\ud800", "YQ=Q"])}]}


def half_a_surrogate(dice):
    return b'{"instances": ["\\ud8%02x"]}' % dice.randrange(256)


def too_many(dice):
    rows = ["a"] * dice.randint(MOST_LINES + 1, 1000)
    return {dice.choice(["inputs", "instances"]): rows}


def too_long(dice):
    line = "a" * dice.randint(MOST_LINE_BYTES + 1, 5 * MOST_LINE_BYTES)
    return {dice.choice(["inputs", "instances"]): ["a", line]}


def too_large(dice):
    size = dice.choice([MOST_BYTES + 1, 2 * MOST_BYTES, 20 * MOST_BYTES])
    return Malformed(b" " * size, codes=(413,))


def too_large_unpacked(dice):
    content = gzip.compress(b" " * dice.randint(MOST_BYTES + 1, 10 * MOST_BYTES), mtime=0)
    return Malformed(content, codes=(413,), headers={"content-encoding": "gzip"})


def badly_packed(dice):
    packed = gzip.compress(good_body(dice), mtime=0)
    if dice.random() < 0.3:
        return Malformed(packed, codes=(415,), headers={"content-encoding": "zstd"})
    content = packed[: dice.randrange(len(packed))]
    return Malformed(content, headers={"content-encoding": "gzip"})


def not_there(dice):
    path = dice.choice(
        [
            "/v1/models/half:predict",
            f"{MODEL}/versions/{dice.randint(2, 2**63 - 1)}:predict",
            f"/v1/models/{'x' * dice.randint(1, 2000)}:predict",
            "/v1/models/..%2f..%2fetc:predict",
            "/v1/models/%ff%fe:predict",
        ]
    )
    return Malformed(good_body(dice), codes=(404,), path=path)


def malformed_path(dice):
    path = dice.choice(
        [
            f"{MODEL}/versions/{2**63 + dice.randrange(2**70)}:predict",
            f"{MODEL}/versions/-1:predict",
            f"{MODEL}/versions/one:predict",
            f"{MODEL}/labels/new:predict",
            f"{MODEL}:predicted",
            f"{MODEL}:classify",
            f"{MODEL}:regress",
            f"{MODEL}/:predict",
            "/v1/models/:predict",
            "/v1/",
            f"{MODEL}/metadata",
            f"{PREDICT}/",
        ]
    )
    return Malformed(good_body(dice), path=path)


def wrong_method(dice):
    method = dice.choice(["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
    return Malformed(good_body(dice), method=method)


def elsewhere(dice):
    path = dice.choice(
        ["/v2/models", "/favicon", "/page/none", "/page/%00", "/x/..%2f", "/healthz/x"]
    )
    return Malformed(codes=(404,), method="GET", path=path)


KINDS = [
    noise,
    words,
    cut_short,
    with_more,
    bad_utf8,
    other_encoding,
    deep,
    long_number,
    no_object,
    no_text,
    no_integer,
    bad_rows,
    wrong_rank,
    scalar,
    nothing_in_it,
    wrong_names,
    wrong_signature,
    bad_base64,
    half_a_surrogate,
    too_many,
    too_long,
    too_large,
    too_large_unpacked,
    badly_packed,
    not_there,
    malformed_path,
    wrong_method,
    elsewhere,
]
