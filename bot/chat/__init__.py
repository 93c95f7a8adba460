"""The Google Chat channel: verification, events, texts that leave, and their delivery."""
