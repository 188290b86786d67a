"""The judges of what sort of page a visit was shown, one module a sort; pure."""
