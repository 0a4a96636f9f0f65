"""What everything stands on: units, errors, findings, files, tables.  No GPU in it."""
