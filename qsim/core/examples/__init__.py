"""The decks that come with qsim: listed, copied, and compared with their reference numbers."""
