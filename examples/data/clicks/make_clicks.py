"""Write train.csv and test.csv beside this script: a log of clicks that is made up, with a known structure.

Run it with the project's Python: `python examples/data/clicks/make_clicks.py [FOLDER]`. Nothing is fetched.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

USERS, ITEMS, SHOPS = 400, 150, 8
TASTES = 4
TRAIN, TEST = 12_000, 3_000
COLUMNS = ("user", "item", "shop", "price", "age", "click")


def rows() -> Iterator[list[str | int]]:
    """Yield the impressions: who saw which item of which shop, its price, its age in days, and the click.

    Users and items have tastes, drawn once. A click is the more likely the more the two agree, the lower the
    price is, and the newer the item is, by a logistic function of the sum. Items are seen with the
    frequencies of Zipf's law.
    """
    chance = np.random.default_rng(2019)
    of_user, of_item = chance.normal(size=(USERS, TASTES)), chance.normal(size=(ITEMS, TASTES))
    shop, liked = chance.integers(0, SHOPS, ITEMS), chance.normal(size=SHOPS)
    ranks = 1 / np.arange(1, ITEMS + 1)
    for _ in range(TRAIN + TEST):
        user, item = int(chance.integers(USERS)), int(chance.choice(ITEMS, p=ranks / ranks.sum()))
        price, age = chance.exponential(1.0), chance.exponential(1.0)
        agrees = of_user[user] @ of_item[item]
        likely = 1 / (1 + np.exp(-(1.5 * agrees + 0.7 * liked[shop[item]] - 0.8 * price - 0.6 * age + 0.5)))
        click = int(chance.random() < likely)
        yield [f"u{user:04}", f"i{item:03}", f"s{shop[item]}", f"{price:.2f}", f"{age:.2f}", click]


def write(path: Path, lines: list[list[str | int]]) -> None:
    """Write `lines` to `path` under a header, with plain newlines on every platform."""
    with path.open("w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(lines)


def main(folder: Path) -> None:
    """Write both files into `folder`; the last lines are for testing."""
    lines = list(rows())
    for name, chosen in (("train.csv", lines[:TRAIN]), ("test.csv", lines[TRAIN:])):
        write(folder / name, chosen)
        print(f"{folder / name}: {len(chosen)} examples")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
