"""Steps in two coordinates."""
