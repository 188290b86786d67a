"""Level "full": captures with their scripts, on origins of their own, rewritten by pywb."""
