"""`python -m crawler.cli` is `weboid`: how one command starts another."""

from crawler.cli import main

if __name__ == "__main__":
    main()
