"""Keras models of the zoo that read texts, series and sounds."""

import csv

import keras
from keras import layers, ops

from tests.folders import ROOT
from tests.zoo.keras_layers import Same
from tests.zoo.twin import CLASSES, Twin


def imdb_lstm() -> Twin:
    """Two bidirectional LSTMs, with a mask."""
    words = keras.Input((8,), dtype="int32", name="words")
    x = layers.Embedding(50, 6, mask_zero=True, name="words_table")(words)
    x = layers.Bidirectional(layers.LSTM(4, return_sequences=True), name="lstm1")(x)
    x = layers.Bidirectional(layers.LSTM(4), name="lstm2")(x)
    good = layers.Dense(1, activation="sigmoid", name="good_probability")(x)
    return Twin(keras.Model(words, good), [keras.losses.BinaryCrossentropy()], ["good"])


def transformer_classifier() -> Twin:
    """One encoder of a Transformer."""
    words = keras.Input((10,), dtype="int32", name="words")
    x = layers.Embedding(60, 8, name="table")(words) + Same((10, 8), name="places")(words)
    y = layers.Dropout(0.0)(layers.MultiHeadAttention(2, 4, name="encoder_attention")(x, x))
    x = layers.LayerNormalization(name="encoder_norm1")(x + y)
    y = layers.Dense(12, activation="relu", name="encoder_wide")(x)
    y = layers.Dropout(0.0)(layers.Dense(8, name="encoder_narrow")(y))
    x = layers.LayerNormalization(name="encoder_norm2")(x + y)
    logits = layers.Dense(4, name="logits")(layers.GlobalAveragePooling1D()(x))
    return Twin(keras.Model(words, logits), [CLASSES], ["topic"])


def gpt() -> Twin:
    """Blocks with causal attention; the target is the input, one place later."""
    tokens = keras.Input((9,), dtype="int32", name="tokens")
    x = layers.Embedding(40, 8, name="table")(tokens[:, :-1]) + Same((8, 8), name="places")(tokens)
    for name in ("block", "block_1"):
        y = layers.LayerNormalization(name=f"{name}_norm1")(x)
        x = x + layers.MultiHeadAttention(2, 4, name=f"{name}_attention")(y, y, use_causal_mask=True)
        y = layers.LayerNormalization(name=f"{name}_norm2")(x)
        y = layers.Dense(16, activation="gelu", name=f"{name}_wide")(y)
        x = x + layers.Dense(8, name=f"{name}_narrow")(y)
    logits = layers.Dense(40, name="logits")(layers.LayerNormalization(name="norm")(x))
    return Twin(keras.Model(tokens, logits), [CLASSES], ["tokens"], cut=lambda tokens: tokens[:, 1:])


def seq2seq() -> Twin:
    """An encoder and a decoder of GRUs, with attention."""
    source = keras.Input((7,), dtype="int32", name="source")
    before = keras.Input((6,), dtype="int32", name="before")
    x = layers.Embedding(30, 6, name="source_table")(source)
    sequence, state = layers.GRU(8, return_sequences=True, return_state=True, name="encoder")(x)
    y = layers.Embedding(30, 6, name="target_table")(before)
    decoded = layers.GRU(8, return_sequences=True, name="decoder")(y, initial_state=state)
    context = layers.AdditiveAttention(name="attention")([decoded, sequence])
    logits = layers.Dense(30, name="logits")(ops.concatenate([decoded, context], axis=-1))
    return Twin(keras.Model([source, before], logits), [CLASSES], ["after"])


def ner_tagger() -> Twin:
    """A tag for each word; the mask leaves out the loss of what fills up."""
    words = keras.Input((None,), dtype="int32", name="words")
    x = layers.Embedding(12, 6, mask_zero=True, name="table")(words)
    x = layers.Bidirectional(layers.LSTM(5, return_sequences=True), name="lstm")(x)
    return Twin(keras.Model(words, layers.Dense(4, name="logits")(x)), [CLASSES], ["tags"])


def gru_forecast() -> Twin:
    """Two GRUs and a dense layer."""
    past = keras.Input((12, 3), name="past")
    x = layers.GRU(6, return_sequences=True, name="gru1")(past)
    guess = layers.Dense(4, name="guess")(layers.GRU(6, name="gru2")(x))
    return Twin(keras.Model(past, guess), [keras.losses.Huber()], ["future"])


def wavenet() -> Twin:
    """Gated causal convolutions; the target is the input, one place later."""
    wave = keras.Input((16, 1), name="wave")
    x = layers.Conv1D(6, 1, name="start")(wave[:, :-1])
    skips = []
    for name, dilation in (("gated", 1), ("gated_1", 2), ("gated_2", 4)):
        more = {"padding": "causal", "dilation_rate": dilation}
        signal = layers.Conv1D(6, 2, activation="tanh", name=f"{name}_signal", **more)(x)
        gate = layers.Conv1D(6, 2, activation="sigmoid", name=f"{name}_gate", **more)(x)
        skips.append(layers.Conv1D(6, 1, name=f"{name}_mix")(signal * gate))
        x = x + skips[-1]
    head = layers.Conv1D(6, 1, activation="relu", name="head")(ops.relu(sum(skips[1:], start=skips[0])))
    guess = layers.Conv1D(1, 1, name="guess")(head)
    loss = keras.losses.MeanSquaredError()
    return Twin(keras.Model(wave, guess), [loss], ["wave"], cut=lambda wave: wave[:, 1:])


def speech_commands() -> Twin:
    """Convolutions on a spectrogram that the model computes."""
    sound = keras.Input((256, 1), name="sound")
    x = layers.STFTSpectrogram("log", 64, 32, 64, trainable=False, name="spectrogram")(sound)
    x = layers.Conv2D(4, 3, activation="relu", name="conv1")(x[..., None])
    x = layers.Conv2D(6, 2, activation="relu", name="conv2")(layers.MaxPooling2D(2)(x))
    logits = layers.Dense(5, name="logits")(layers.GlobalMaxPooling2D()(x))
    return Twin(keras.Model(sound, logits), [CLASSES], ["word"])


def text_cnn() -> Twin:
    """Words learnt from the texts, and convolutions over pairs and triples of them."""
    text = keras.Input((), dtype="string", name="text")
    words = layers.TextVectorization(max_tokens=40, output_sequence_length=8)
    rows = (ROOT / "examples/zoo/text_cnn.csv").read_text().splitlines()[1:]
    words.adapt([next(csv.reader([each]))[0] for each in rows])
    x = layers.Embedding(40, 6, name="table")(words(text))
    pairs = layers.Conv1D(5, 2, activation="relu", name="pairs")(x)
    triples = layers.Conv1D(5, 3, activation="relu", name="triples")(x)
    seen = layers.Concatenate()([layers.GlobalMaxPooling1D()(each) for each in (pairs, triples)])
    probability = layers.Dense(1, activation="sigmoid", name="probability")(seen)
    return Twin(keras.Model(text, probability), [keras.losses.BinaryCrossentropy()], ["good"])
