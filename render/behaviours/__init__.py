"""Behaviours: page interaction that makes all content load that a reader would see."""
