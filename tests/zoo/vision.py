"""Keras models of the zoo that see images."""

from typing import Any

import keras
from keras import layers, ops

from tests.zoo.keras_layers import Added, Same
from tests.zoo.twin import CLASSES, Twin


def mnist_convnet() -> Twin:
    """Two convolutions and a dense layer."""
    image = keras.Input((12, 12, 1), name="image")
    x = layers.Conv2D(8, 3, activation="relu", name="conv1")(image)
    x = layers.MaxPooling2D(2)(x)
    x = layers.Conv2D(8, 3, activation="relu", name="conv2")(x)
    x = layers.Dropout(0.0)(layers.Flatten()(x))
    return Twin(keras.Model(image, layers.Dense(10, name="logits")(x)), [CLASSES], ["digit"])


def _residual(x: Any, filters: int, name: str, strides: int = 1) -> Any:
    y = layers.Conv2D(filters, 3, strides, padding="same", use_bias=False, name=f"{name}_conv1")(x)
    y = layers.Activation("relu")(layers.BatchNormalization(name=f"{name}_norm1")(y))
    y = layers.Conv2D(filters, 3, padding="same", use_bias=False, name=f"{name}_conv2")(y)
    y = layers.BatchNormalization(name=f"{name}_norm2")(y)
    if strides > 1:
        x = layers.Conv2D(filters, 1, strides, use_bias=False, name=f"{name}_shortcut")(x)
    return layers.Activation("relu")(layers.Add()([x, y]))


def resnet_cifar() -> Twin:
    """Residual blocks with batch normalization."""
    image = keras.Input((8, 8, 3), name="image")
    x = layers.Conv2D(8, 3, padding="same", use_bias=False, name="stem")(image)
    x = layers.Activation("relu")(layers.BatchNormalization(name="stem_norm")(x))
    x = _residual(x, 8, "residual")
    x = _residual(x, 16, "narrow", 2)
    x = _residual(x, 16, "residual_1")
    logits = layers.Dense(10, name="logits")(layers.GlobalAveragePooling2D()(x))
    return Twin(keras.Model(image, logits), [CLASSES], ["label"])


def convmixer() -> Twin:
    """Depthwise and pointwise convolutions on patches."""
    image = keras.Input((12, 12, 3), name="image")
    x = layers.Conv2D(8, 3, 3, activation="gelu", name="patches")(image)
    x = layers.BatchNormalization(name="norm")(x)
    for name in ("mixer", "mixer_1"):
        y = layers.DepthwiseConv2D(3, padding="same", activation="gelu", name=f"{name}_depthwise")(x)
        x = layers.Add()([x, layers.BatchNormalization(name=f"{name}_norm1")(y)])
        x = layers.Conv2D(8, 1, activation="gelu", name=f"{name}_pointwise")(x)
        x = layers.BatchNormalization(name=f"{name}_norm2")(x)
    logits = layers.Dense(5, name="logits")(layers.GlobalAveragePooling2D()(x))
    return Twin(keras.Model(image, logits), [CLASSES], ["label"])


def _double(x: Any, filters: int, name: str) -> Any:
    for part in ("conv1", "conv2"):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu", name=f"{name}_{part}")(x)
    return x


def unet() -> Twin:
    """Down, up, and across."""
    image = keras.Input((8, 8, 1), name="image")
    fine = _double(image, 4, "down1")
    middle = _double(layers.MaxPooling2D(2)(fine), 6, "down2")
    coarse = _double(layers.MaxPooling2D(2)(middle), 8, "bottom")
    risen = layers.Conv2DTranspose(6, 2, 2, name="rise2")(coarse)
    second = _double(layers.Concatenate()([middle, risen]), 6, "up2")
    whole = layers.UpSampling2D(2, interpolation="bilinear")(second)
    first = _double(layers.Concatenate()([fine, whole]), 4, "up1")
    return Twin(keras.Model(image, layers.Conv2D(3, 1, name="logits")(first)), [CLASSES], ["mask"])


