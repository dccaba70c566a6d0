"""Races between contenders, each in a process of its own."""
