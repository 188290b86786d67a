"""The steps, named by their numbers. One that was released is never changed again."""
