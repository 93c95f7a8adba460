"""What is remembered of conversations: archive, history, summaries, recaps."""
