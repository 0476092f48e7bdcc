"""Registered here."""
