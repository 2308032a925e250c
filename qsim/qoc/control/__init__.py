"""The control field: parameters and constraints, first fields, values between the steps."""