def autoencoder() -> Twin:
    """Convolutions, and transposed ones."""
    image = keras.Input((8, 8, 1), name="image")
    x = layers.GaussianNoise(0.0)(image)
    x = layers.Conv2D(8, 3, 2, padding="same", activation="relu", name="encode1")(x)
    x = layers.Conv2D(4, 3, 2, padding="same", activation="relu", name="encode2")(x)
    x = layers.Conv2DTranspose(8, 3, 2, padding="same", activation="relu", name="decode1")(x)
    x = layers.Conv2DTranspose(1, 3, 2, padding="same", activation="sigmoid", name="decode2")(x)
    return Twin(keras.Model(image, x), [keras.losses.BinaryCrossentropy()], ["image"])


def vit() -> Twin:
    """A class token before the patches, and attention."""
    image = keras.Input((12, 12, 3), name="image")
    patches = layers.Reshape((9, 8))(layers.Conv2D(8, 4, 4, name="patches")(image))
    x = ops.concatenate([Same((1, 8), name="token")(image), patches], axis=1)
    x = x + Same((10, 8), name="places")(image)
    for name in ("block", "block_1"):
        y = layers.LayerNormalization(name=f"{name}_norm1")(x)
        x = x + layers.MultiHeadAttention(2, 4, name=f"{name}_attention")(y, y)
        y = layers.LayerNormalization(name=f"{name}_norm2")(x)
        y = layers.Dense(16, activation="gelu", name=f"{name}_wide")(y)
        x = x + layers.Dense(8, name=f"{name}_narrow")(y)
    x = layers.LayerNormalization(name="norm")(x)
    return Twin(keras.Model(image, layers.Dense(5, name="logits")(x[:, 0])), [CLASSES], ["label"])


def mlp_mixer() -> Twin:
    """Dense layers along patches and along channels."""
    image = keras.Input((12, 12, 3), name="image")
    x = layers.Reshape((9, 8))(layers.Conv2D(8, 4, 4, name="patches")(image))
    for name in ("mixer", "mixer_1"):
        y = layers.Permute((2, 1))(layers.LayerNormalization(name=f"{name}_norm1")(x))
        y = layers.Dense(8, activation="gelu", name=f"{name}_across1")(y)
        x = x + layers.Permute((2, 1))(layers.Dense(9, name=f"{name}_across2")(y))
        y = layers.LayerNormalization(name=f"{name}_norm2")(x)
        y = layers.Dense(16, activation="gelu", name=f"{name}_within1")(y)
        x = x + layers.Dense(8, name=f"{name}_within2")(y)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(name="norm")(x))
    return Twin(keras.Model(image, layers.Dense(5, name="logits")(x)), [CLASSES], ["label"])


def frozen_mobilenet() -> Twin:
    """Dense layers on a frozen model of Keras's."""
    image = keras.Input((32, 32, 3), name="image")
    backbone = keras.applications.MobileNet(
        (32, 32, 3), alpha=0.25, include_top=False, weights=None, pooling="avg", name="backbone"
    )
    backbone.trainable = False
    x = layers.Dense(16, activation="relu", name="hidden")(backbone(image))
    model = keras.Model(image, layers.Dense(5, name="logits")(x))
    return Twin(model, [CLASSES], ["label"], inside="backbone", frozen=("backbone/",))


def distillation() -> Twin:
    """A frozen teacher, and a student whose loss is added by a layer beside that of the labels."""
    image = keras.Input((8, 8, 1), name="image")

    def classifier(filters: int, name: str, *, trainable: bool) -> Any:
        x = layers.Conv2D(filters, 3, activation="relu", name=f"{name}_conv", trainable=trainable)(image)
        return layers.Dense(5, name=f"{name}_logits", trainable=trainable)(layers.Flatten()(x))

    known, logits = classifier(16, "teacher", trainable=False), classifier(4, "student", trainable=True)
    wanted, found = ops.softmax(known / 4), ops.softmax(logits / 4)
    added = Added()(14.4 * ops.sum(wanted * ops.log(wanted / found), axis=-1))
    model = keras.Model(image, logits + 0 * ops.expand_dims(added, -1))
    return Twin(model, [CLASSES], ["label"], weights=[0.1], frozen=("teacher/",))
