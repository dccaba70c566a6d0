"""Write train.csv and test.csv beside this script, from the copy of the digits that scikit-learn ships.

Run it with the project's Python: `python examples/data/digits/make_digits.py [FOLDER]`. Nothing is fetched.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from sklearn.datasets import load_digits

PIXELS = 64
FIFTH = 5


def rows() -> list[list[int]]:
    """Return the 1,797 digits in their original order: 64 pixels of 0 to 16, row by row, then the digit."""
    digits = load_digits()
    return [
        [*(int(pixel) for pixel in pixels), int(digit)]
        for pixels, digit in zip(digits.data, digits.target, strict=True)
    ]


def write(path: Path, examples: list[list[int]]) -> None:
    """Write `examples` to `path` under a header, with plain newlines on every platform."""
    with path.open("w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*(f"pixel_{index}" for index in range(PIXELS)), "digit"])
        writer.writerows(examples)


def main(folder: Path) -> None:
    """Write both files into `folder`: rows 5, 10, 15 and so on are for testing, the others for training."""
    examples = rows()
    for name, in_test in (("train.csv", False), ("test.csv", True)):
        chosen = [row for number, row in enumerate(examples, start=1) if (number % FIFTH == 0) is in_test]
        write(folder / name, chosen)
        print(f"{folder / name}: {len(chosen)} examples")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
