"""What `make bench` measures: each figure beside a baseline of the same run, and its mark."""
