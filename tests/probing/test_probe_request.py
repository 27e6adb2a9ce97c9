"""What is asked of a probe: the defaults are those of the command."""

import pytest

from aevnmt_tf import probe
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.probing.probe_request import ProbeRequest


def test_the_command_has_the_defaults_of_the_request():
    args = probe.parser().parse_args(["--model", "run", "--data", "dev"])
    request = ProbeRequest("run", ["dev"])
    assert probe.request(args) == request
    assert request.max_lines == 2000


@pytest.mark.parametrize(
    "options, named",
    [
        ({"labels": ["a"], "target": "length"}, "--labels"),
        ({"labels": ["a", "b"]}, "--labels"),
        ({"target": "no-such-file"}, "no-such-file"),
        ({"quality_of": "translations"}, "--quality_of"),
        ({"target": "chrf", "java": "java"}, "--java"),
        ({"plot": "z.txt"}, "z.txt"),
        ({"plot": "no/such/folder/z.png"}, "no/such/folder for --plot"),
        ({"held_out": 1.0}, "held_out"),
        ({"chains": 1}, "chains"),
        ({"projector": "no/such/folder"}, "--projector"),
    ],
)
def test_what_cannot_be_is_refused(options, named):
    with pytest.raises(UserError, match=named):
        ProbeRequest("run", ["dev"], **options)
