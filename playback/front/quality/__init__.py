"""Checks of copies on the front: the worst first, capture beside playback, and a person's verdict (U09).

asking.py    what a request asks for, checked
results.py   the checks that answer it, without those whose page may not be shown
words.py     what is said of them, in the reader's language
pictures.py  pictures of checks, and small ones for lists
rights.py    who may judge
acts.py      what they do
pages.py     the list and the single result
programs.py  the same as JSON
file.py      a report that is one file
"""
