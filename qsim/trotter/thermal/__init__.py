"""``task: thermal``: averages over all states against temperature."""
