"""``task: plane``: two coordinates."""
