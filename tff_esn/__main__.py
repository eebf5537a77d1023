"""`python -m tff_esn` is `tff-esn`."""

from tff_esn.cli.main import main

if __name__ == "__main__":
    main()
