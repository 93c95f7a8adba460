"""The wiki: Markdown notes in git, and the folder that shows them."""
