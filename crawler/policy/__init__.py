"""What is not archived although it is asked for, each time with the reason that is recorded."""
