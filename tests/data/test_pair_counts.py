"""How many pairs were read, dropped and kept."""

from aevnmt_tf.data.pair_counts import CorpusCounts, Counts, counts_table


def test_counts_as_table_and_json():
    counts = Counts(
        [CorpusCounts("news", 12345, 1, 2, 3, 12339), CorpusCounts("a", 1, 0, 0, 0, 1)]
    )
    lines = counts.table().splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["news", "12,345", "1", "2", "3", "12,339"],
        ["a", "1", "0", "0", "0", "1"],
    ]
    assert len({len(line) for line in lines}) == 1
    assert counts.to_dict()["corpora"][0]["target_too_long"] == 3


def test_corpora_may_have_faults_of_their_own():
    table = counts_table(
        {"train": {"read": 3, "empty": 1, "kept": 2}, "b": {"read": 1, "kept": 1}}
    )
    assert [line.split() for line in table.splitlines()] == [
        ["corpus", "read", "empty", "kept"],
        ["train", "3", "1", "2"],
        ["b", "1", "1"],
    ]


def test_a_corpus_that_loses_most_of_its_pairs_is_worth_a_warning():
    counts = [
        CorpusCounts("bad", 3000, 1, 2, 2988, 9),
        CorpusCounts("good", 10, 0, 4, 1, 5),
        CorpusCounts("none", 0, 0, 0, 0, 0),
    ]
    warnings = [line for line in Counts(counts).table().splitlines() if "Warning" in line]
    assert len(warnings) == 1
    for part in ("bad", "2,991 of 3,000", "2,988", "tgt_max_len"):
        assert part in warnings[0]
    cleaned = {"train": {"read": 10, "empty_source": 0, "over_50_words": 9, "kept": 1}}
    assert "Warning: train: 9 of 10" in counts_table(cleaned)
