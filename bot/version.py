"""The version of this Mercury."""

VERSION = "0.1.0"
