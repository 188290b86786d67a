"""Entry point of `python -m weboid`."""

from weboid.cli.main import main

if __name__ == "__main__":
    main()
