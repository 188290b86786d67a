"""What is looked for in a document: elements by their selector, and words of inline scripts."""

from render.classing import challenge, parked, walls

MARKS: dict[str, str] = {**challenge.MARKS, **walls.MARKS}
NEEDLES: tuple[str, ...] = (*challenge.NEEDLES, *parked.NEEDLES)
