"""Physics that several methods share: functions of one coordinate that a deck gives by a formula or a table."""
