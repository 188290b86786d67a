"""What is done on a page so that everything loads that a reader would see."""
