"""The `mfw` command, one module per group of commands."""
