"""Read files in turns, and print the rates: `python -m benchmarks.reading`."""

from benchmarks.reading.rates import main

main()
