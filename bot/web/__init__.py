"""The web pages: server-rendered, without script."""
