"""Small real implementations that stand in for Google Chat and a model server in the tests."""
