"""A SavedModel with tokenizers works in a process that never saw them."""

import json
import subprocess
import sys

import pytest
import tensorflow as tf

from aevnmt_tf import text

WORDS = ["<unk>", "<s>", "</s>", "der", "bel@@", "lt"]
SOURCES = ["Der Hund liest.", "der bel@@ lt", "", "日本 😀"]

# Only what a server has: TensorFlow and the operations of tensorflow-text.
LOADER = """
import json, sys
import tensorflow as tf
import tensorflow_text
model = tf.saved_model.load(sys.argv[1])
outputs = model.signatures["serving_default"](source=tf.constant(json.loads(sys.argv[2])))
decoded = {
    name: [item.decode() if isinstance(item, bytes) else [cell.decode() for cell in item]
           for item in value.numpy().tolist()]
    for name, value in outputs.items()
}
print(json.dumps(decoded))
"""


class Echo(tf.Module):
    """Each tokenizer's text and pieces after a round trip."""

    def __init__(self, tokenizers):
        super().__init__()
        self.tokenizers = tokenizers

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="source")])
    def __call__(self, source):
        outputs = {}
        for name, tokenizer in self.tokenizers.items():
            ids = text.append_eos(tokenizer.encode(source)).to_tensor(text.EOS)
            outputs[f"{name}_text"] = tokenizer.decode(ids)
            outputs[f"{name}_pieces"] = tokenizer.pieces(ids)
        return outputs


@pytest.mark.slow
def test_both_tokenizers_survive_in_a_fresh_process(model_proto, tmp_path):
    echo = Echo(
        {
            "model": text.SentencePieceTokenizer(model_proto),
            "words": text.VocabularyTokenizer(WORDS, "bpe"),
        }
    )
    tf.saved_model.save(echo, str(tmp_path / "echo"), signatures=echo.__call__)
    command = [sys.executable, "-c", LOADER, str(tmp_path / "echo"), json.dumps(SOURCES)]
    output = subprocess.run(command, capture_output=True, text=True)
    assert output.returncode == 0, output.stderr
    found = json.loads(output.stdout)
    assert found["model_text"] == ["Der Hund liest.", "der bel@@ lt", "", "日本 😀"]
    assert found["words_text"] == ["<unk> <unk> <unk>", "der bellt", "", "<unk> <unk>"]
    assert found["words_pieces"][1] == ["der", "bel@@", "lt", "</s>"]
    expected = echo(tf.constant(SOURCES))["model_pieces"].numpy()
    assert found["model_pieces"] == [[cell.decode() for cell in row] for row in expected]
