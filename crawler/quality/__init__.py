"""Checking whether the copies of captures show what their visitors saw."""
