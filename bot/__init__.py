"""The agent and its channels: settings, turns, prompts, the model, Google Chat and HTTP."""
