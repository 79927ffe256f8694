"""The law of connectors, held to what went wrong elsewhere: docs/reports.md says which test holds what."""
