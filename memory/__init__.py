"""What is remembered of conversations: the archive, the history folded from it, summaries, recaps."""
