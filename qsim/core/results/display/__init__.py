"""Results as a user sees them: text, tables and pages, figures of several runs, references."""
