"""Clones that are alike: a deployment with many of them, known from the maps of two that have few."""
