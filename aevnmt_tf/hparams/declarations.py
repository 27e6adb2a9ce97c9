"""Every setting, declared once: flags, --help, checks and hparams/README.md derive from it."""

from pathlib import Path

from aevnmt_tf.cli.settings import Setting
from aevnmt_tf.hparams import settings_files

# The settings by group: name, type, default, help text, and choices or limits. The defaults are
# the authors' values for AEVNMT. The table is wrapped by hand.
# fmt: off
GROUPS: dict[str, tuple[Setting, ...]] = {
    "model": (
        Setting("model_type", str, "aevnmt", "cond: P(y|x); joint: P(x) P(y|x); aevnmt: P(x|z) "
                "P(y|x, z); vnmt: P(y|x, z) with a prior p(z|x); vae: P(x|z), trained on "
                "sentences without translations", ("cond", "joint", "aevnmt", "vnmt", "vae")),
        Setting("num_units", int, 256, "size of the RNN states and of the embeddings",
                at_least=1),
        Setting("z_dim", int, 256, "number of dimensions of z", at_least=1),
        Setting("z_inference_from", str, "source_only", "source_only: q(z|x); source_target: "
                "q(z|x, y), and r(z|x) to predict z when translating; vnmt always uses "
                "source_target, without r", ("source_only", "source_target")),
        Setting("r_train_mode", str, None, "divergence that trains r(z|x): KLq: KL(q||r); KLr: "
                "KL(r||q); JS: their sum (as in the authors' code); l2: squared error, where r "
                "is a point estimate; null: KLq if there is an r", ("KLq", "KLr", "JS", "l2")),
        Setting("prior", str, "standard", "prior over z: standard: N(0, I); mixture: a learned "
                "mixture of Gaussians (not in the paper)", ("standard", "mixture")),
        Setting("prior_components", int, 10, "number of Gaussians in the mixture prior",
                at_least=1),
        Setting("feed_z", bool, False, "feed z to the decoder and the source LM at every step, "
                "not only as their initial state (not in the paper)"),
        Setting("bn_scale", float, 0.0, "batch-normalise the posterior mean with this fixed "
                "scale (Zhu et al., 2020; not in the paper); 0: off", at_least=0),
        Setting("embedding_stddev", float, 0.5, "standard deviation of the initial "
                "embeddings (0.5 in the authors' code)", above=0),
        Setting("dropout", float, 0.3, "dropout rate on the inputs of the RNN cells",
                at_least=0, below=1),
        Setting("output_dropout", float, 0.0, "dropout rate on the inputs of the output layers "
                "(not in the paper)", at_least=0, below=1),
        Setting("word_dropout", float, 0.0, "probability of dropping a word from the prefix "
                "that the decoder or the source LM reads", at_least=0, below=1),
        Setting("word_dropout_source", bool, True, "apply word_dropout in the source LM, too"),
        Setting("source_word_dropout", float, 0.0, "probability of dropping a word from the "
                "encoder's input (not in the paper)", at_least=0, below=1),
        Setting("encoder_type", str, "bi", "bi: num_encoder_layers / 2 layers in each "
                "direction; uni: forward layers; gnmt: one bidirectional layer, and forward "
                "layers on top", ("bi", "uni", "gnmt")),
        Setting("num_encoder_layers", int, 2, "number of encoder layers; with encoder_type bi, "
                "a bidirectional layer counts as 2", at_least=1),
        Setting("num_decoder_layers", int, 1, "number of decoder layers", at_least=1),
        Setting("num_lm_layers", int, 1, "number of source LM layers", at_least=1),
        Setting("num_layers", int, None, "shorthand for num_encoder_layers and "
                "num_decoder_layers", at_least=1),
        Setting("attention", str, "bahdanau", "attention score function; empty: no attention",
                ("bahdanau", "normed_bahdanau", "luong", "scaled_luong", "")),
        Setting("attention_architecture", str, "standard", "standard: the top layer attends; "
                "gnmt, gnmt_v2: the bottom layer attends, and the layers above read the "
                "previous (gnmt) or the new (gnmt_v2) context",
                ("standard", "gnmt", "gnmt_v2")),
        Setting("output_attention", bool, True, "with the standard architecture: compute the "
                "output from the attention vector; false: from the top RNN state"),
        Setting("unit_type", str, "gru", "RNN cell of the encoder, the decoder and the source "
                "LM; inference networks always use GRUs", ("gru", "lstm", "layer_norm_lstm")),
        Setting("forget_bias", float, 1.0, "bias added to the forget gate of LSTM cells"),
        Setting("residual", bool, False, "add residual connections between RNN layers"),
        Setting("pass_hidden_state", bool, False, "initialise the decoder with the encoder's "
                "final states; false: with z or zeros"),
        Setting("language_model", bool, False, "train a language model of the target, P(y), "
                "without encoder and attention"),
        Setting("init_op", str, None, "initialiser of all weights except biases and gains; "
                "null: as in the authors' code",
                ("uniform", "glorot_uniform", "glorot_normal")),
        Setting("init_weight", float, 0.1, "with init_op uniform: draw weights from [-X, X]",
                above=0),
        Setting("decoder_style", str, "paper", "paper: attend with the previous state, and "
                "compute the output from state, previous word and context; tf_nmt: TF-NMT's "
                "input feeding and its other architectures", ("paper", "tf_nmt")),
        Setting("gru_reset", str, "before", "apply the reset gate of GRUs before or after the "
                "recurrent product", ("before", "after")),
        Setting("share_vocab", bool, False, "use one vocabulary for both languages"),
        Setting("tie_embeddings", bool, False, "share the weights of embeddings and output "
                "layers (not in the paper)"),
    ),
    "objective": (
        Setting("objective", str, "elbo", "elbo: evidence lower bound; iwae: "
                "importance-weighted bound with num_train_samples samples (not in the paper)",
                ("elbo", "iwae")),
        Setting("num_train_samples", int, 1, "samples of z per sentence pair in training",
                at_least=1),
        Setting("KL_annealing_steps", int, 0, "updates over which the weight of the KL terms "
                "grows from 0 to 1; 0: no annealing", at_least=0),
        Setting("KL_annealing_cycles", int, 1, "number of annealing cycles, each of "
                "2 x KL_annealing_steps updates", at_least=1),
        Setting("divergence_trains_q", bool, True, "train q as well as r with D(r, q); false "
                "keeps more information in z (not in the paper)"),
        Setting("label_smoothing", float, 0.0, "probability mass that is spread evenly over "
                "the target vocabulary (not in the paper)", at_least=0, below=1),
        Setting("free_bits", float, 0.0, "nats of KL that are not penalised (not in the paper)",
                at_least=0),
        Setting("free_bits_for", str, "z", "what free_bits applies to: z: the KL of each "
                "sentence; dimension: the KL of each sentence and dimension; batch, "
                "batch_dimension: the same for means over the batch of a device",
                ("z", "dimension", "batch", "batch_dimension")),
        Setting("mdr_rate", float, 0.0, "minimum desired rate: nats of KL enforced by a "
                "Lagrange multiplier (not in the paper); 0: off", at_least=0),
        Setting("mdr_step", float, 0.01, "step size of that multiplier, per nat of KL below "
                "mdr_rate", above=0),
        Setting("bow_source_weight", float, 0.0, "weight of a bag-of-words loss that predicts "
                "the source words from z (not in the paper); 0: off", at_least=0),
        Setting("bow_target_weight", float, 0.0, "weight of a bag-of-words loss that predicts "
                "the target words from z (not in the paper); 0: off", at_least=0),
        Setting("consistency_weight", float, 0.0, "weight of R-Drop, the symmetric KL between "
                "the predictions of two passes with different noise; doubles the time per "
                "update (not in the paper); 0: off", at_least=0),
    ),
    "optimisation": (
        Setting("optimizer", str, "adam", "optimizer", ("adam", "sgd")),
        Setting("learning_rate", float, 0.0003, "initial learning rate", above=0),
        Setting("ema_decay", float, 0.0, "decay of an exponential moving average of the "
                "weights, such as 0.999; the average is evaluated on the dev set and saved as "
                "best (not in the paper); 0: off", at_least=0, below=1),
        Setting("max_gradient_norm", float, 1.0, "clip gradients to this global norm",
                above=0),
        Setting("batch_size", int, 64, "sentence pairs per batch, over all devices",
                at_least=1),
        Setting("gradient_accumulation_steps", int, 1, "batches per update", at_least=1),
        Setting("num_train_steps", int, 140000, "number of updates before convergence checks "
                "start", at_least=1),
        Setting("check_convergence_every", int, 500, "updates between convergence checks on "
                "dev BLEU, after num_train_steps; 0: stop at num_train_steps", at_least=0),
        Setting("patience", int, 20, "stop after this many convergence checks without "
                "improvement", at_least=1),
        Setting("max_steps", int, None, "stop after this many updates", at_least=1),
        Setting("max_minutes", float, None, "stop after this many minutes", above=0),
        Setting("max_bad_steps", int, 10, "give up after this many consecutive updates with "
                "non-finite gradients", at_least=1),
        Setting("warmup_steps", int, 0, "updates over which the learning rate warms up",
                at_least=0),
        Setting("warmup_scheme", str, "t2t", "t2t: exponential, from 1/100 of the learning "
                "rate", ("t2t",)),
        Setting("decay_scheme", str, "", "luong5, luong10: halve the learning rate 5 or 10 "
                "times in the second half of the updates; luong234: 4 times in the last third; "
                "linear: decay it to 0; empty: constant",
                ("", "luong5", "luong10", "luong234", "linear")),
        Setting("random_seed", int, 1, "seed of the initial weights, the noise and the order "
                "of the data", at_least=0, below=2**31),
    ),
    "machine": (
        Setting("distribute", str, "auto", "none: one device; mirrored: all GPUs of this "
                "machine; multi_worker: the workers in TF_CONFIG; auto: as available",
                ("auto", "none", "mirrored", "multi_worker")),
        Setting("precision", str, "float32", "precision of the large matrix products",
                ("float32", "mixed_bfloat16")),
        Setting("jit_compile", str, "auto", "compile with XLA; auto: on GPUs only",
                ("auto", "true", "false")),
    ),
    "data": (
        Setting("src", str, None, "source language, such as en; files are called PREFIX.LANG",
                metavar="LANG"),
        Setting("tgt", str, None, "target language, such as de", metavar="LANG"),
        Setting("train_prefix", str, None, "prefix of the training files, or several; null: "
                "the demo corpus", many="either", metavar="PREFIX"),
        Setting("train_ratios", float, None, "mixing weights, one per train_prefix; null: "
                "concatenate the corpora", above=0, many=True),
        Setting("dev_prefix", str, None, "prefix of the development files, or several",
                many="either", metavar="PREFIX"),
        Setting("test_prefix", str, None, "prefix of the test files, or several",
                many="either", metavar="PREFIX"),
        Setting("synthetic_prefix", str, None, "prefix of back-translated text: PREFIX.TGT and "
                "PREFIX.translation.SRC", metavar="PREFIX"),
        Setting("mono_real_ratio", int, 1, "synthetic or monolingual batches per parallel "
                "batch", at_least=1),
        Setting("mono_prefix", str, None, "prefix of monolingual source text, PREFIX.SRC, on "
                "which P(x|z) and q(z|x) are trained, too; for joint, and for aevnmt with "
                "source_only", metavar="PREFIX"),
        Setting("embed_prefix", str, None, "prefix of pretrained embeddings, PREFIX.LANG, "
                "which stay fixed; null: train the embeddings", metavar="PREFIX"),
        Setting("vocab_prefix", str, None, "prefix of vocabulary files or SentencePiece "
                "models; null: learn them from the training files", metavar="PREFIX"),
        Setting("out_dir", str, None, "directory of the run", metavar="DIR"),
        Setting("note", str, None, "description of the settings file or the run"),
        Setting("max_train", int, 0, "train on the first N pairs only; 0: on all", at_least=0),
        Setting("num_buckets", int, 10, "maximum number of batch shapes", at_least=1),
        Setting("subword_sampling", float, 0.0, "subword regularisation (Kudo, 2018): sample "
                "segmentations of the training text in proportion to P^X; smaller values vary "
                "more; 0: off", at_least=0),
        Setting("subword_samples", int, 8, "with subword_sampling: segmentations per sentence, "
                "stored on disk and used in turn, one per epoch", at_least=1),
        Setting("src_max_len", int, 50, "drop training pairs whose source has more subwords",
                at_least=1),
        Setting("tgt_max_len", int, 50, "drop training pairs whose target has more subwords",
                at_least=1),
        Setting("src_max_len_infer", int, 512, "truncate sources to this many subwords when "
                "translating", at_least=1),
        Setting("tgt_max_len_infer", int, None, "maximum number of subwords in a translation; "
                "null: 2 x the source length + 10", at_least=1),
        Setting("demo_pairs", int, 20000, "number of training pairs of the demo corpus, at "
                "most 20,000", at_least=10),
        Setting("sos", str, "<s>", "start-of-sentence symbol in vocabulary files"),
        Setting("eos", str, "</s>", "end-of-sentence symbol in vocabulary files"),
    ),
    "text": (
        Setting("subword_option", str, "spm", "spm: SentencePiece on raw text; bpe: text with "
                "BPE applied (@@); empty: words", ("", "bpe", "spm")),
        Setting("vocab_size", int, 8000, "number of SentencePiece pieces, BPE merges or words "
                "per language", at_least=1),
        Setting("text_pipeline", str, "sentencepiece", "preprocessing of raw text; moses: "
                "tokenise, truecase and apply BPE", ("sentencepiece", "moses")),
        Setting("synthetic_tag", str, None, "tag prepended to every synthetic source, such as "
                "<bt>; null: none"),
    ),
    "decoding": (
        Setting("infer_batch_size", int, 64, "sentences per batch when translating",
                at_least=1),
        Setting("beam_width", int, 10, "beam width; 0: greedy search, or sampling if "
                "sampling_temperature is set", at_least=0),
        Setting("length_penalty_weight", float, 1.0, "w in score = log P(y|x, z) / ((5 + "
                "length) / 6)^w", at_least=0),
        Setting("infer_mode", str, None, "TF-NMT's choice of search: greedy sets beam_width "
                "and sampling_temperature to 0, beam_search only the latter, sample only the "
                "former", ("greedy", "sample", "beam_search")),
        Setting("coverage_penalty_weight", float, 0.0, "w in w sum_i log(min(1, sum_j a_ij)), "
                "which beam search adds to the score (GNMT)", at_least=0),
        Setting("sampling_temperature", float, 0.0, "sample words at this temperature; 0: do "
                "not sample", at_least=0),
        Setting("num_translations_per_input", int, 1, "number of translations per sentence",
                at_least=1),
    ),
    "reporting": (
        Setting("steps_per_stats", int, 100, "updates between reports", at_least=1),
        Setting("steps_per_external_eval", int, 1000, "updates between evaluations on the dev "
                "set", at_least=1),
        Setting("steps_per_checkpoint", int, None, "updates between checkpoints; null: 10 x "
                "steps_per_stats", at_least=1),
        Setting("metrics", str, ("bleu",), "metrics to report on the dev set; BLEU selects the "
                "best weights; bleu_other_z: BLEU with the z of another sentence",
                ("bleu", "chrf", "ter", "rouge", "accuracy", "word_accuracy", "bleu_other_z"),
                many=True),
        Setting("num_keep_ckpts", int, 5, "number of recent checkpoints to keep", at_least=1),
        Setting("avg_ckpts", int, 0, "average the last N checkpoints; true: as many as are "
                "kept; 0: no checkpoint averaging", at_least=0, also=(True, False)),
        Setting("iw_samples", int, 10, "samples of z for the importance-weighted bound on the "
                "dev set", at_least=1),
        Setting("license", str, None, "license of the trained model, for its MODEL_CARD.md"),
    ),
}
# fmt: on
SETTINGS = {setting.name: setting for settings in GROUPS.values() for setting in settings}
DEFAULTS = {name: setting.default for name, setting in SETTINGS.items()}

if __name__ == "__main__":
    folder = Path(__file__).resolve().parents[2] / "hparams"
    print(settings_files.readme(GROUPS, folder=folder), end="")
