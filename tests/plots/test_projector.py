"""The projector's files are what TensorBoard reads."""

from google.protobuf import text_format
from tensorboard.plugins.projector import projector_config_pb2

from aevnmt_tf.plots import projector


def test_files(tmp_path):
    folder = projector.write(
        tmp_path / "logs",
        vectors=[[0.5, -1.0], [2.0, 3.25]],
        metadata={"corpus": [0, 1], "length": [3, 9], "text": ["a\tb\nc", ""]},
    )
    config = projector_config_pb2.ProjectorConfig()
    text_format.Parse((folder / "projector_config.pbtxt").read_text(), config)
    (embedding,) = config.embeddings
    vectors = (folder / embedding.tensor_path).read_text().splitlines()
    assert [[float(v) for v in line.split("\t")] for line in vectors] == [
        [0.5, -1.0],
        [2.0, 3.25],
    ]
    assert (folder / embedding.metadata_path).read_text().splitlines() == [
        "corpus\tlength\ttext",
        "0\t3\ta b c",
        "1\t9\t-",
    ]


def test_a_single_column_has_no_header(tmp_path):
    folder = projector.write(tmp_path, vectors=[[1.0]], metadata={"text": ["a"]})
    assert (folder / "z_metadata.tsv").read_text() == "a\n"
