"""Tests of connectors as processes."""
