"""From settings to a model: all choices between systems and forms are made here."""

import functools
from collections.abc import Callable
from typing import Any

import keras

from aevnmt_tf import nets
from aevnmt_tf.hparams import Hparams, tf_nmt_names
from aevnmt_tf.model.aevnmt import Aevnmt, Rates

LATENT = ("aevnmt", "vnmt", "vae")


def build(
    hp: Hparams,
    x_vocab_size: int,
    y_vocab_size: int,
    *,
    packed: bool = True,
    cls: type[Aevnmt] = Aevnmt,
) -> Aevnmt:
    """Return the model that the settings describe, with all its weights.

    Args:
        hp: Hparams.
        x_vocab_size: Vx.
        y_vocab_size: Vy.
        packed: whether output layers skip padding; not possible under XLA.
        cls: Aevnmt or a subclass.
    """
    rates = Rates(
        dropout=hp.dropout,
        word_dropout_x=hp.word_dropout if hp.word_dropout_source else 0.0,
        word_dropout_y=hp.word_dropout,
        output_dropout=hp.output_dropout,
        source_word_dropout=hp.source_word_dropout,
    )
    parts = {
        **_translation_parts(hp, x_vocab_size, y_vocab_size, packed=packed),
        **_joint_parts(hp, x_vocab_size, packed=packed),
        **_bags_of_words(hp, x_vocab_size, y_vocab_size),
    }
    passes = 2 if hp.consistency_weight else 1
    model = cls(
        **parts,
        rates=rates,
        seed=hp.random_seed,
        num_rows=passes * hp.batch_size,
        name=hp.model_type,
    )
    if hp.init_op is not None:
        _initialize(model, hp)
    return model


def _sizes(hp: Hparams) -> dict[str, Any]:
    """Return the sizes of every net that reads sentences."""
    z_size = hp.z_dim if hp.model_type in LATENT else None
    size = hp.num_units
    return {"input_size": size, "units": size, "z_size": z_size, "reset": hp.gru_reset}


def _stack_sizes(hp: Hparams) -> dict[str, Any]:
    """Return the sizes and the unit of encoder, decoder and source LM."""
    return {**_sizes(hp), "unit": hp.unit_type, "forget_bias": hp.forget_bias}


def _translation_parts(
    hp: Hparams, x_vocab_size: int, y_vocab_size: int, *, packed: bool
) -> dict[str, Any]:
    """Return the embeddings, and the encoder and decoder unless the system is a VAE."""
    size, emb_y = hp.num_units, None
    kind = nets.Embedding if hp.embed_prefix is None else nets.GivenEmbedding
    embedding = functools.partial(kind, units=size, stddev=hp.embedding_stddev)
    if hp.model_type == "vae":
        return {"emb_x": embedding(vocab_size=x_vocab_size, name="emb_x")}
    if not hp.share_vocab:
        emb_y = embedding(vocab_size=y_vocab_size, name="emb_y")
    decoder, options = _decoder_form(hp)
    memory_size = 2 * size if hp.encoder_type == "bi" else size
    return {
        "emb_x": embedding(vocab_size=x_vocab_size, name="emb_x"),
        "emb_y": emb_y,
        "encoder": _encoder(hp),
        "decoder": decoder(
            memory_size=memory_size,
            vocab_size=y_vocab_size,
            num_layers=hp.num_decoder_layers,
            packed=packed,
            label_smoothing=hp.label_smoothing,
            tied=hp.tie_embeddings,
            feed_z=hp.feed_z,
            name="decoder",
            **options,
            **_stack_sizes(hp),
        ),
    }


