"""Links to archived copies next to the links of any HTML page."""
