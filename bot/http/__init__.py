"""The plain HTTP channel: strict bodies, tokens, routes and streams."""
