"""How long a run takes: sections by their work, and the first steps by a clock."""
