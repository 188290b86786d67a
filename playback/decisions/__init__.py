"""What people and scanners decided about captures: take-downs, levels, verdicts."""
