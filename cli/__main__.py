"""`python -m cli` is `mfw`."""

from cli.main import main

main(prog_name="mfw")
