"""Tests of programs that use the outbox."""
