"""PyCandle beside the runtimes that people use today: `make bench`, `make bench-quick`. docs/benchmarks.md explains it."""
