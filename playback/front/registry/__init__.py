"""The link registry on the front: what it answers to programs and to people.

    asking.py    what a request asks for, checked
    reading.py   the rows that answer it, as `answers.py` has them
    words.py     what is said of them, in the reader's language
    formats.py   one answer as JSON, XML, HTML or a gadget's JavaScript
    throttle.py  who may ask how often
    programs.py  the addresses for programs; `openapi.py` describes them
    people.py    the form and the lists

Nothing here asks the web for anything, and nothing makes a row for a URL or a page (W12, W28): the
one thing that a request may change is when its page was last asked for (W22, W34).
"""
