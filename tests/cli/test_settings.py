"""One declaration of a setting: its values in words, its check, its flag."""

import argparse

import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.settings import Setting, add_flag

SHARE = Setting("top_p", float, None, "the share", above=0, at_most=1)
LIMIT = Setting("limit", int, 8, "the most", at_least=1)
IS_ON = Setting("is_on", bool, False, "whether 100 % is on")
NAMES = Setting("names", str, ("a",), "the names", many=True)


def parsed(setting, *words, **options):
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_flag(parser, setting, **options)
    return vars(parser.parse_args(words))


def test_values_in_words():
    assert SHARE.describe() == "a number above 0 and of at most 1 or null"
    assert LIMIT.describe() == "a whole number of at least 1"


@pytest.mark.parametrize("value", [0, 1.5, float("nan"), "x", True])
def test_what_is_none_of_its_values_is_refused_by_name(value):
    with pytest.raises(ValueError, match="top_p"):
        SHARE.check(value)
    assert SHARE.check(1) == 1.0 and SHARE.check(None) is None


def test_a_flag_reads_checks_and_names_itself():
    assert parsed(SHARE) == {}
    assert parsed(SHARE, "--top_p", "0.5") == {"top_p": 0.5}
    assert parsed(IS_ON, "--is_on") == {"is_on": True}
    assert parsed(NAMES, "--names", "b,c") == {"names": ("b", "c")}
    assert parsed(LIMIT, "--limit", "3", check=lambda value: value + 1) == {"limit": 4}
    with pytest.raises(UserError, match="--top_p"):
        parsed(SHARE, "--top_p", "2")


def test_none_is_a_value_where_it_is_a_choice():
    tokenize = Setting("tokenize", str, None, "the tokenizer", ("13a", "none"))
    assert parsed(tokenize, "--tokenize", "none") == {"tokenize": "none"}
    assert parsed(tokenize, "--tokenize", "null") == {"tokenize": None}


def test_help_shows_the_default():
    parser = argparse.ArgumentParser()
    for setting in (LIMIT, SHARE, IS_ON, NAMES):
        add_flag(parser, setting)
    shown = " ".join(parser.format_help().split())
    assert "--limit N the most (default: 8)" in shown
    assert "--top_p X the share --is_on" in shown
    assert "whether 100 % is on (default: false)" in shown
    assert "--names TEXT,... the names (default: a)" in shown


def test_a_list_of_choices_looks_like_one_in_the_help():
    parser = argparse.ArgumentParser()
    add_flag(parser, Setting("some", str, ("a",), "some of them", ("a", "b"), many=True))
    add_flag(parser, Setting("files", str, None, "files", many="either", metavar="FILE"))
    shown = " ".join(parser.format_help().split())
    assert "--some {a,b},... some of them (default: a)" in shown
    assert "--files FILE,... files" in shown


def test_limits_are_shown_in_full():
    assert Setting("n", int, 1, "", at_most=2**31 - 1).describe().endswith("at most 2147483647")