def _encoder(hp: Hparams) -> nets.Encoder | nets.TfNmtEncoder | nets.SilentEncoder:
    """Return the paper's encoder, or TF-NMT's if that differs."""
    if hp.language_model:
        return nets.SilentEncoder(name="encoder")
    depth = hp.num_encoder_layers
    one_layer = hp.encoder_type == "bi" and depth == 2 and not hp.pass_hidden_state
    if hp.decoder_style == "paper" or one_layer:
        # TF-NMT counts a bidirectional layer as two.
        return nets.Encoder(num_layers=depth // 2, name="encoder", **_stack_sizes(hp))
    both, above = {"uni": (0, depth), "bi": (depth // 2, 0), "gnmt": (1, depth - 1)}[
        hp.encoder_type
    ]
    residual = _residual_layers(hp)[0]
    return nets.TfNmtEncoder(
        num_both=both,
        num_layers=above,
        residual_both=residual // 2 if hp.encoder_type == "bi" else 0,
        residual_layers=residual if above else 0,
        pass_hidden_state=hp.pass_hidden_state,
        name="encoder",
        **_stack_sizes(hp),
    )


def _decoder_form(hp: Hparams) -> tuple[type[nets.Decoder], dict[str, Any]]:
    """Return the class of the decoder and the options that only this class has."""
    if hp.decoder_style == "paper":
        return nets.PaperDecoder, {}
    options = {
        "residual_layers": _residual_layers(hp)[1],
        "pass_hidden_state": hp.pass_hidden_state,
    }
    if not hp.attention:
        return nets.PlainDecoder, options
    options["attention"] = hp.attention
    if hp.attention_architecture == "standard":
        return nets.TfNmtDecoder, {**options, "output_attention": hp.output_attention}
    return nets.GnmtDecoder, {**options, "new_context": hp.attention_architecture == "gnmt_v2"}


def _residual_layers(hp: Hparams) -> tuple[int, int]:
    if not hp.residual:
        return 0, 0
    return tf_nmt_names.residual_layers(
        hp.encoder_type,
        encoder_layers=hp.num_encoder_layers,
        decoder_layers=hp.num_decoder_layers,
    )


def _initialize(model: Aevnmt, hp: Hparams) -> None:
    """Initialise matrices and embeddings as init_op says, as TF-NMT does."""
    initializers: dict[str, Callable[[], keras.initializers.Initializer]] = {
        "uniform": lambda: keras.initializers.RandomUniform(-hp.init_weight, hp.init_weight),
        "glorot_uniform": keras.initializers.GlorotUniform,
        "glorot_normal": keras.initializers.GlorotNormal,
    }
    for weight in model.trainable_variables:
        if weight.name.endswith(("kernel", "embeddings", "projection")) or weight.name == "v":
            weight.assign(initializers[hp.init_op]()(weight.shape, dtype=weight.dtype))


def _joint_parts(hp: Hparams, x_vocab_size: int, *, packed: bool) -> dict[str, Any]:
    """Return the parts that only some systems have: the source LM, p(z), q and r."""
    parts = {}
    if hp.model_type in ("joint", "aevnmt", "vae"):
        parts["source_lm"] = nets.SourceLM(
            vocab_size=x_vocab_size,
            num_layers=hp.num_lm_layers,
            packed=packed,
            tied=hp.tie_embeddings,
            feed_z=hp.feed_z,
            name="source_lm",
            **_stack_sizes(hp),
        )
    if hp.model_type == "vnmt":
        sizes = _sizes(hp)
        conditional = nets.PRIORS["conditional"]
        parts["prior"] = conditional(label="p", sides="x", name="prior", **sizes)
        parts["posterior"] = nets.GaussianNetwork(
            label="q", sides="xy", name="posterior", **sizes
        )
    if hp.model_type in ("aevnmt", "vae"):
        sees_target = hp.z_inference_from == "source_target"
        options = {"components": hp.prior_components} if hp.prior == "mixture" else {}
        parts["prior"] = nets.PRIORS[hp.prior](z_size=hp.z_dim, name="prior", **options)
        posterior: Callable[..., nets.SentenceNetwork] = nets.GaussianNetwork
        if hp.bn_scale:
            posterior = functools.partial(
                nets.NormalisedGaussianNetwork, mean_scale=hp.bn_scale
            )
        parts["posterior"] = posterior(
            label="q", sides="xy" if sees_target else "x", name="posterior", **_sizes(hp)
        )
        if sees_target:
            network = nets.PointNetwork if hp.r_train_mode == "l2" else nets.GaussianNetwork
            parts["prediction"] = network(label="r", sides="x", name="prediction", **_sizes(hp))
            parts["divergence"] = hp.r_train_mode
            parts["divergence_trains_q"] = hp.divergence_trains_q
    return parts


def _bags_of_words(hp: Hparams, x_vocab_size: int, y_vocab_size: int) -> dict[str, Any]:
    """Return the nets that predict words from z, if they have a weight in the loss."""
    if hp.model_type not in LATENT:
        return {}
    bag = functools.partial(nets.BagOfWords, z_size=hp.z_dim, units=hp.num_units)
    parts = {}
    if hp.bow_source_weight:
        parts["bow_x"] = bag(vocab_size=x_vocab_size, name="bow_x")
    if hp.bow_target_weight:
        parts["bow_y"] = bag(vocab_size=y_vocab_size, name="bow_y")
    return parts
